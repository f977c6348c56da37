// The account: a tenant's memory over its processes, in pages as the agent makes them.

#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "account.h"
#include "agent_api.h"
#include "check.h"

#define MIB (UINT64_C(1) << 20)

static jvgpu_tenant_t  *tenant;
static jvgpu_control_t *control;
static jvgpu_usage_t   *usage;

static void make_pages(uint64_t limit_bytes)
{
  const uint8_t uuid[16] = {1};
  tenant = jvgpu_tenant_create(1);
  jvgpu_tenant_set_device(tenant, 0, uuid, limit_bytes, 250000, 1000000);
  control = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, jvgpu_tenant_control_fd(tenant), 0);
  usage = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED, jvgpu_tenant_usage_fd(tenant), 0);
}

static void drop_pages(void)
{
  munmap(control, sizeof *control);
  munmap(usage, sizeof *usage);
  jvgpu_tenant_destroy(tenant);
}

static jvgpu_slot_t *take_slot(uint32_t pid)
{
  uint32_t generation;
  return &usage->slots[jvgpu_tenant_slot_take(tenant, pid, &generation)];
}

static void the_limit_holds_over_processes(void)
{
  make_pages(100 * MIB);
  jvgpu_slot_t *a = take_slot(11);
  jvgpu_slot_t *b = take_slot(12);

  CHECK("what fits is granted", jvgpu_account_reserve(control, usage, a, 0, 60 * MIB));
  CHECK("a reservation counts for the others", !jvgpu_account_reserve(control, usage, b, 0, 41 * MIB));
  jvgpu_account_commit(a, 0, 60 * MIB, 58 * MIB);
  CHECK("what the driver took counts, not what was asked", jvgpu_account_used(control, usage, 0) == 58 * MIB);
  CHECK("exactly the rest is granted", jvgpu_account_reserve(control, usage, b, 0, 42 * MIB));
  CHECK("not a byte more", !jvgpu_account_reserve(control, usage, a, 0, 1));
  jvgpu_account_cancel(b, 0, 42 * MIB);
  jvgpu_account_free(a, 0, 58 * MIB);
  CHECK("all of it comes back", jvgpu_account_used(control, usage, 0) == 0);
  CHECK("refusals are counted", a->devices[0].refused == 1 && b->devices[0].refused == 1);
  drop_pages();
}

static void overhead_and_the_dead_count_rightly(void)
{
  make_pages(100 * MIB);
  jvgpu_slot_t *a = take_slot(11);
  jvgpu_slot_t *b = take_slot(12);

  jvgpu_tenant_set_overhead(tenant, 0, 30 * MIB);
  CHECK("overhead takes room", !jvgpu_account_reserve(control, usage, a, 0, 71 * MIB));
  CHECK("what is left of it is there", jvgpu_account_reserve(control, usage, a, 0, 70 * MIB));
  jvgpu_tenant_slot_clear(tenant, (uint32_t)(a - usage->slots));
  CHECK("a dead process's reservation is gone", jvgpu_account_reserve(control, usage, b, 0, 70 * MIB));
  jvgpu_account_cancel(b, 0, 70 * MIB);
  jvgpu_tenant_release(tenant);
  CHECK("a released claim grants nothing", !jvgpu_account_reserve(control, usage, b, 0, 1));
  drop_pages();
}

static void sizes_that_wrap_are_refused(void)
{
  // catches a bug where -1 was read as 16 EiB (CASES 5)
  make_pages(100 * MIB);
  jvgpu_slot_t *a = take_slot(11);

  CHECK("more than the limit is refused", !jvgpu_account_reserve(control, usage, a, 0, UINT64_MAX));
  CHECK("and leaves nothing behind", jvgpu_account_used(control, usage, 0) == 0);
  drop_pages();
}

static void two_processes_never_pass_it_together(void)
{
  // catches a bug where two processes both pass the check and together exceed the limit (CASES 6)
  int       above = 0;
  int       nobody = 0;
  uint32_t *barrier = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

  make_pages(100 * MIB);
  jvgpu_slot_t *slots[2] = {take_slot(11), take_slot(12)};
  for (int round = 0; round < 500; round++) {
    pid_t children[2];
    int   granted = 0;
    *barrier = 0;
    for (int i = 0; i < 2; i++) {
      children[i] = fork();
      if (children[i] == 0) {
        __atomic_fetch_add(barrier, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(barrier, __ATOMIC_SEQ_CST) < 2) {
          sched_yield();
        }
        const bool mine = jvgpu_account_reserve(control, usage, slots[i], 0, 60 * MIB);
        if (mine) {
          jvgpu_account_commit(slots[i], 0, 60 * MIB, 60 * MIB);
        }
        _exit(mine ? 1 : 0);
      }
    }
    for (int i = 0; i < 2; i++) {
      int status;
      waitpid(children[i], &status, 0);
      granted += WEXITSTATUS(status);
    }
    above += granted > 1;
    nobody += granted == 0;
    memset(&slots[0]->devices[0], 0, sizeof slots[0]->devices[0]);
    memset(&slots[1]->devices[0], 0, sizeof slots[1]->devices[0]);
  }
  CHECK("a barrier-started pair never both gets the last 60 of 100 MiB", above == 0);
  CHECK("and one of them does", nobody == 0);
  drop_pages();
  munmap(barrier, 4096);
}

int main(void)
{
  the_limit_holds_over_processes();
  overhead_and_the_dead_count_rightly();
  sizes_that_wrap_are_refused();
  two_processes_never_pass_it_together();
  RESULT();
}
