#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// A PID fits into 22 bits (the kernel's PID_MAX_LIMIT is 2^22); the start time, in ticks since boot, into the rest.
#define PID_BITS 23u
#define PID_MASK SIM_PID_MASK

_Static_assert(sizeof(sim_mig_profile_t) == 104, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(sizeof(sim_board_t) == 1320, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(offsetof(sim_shared_t, boards) == 216, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(offsetof(sim_control_t, xids) == 72, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(offsetof(sim_control_t, is_generous) == 5328, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(offsetof(sim_shared_t, missing) == 21336, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(offsetof(sim_shared_t, controls) == 21848, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(sizeof(sim_control_t) == 5840, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(sizeof(sim_shared_t) == 35984984, "jupyter_vgpu/sim.py writes this layout");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "the file is shared between processes");

static uint32_t slowdown = 1;  // of the one file a process opens

uint64_t sim_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  return slowdown == 1 ? now_ns : now_ns / slowdown;
}

uint64_t sim_monotonic_of(uint64_t moment_ns)
{
  return moment_ns > UINT64_MAX / slowdown ? UINT64_MAX : moment_ns * slowdown;
}

static bool is_terminated(const char *text, size_t size)
{
  return memchr(text, 0, size) != NULL;
}

static bool is_usable(const sim_shared_t *shared)
{
  if (shared->magic != SIM_MAGIC || shared->layout != SIM_LAYOUT || shared->board_count < 1 ||
      shared->board_count > SIM_MAX_BOARDS || !is_terminated(shared->driver_version, sizeof shared->driver_version) ||
      !is_terminated(shared->nvml_version, sizeof shared->nvml_version)) {
    return false;
  }
  for (uint32_t i = 0; i < shared->board_count; i++) {
    const sim_board_t *board = &shared->boards[i];
    if (!is_terminated(board->name, sizeof board->name) || !is_terminated(board->serial, sizeof board->serial) ||
        board->reserved_bytes >= board->memory_bytes || board->sm_count == 0 ||
        board->mig_profile_count > SIM_MIG_PROFILES) {
      return false;
    }
  }
  return true;
}

sim_shared_t *sim_shared_open(void)
{
  const char *path = getenv("JUPYTER_VGPU_SIM");
  if (path == NULL || path[0] == 0) {
    return NULL;
  }
  const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    return NULL;
  }
  struct stat info;
  void       *mapping = MAP_FAILED;
  // A short file would be mapped all the same, and kill the process at the first touch of its end.
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size >= (off_t)sizeof(sim_shared_t)) {
    mapping = mmap(NULL, sizeof(sim_shared_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (mapping == MAP_FAILED) {
    return NULL;
  }
  if (!is_usable(mapping)) {
    munmap(mapping, sizeof(sim_shared_t));
    return NULL;
  }
  const sim_shared_t *shared = mapping;
  slowdown = shared->slowdown == 0 ? 1 : shared->slowdown;
  return mapping;
}

#define NOT_KNOWN UINT64_MAX

// returns: the start time of a living process in clock ticks since boot; 0 when it is gone or a zombie; NOT_KNOWN when
// it cannot be asked for at this moment, the caller having no descriptor left
// source: proc(5), /proc/pid/stat, fields 3 (state) and 22 (starttime)
static uint64_t start_time(pid_t pid)
{
  char path[32];
  char text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return errno == ENOENT ? 0 : NOT_KNOWN;
  }
  const ssize_t count = read(fd, text, sizeof text - 1);
  close(fd);
  if (count <= 0) {
    return 0;
  }
  text[count] = 0;
  // The name in field 2 may hold anything, a closing bracket too: fields are counted from the last one.
  const char *cursor = strrchr(text, ')');
  if (cursor == NULL || cursor[1] != ' ' || cursor[2] == 'Z' || cursor[2] == 'X') {
    return 0;
  }
  cursor += 2;
  for (int field = 3; field < 22 && cursor != NULL; field++) {
    cursor = strchr(cursor + 1, ' ');
  }
  const uint64_t ticks = cursor == NULL ? 0 : strtoull(cursor + 1, NULL, 10);
  return ticks == 0 ? 1 : ticks;
}

static uint64_t identity_of(pid_t pid)
{
  const uint64_t ticks = start_time(pid);
  return ticks == 0 || ticks == NOT_KNOWN ? 0 : (ticks << PID_BITS | (uint64_t)pid);
}

static _Atomic uint64_t own_identity;

static void forget_identity(void)
{
  atomic_store_explicit(&own_identity, 0, memory_order_relaxed);
}

static void watch_forks(void)
{
  pthread_atfork(NULL, NULL, forget_identity);
}

// Asked for with every lock: the system is asked once.
uint64_t sim_shared_identity(void)
{
  static pthread_once_t watches_forks = PTHREAD_ONCE_INIT;
  uint64_t              identity = atomic_load_explicit(&own_identity, memory_order_relaxed);
  if (identity == 0) {
    pthread_once(&watches_forks, watch_forks);
    identity = identity_of(getpid());
    atomic_store_explicit(&own_identity, identity, memory_order_relaxed);
  }
  return identity;
}

bool sim_shared_is_alive(uint64_t identity)
{
  // Nobody is buried on suspicion: a lane and a slot cannot be given back.
  const uint64_t ticks = identity == 0 ? 0 : start_time((pid_t)(identity & PID_MASK));
  return ticks == NOT_KNOWN || (ticks != 0 && ticks << PID_BITS == (identity & ~(uint64_t)PID_MASK));
}

void sim_domain_lock(sim_domain_t *domain)
{
  enum { SPINS = 50, PAUSE_NS = 20000, LOOK_AFTER = 50, STEAL_AFTER = 25000 };
  const uint64_t self = sim_shared_identity();
  uint64_t       holder = 0;
  for (uint32_t attempt = 0;; attempt++) {
    uint64_t seen = 0;
    if (atomic_compare_exchange_weak_explicit(&domain->lock, &seen, self, memory_order_acquire, memory_order_relaxed)) {
      return;
    }
    if (attempt < SPINS) {
      continue;
    }
    if (seen != holder) {
      holder = seen;
      attempt = SPINS;
    }
    // What it guards takes a microsecond. Who holds it for a millisecond may be dead, for half a second stopped.
    const bool is_over = attempt - SPINS > STEAL_AFTER ||
                         ((attempt - SPINS) % LOOK_AFTER == LOOK_AFTER - 1 && seen != 0 && !sim_shared_is_alive(seen));
    if (is_over && atomic_compare_exchange_strong(&domain->lock, &seen, self)) {
      return;
    }
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    nanosleep(&pause, NULL);
  }
}

void sim_domain_unlock(sim_domain_t *domain)
{
  uint64_t self = sim_shared_identity();
  atomic_compare_exchange_strong_explicit(&domain->lock, &self, 0, memory_order_release, memory_order_relaxed);
}

// Looks whether the holder of the turn lives, at most every half a millisecond, and now and then at all lanes.
static void bury_lanes(sim_turns_t *turns, uint64_t now_ns)
{
  enum { EVERY_NS = 500000, ALL_NS = 100000000 };
  const uint64_t self = sim_shared_identity();
  if (now_ns - turns->checked_ns < EVERY_NS) {
    return;
  }
  const bool all = now_ns / ALL_NS != turns->checked_ns / ALL_NS;
  turns->checked_ns = now_ns;
  for (uint32_t i = 0; i < SIM_LANES && i < turns->lane_count; i++) {
    const uint64_t owner = atomic_load(&turns->lanes[i].owner);
    if (owner != 0 && owner != self && (all || turns->holder == i + 1) && !sim_shared_is_alive(owner)) {
      sim_turns_drop_lane(turns, i);
    }
  }
}

uint64_t sim_domain_enter(sim_shared_t *shared, uint32_t number)
{
  sim_domain_t *domain = &shared->domains[number];
  sim_domain_lock(domain);
  const uint64_t now_ns = sim_now_ns();
  // Before the past is worked out: a dead holder's turn ended when it was last seen.
  bury_lanes(&domain->turns, now_ns);
  domain->turns.is_mps = atomic_load_explicit(&shared->controls[number / 8].is_mps, memory_order_relaxed);
  sim_turns_advance(domain, now_ns);
  return now_ns;
}

pid_t sim_shared_living_pid(sim_slot_t *slot)
{
  uint64_t owner = atomic_load(&slot->owner);
  if (owner == 0) {
    return 0;
  }
  if (sim_shared_is_alive(owner)) {
    return (pid_t)(owner & PID_MASK);
  }
  // Dead. Its figures are not read while the owner is 0, and the next owner clears them.
  atomic_compare_exchange_strong(&slot->owner, &owner, 0);
  return 0;
}

static void clear_uses(sim_slot_t *slot)
{
  for (uint32_t i = 0; i < SIM_MAX_BOARDS; i++) {
    sim_use_t *use = &slot->uses[i];
    atomic_store(&use->held_bytes, 0);
    atomic_store(&use->pending_bytes, 0);
    atomic_store(&use->contexts, 0);
    atomic_store(&use->instance, 0);
    atomic_store(&use->compute, 0);
  }
}

sim_slot_t *sim_shared_claim_slot(sim_shared_t *shared)
{
  const uint64_t identity = identity_of(getpid());
  for (uint32_t pass = 0; pass < 2 && identity != 0; pass++) {
    for (uint32_t i = 0; i < SIM_MAX_SLOTS; i++) {
      sim_slot_t *slot = &shared->slots[i];
      uint64_t    free_owner = 0;
      // The first pass takes free slots, the second looks for dead owners too.
      if (pass == 1) {
        sim_shared_living_pid(slot);
      }
      if (atomic_load(&slot->owner) != 0 || !atomic_compare_exchange_strong(&slot->owner, &free_owner, identity)) {
        continue;
      }
      clear_uses(slot);
      uint32_t count = atomic_load(&shared->slot_count);
      while (count < i + 1 && !atomic_compare_exchange_weak(&shared->slot_count, &count, i + 1)) {
      }
      return slot;
    }
  }
  return NULL;
}

void sim_shared_leave(sim_slot_t *slot)
{
  if (slot != NULL && (pid_t)(atomic_load(&slot->owner) & PID_MASK) == getpid()) {
    atomic_store(&slot->owner, 0);
  }
}

static uint32_t slots_in_use(sim_shared_t *shared)
{
  const uint32_t count = atomic_load(&shared->slot_count);
  return count > SIM_MAX_SLOTS ? SIM_MAX_SLOTS : count;
}

// Sums what owned slots hold; dead owners are counted too unless `bury` looks for them first.
static void sum(sim_shared_t *shared, uint32_t board, bool bury, const sim_slot_t *own, uint64_t *held,
                uint64_t *pending)
{
  *held = 0;
  *pending = 0;
  const uint32_t count = slots_in_use(shared);
  for (uint32_t i = 0; i < count; i++) {
    sim_slot_t *slot = &shared->slots[i];
    if (bury && slot != own) {
      sim_shared_living_pid(slot);
    }
    if (atomic_load(&slot->owner) != 0) {
      // Pending before held: a reservation that turns into a holding in between is counted twice, never not at all.
      *pending += atomic_load(&slot->uses[board].pending_bytes);
      *held += atomic_load(&slot->uses[board].held_bytes);
    }
  }
}

uint64_t sim_shared_used(sim_shared_t *shared, uint32_t board)
{
  uint64_t held = 0;
  uint64_t pending = 0;
  sum(shared, board, true, NULL, &held, &pending);
  const uint64_t capacity = sim_board_capacity(&shared->boards[board]);
  return held > capacity ? capacity : held;
}

uint64_t sim_shared_used_in(sim_shared_t *shared, uint32_t board, uint32_t instance)
{
  if (instance == 0) {
    return sim_shared_used(shared, board);
  }
  const sim_instance_t *part = &shared->controls[board].instances[(instance - 1) % SIM_MIG_INSTANCES];
  const uint64_t capacity = shared->boards[board].mig_profiles[part->profile % SIM_MIG_PROFILES].memory_mib << 20;
  uint64_t       held = 0;
  for (uint32_t i = 0; i < slots_in_use(shared); i++) {
    sim_slot_t *slot = &shared->slots[i];
    if (atomic_load(&slot->uses[board].instance) == instance && sim_shared_living_pid(slot) != 0) {
      held += atomic_load(&slot->uses[board].held_bytes);
    }
  }
  return held > capacity ? capacity : held;
}

bool sim_shared_reserve(sim_shared_t *shared, sim_slot_t *slot, uint32_t board, uint64_t bytes)
{
  const uint64_t capacity = sim_board_capacity(&shared->boards[board]);
  sim_use_t     *use = &slot->uses[board];
  if (bytes > capacity) {
    return false;
  }
  bool bury = false;
  for (uint32_t attempt = 0; attempt < 200; attempt++) {
    uint64_t held = 0;
    uint64_t pending = 0;
    // Announce, then look (both sequentially consistent): of two that race, at least one sees the other.
    atomic_store(&use->pending_bytes, bytes);
    sum(shared, board, bury, slot, &held, &pending);
    if (held + pending <= capacity) {
      atomic_fetch_add(&use->held_bytes, bytes);
      atomic_store(&use->pending_bytes, 0);
      return true;
    }
    atomic_store(&use->pending_bytes, 0);
    if (held + bytes > capacity && bury) {
      return false;
    }
    if (bury) {
      // It would fit but for others who are asking at this moment, which takes them microseconds; one that lost its
      // processor meanwhile gets a second. Who waits how long depends on the slot, so that two do not meet again.
      const uint64_t        place = (uint64_t)(slot - shared->slots);
      const struct timespec pause = {.tv_nsec =
                                         attempt < 100 ? (long)(1000 * (1 + (place + attempt * 7) % 64)) : 10000000};
      nanosleep(&pause, NULL);
    }
    bury = true;
  }
  return false;
}

void sim_shared_release(sim_slot_t *slot, uint32_t board, uint64_t bytes)
{
  atomic_fetch_sub(&slot->uses[board].held_bytes, bytes);
}
