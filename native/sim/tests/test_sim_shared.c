// The state file between processes: nobody takes more than there is, and the dead hold nothing.

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"
#include "state.h"

enum { RIVALS = 4, ROUNDS = 20000 };
#define BOARD_BYTES (100ull << 20)

typedef struct rivals_s {
  _Atomic uint64_t together;  // bytes granted at this moment, kept by the test itself
  _Atomic uint32_t excesses;
  _Atomic uint32_t granted;
  _Atomic uint32_t refused;
  _Atomic uint32_t ready;
} rivals_t;

// Takes 30 of 100 MiB again and again: three of the four fit at a time, never all.
static void compete(sim_shared_t *shared, rivals_t *rivals)
{
  sim_slot_t    *slot = sim_shared_claim_slot(shared);
  const uint64_t bytes = 30ull << 20;
  rivals->ready++;
  while (rivals->ready < RIVALS) {
    usleep(100);
  }
  for (int i = 0; i < ROUNDS; i++) {
    if (!sim_shared_reserve(shared, slot, 0, bytes)) {
      rivals->refused++;
      continue;
    }
    rivals->granted++;
    if (atomic_fetch_add(&rivals->together, bytes) + bytes > BOARD_BYTES) {
      rivals->excesses++;
    }
    if (i % 16 == 0) {
      usleep(1);  // let the others in while this one holds
    }
    atomic_fetch_sub(&rivals->together, bytes);
    sim_shared_release(slot, 0, bytes);
  }
}

static void check_race(sim_shared_t *shared)
{
  rivals_t *rivals = mmap(NULL, sizeof *rivals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t     pids[RIVALS];
  for (int i = 0; i < RIVALS; i++) {
    pids[i] = fork();
    if (pids[i] == 0) {
      compete(shared, rivals);
      _exit(0);
    }
  }
  for (int i = 0; i < RIVALS; i++) {
    waitpid(pids[i], NULL, 0);
  }
  CHECK("rivals never hold more than the board together", rivals->excesses == 0);
  CHECK("rivals do get memory", rivals->granted > ROUNDS);
  CHECK("the board was full at times", rivals->refused > 0);
  printf("%u granted, %u refused\n", rivals->granted, rivals->refused);
  CHECK("processes that ended hold nothing", sim_shared_used(shared, 0) == 0);
}

static void check_fit(sim_shared_t *shared)
{
  // Two that fit together are never refused because they asked at the same moment.
  rivals_t *rivals = mmap(NULL, sizeof *rivals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t     pids[2];
  for (int i = 0; i < 2; i++) {
    pids[i] = fork();
    if (pids[i] == 0) {
      sim_slot_t *slot = sim_shared_claim_slot(shared);
      for (int round = 0; round < ROUNDS; round++) {
        if (sim_shared_reserve(shared, slot, 0, BOARD_BYTES / 2)) {
          sim_shared_release(slot, 0, BOARD_BYTES / 2);
        } else {
          rivals->refused++;
        }
      }
      _exit(0);
    }
  }
  waitpid(pids[0], NULL, 0);
  waitpid(pids[1], NULL, 0);
  CHECK("two halves always fit", rivals->refused == 0);
}

// Start a child that takes the whole board and keeps it until it is killed. returns: its id, -1 = it has none.
static pid_t start_holder(sim_shared_t *shared)
{
  int  ready[2];
  char byte = 0;
  if (pipe(ready) != 0) {
    CHECK("a pipe", 0);
    return -1;
  }
  const pid_t pid = fork();
  if (pid == 0) {
    byte = (char)sim_shared_reserve(shared, sim_shared_claim_slot(shared), 0, BOARD_BYTES);
    if (write(ready[1], &byte, 1) == 1) {
      pause();
    }
    _exit(1);
  }
  CHECK("the child took the whole board", read(ready[0], &byte, 1) == 1 && byte == 1);
  close(ready[0]);
  close(ready[1]);
  return pid;
}

static void check_killed(sim_shared_t *shared)
{
  const pid_t pid = start_holder(shared);
  if (pid < 0) {
    return;
  }
  sim_slot_t *slot = sim_shared_claim_slot(shared);
  CHECK("a full board refuses", !sim_shared_reserve(shared, slot, 0, 1));
  CHECK("what a living process holds is counted", sim_shared_used(shared, 0) == BOARD_BYTES);
  kill(pid, SIGKILL);
  siginfo_t info;
  waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);  // dead, and still a zombie
  CHECK("a killed process holds nothing, even before its parent looks", sim_shared_used(shared, 0) == 0);
  CHECK("its memory is there to be taken", sim_shared_reserve(shared, slot, 0, BOARD_BYTES));
  sim_shared_leave(slot);
  waitpid(pid, NULL, 0);
  CHECK("who leaves holds nothing", sim_shared_used(shared, 0) == 0);
}

// Catches a bug where a process without a descriptor left took all others for dead, and their memory from them.
static void check_descriptors(sim_shared_t *shared)
{
  const pid_t pid = start_holder(shared);
  if (pid < 0) {
    return;
  }
  struct rlimit limit;
  sim_slot_t   *slot = sim_shared_claim_slot(shared);
  getrlimit(RLIMIT_NOFILE, &limit);
  const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const uint64_t used = sim_shared_used(shared, 0);
  const bool     got = sim_shared_reserve(shared, slot, 0, 1);
  setrlimit(RLIMIT_NOFILE, &limit);
  CHECK("who has no descriptor left sees what others hold", used == BOARD_BYTES);
  CHECK("and takes nothing from them", !got && sim_shared_used(shared, 0) == BOARD_BYTES);
  sim_shared_leave(slot);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  CHECK("a dead one is buried again", sim_shared_used(shared, 0) == 0);
}

static void check_files(char *path)
{
  CHECK("a state file cut short is not one", truncate(path, 4096) == 0 && sim_shared_open() == NULL);
  setenv("JUPYTER_VGPU_SIM", "/nonexistent/state", 1);
  CHECK("a missing file is no board", sim_shared_open() == NULL);
  setenv("JUPYTER_VGPU_SIM", "/", 1);
  CHECK("a folder is no board", sim_shared_open() == NULL);
  setenv("JUPYTER_VGPU_SIM", "/dev/zero", 1);
  CHECK("a device is no board", sim_shared_open() == NULL);
  unsetenv("JUPYTER_VGPU_SIM");
  CHECK("no variable, no board", sim_shared_open() == NULL);
}

int main(void)
{
  char         *path = state_write(1, BOARD_BYTES);
  sim_shared_t *shared = path == NULL ? NULL : sim_shared_open();
  CHECK("a state file opens", shared != NULL);
  if (shared != NULL) {
    check_race(shared);
    check_fit(shared);
    check_killed(shared);
    check_descriptors(shared);
    check_files(path);
    unlink(path);
  }
  RESULT();
}
