#define _GNU_SOURCE
#include "account.h"

#include <sched.h>

// Two processes that ask for the last megabyte in the same instant both see the other's reservation
// and withdraw. They try again a few times, so that one of them gets it.
#define MOST_TRIES 32u

typedef struct sum_s {
  uint64_t total;    // held and pending of every slot, and overhead
  uint64_t pending;  // of that, reservations the driver has not answered
} sum_t;

static sum_t add_up(const jvgpu_control_t *control, const jvgpu_usage_t *usage, uint32_t device)
{
  uint32_t count = __atomic_load_n(&control->slot_count, __ATOMIC_SEQ_CST);
  sum_t    sum = {0, 0};

  count = count > JVGPU_MAX_SLOTS ? JVGPU_MAX_SLOTS : count;
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_use_t *use = &usage->slots[i].devices[device];
    // Pending before held: a commit adds to held first, so that it is seen twice rather than not at all.
    const uint64_t pending = __atomic_load_n(&use->pending_bytes, __ATOMIC_SEQ_CST);
    const uint64_t held = __atomic_load_n(&use->held_bytes, __ATOMIC_SEQ_CST);
    sum.pending += pending;
    sum.total += pending + held;
  }
  sum.total += __atomic_load_n(&control->devices[device].memory_overhead_bytes, __ATOMIC_RELAXED);
  return sum;
}

uint64_t jvgpu_account_used(const jvgpu_control_t *control, const jvgpu_usage_t *usage, uint32_t device)
{
  return add_up(control, usage, device).total;
}

bool jvgpu_account_reserve(const jvgpu_control_t *control, jvgpu_usage_t *usage, jvgpu_slot_t *slot, uint32_t device,
                           uint64_t bytes)
{
  jvgpu_use_t   *mine = &slot->devices[device];
  const uint64_t limit = __atomic_load_n(&control->devices[device].memory_limit_bytes, __ATOMIC_RELAXED);

  if (bytes > limit || __atomic_load_n(&control->state, __ATOMIC_RELAXED) != JVGPU_CLAIM_BOUND) {
    __atomic_fetch_add(&mine->refused, 1, __ATOMIC_RELAXED);
    return false;
  }
  for (uint32_t attempt = 0; attempt < MOST_TRIES; attempt++) {
    __atomic_fetch_add(&mine->pending_bytes, bytes, __ATOMIC_SEQ_CST);
    const sum_t sum = add_up(control, usage, device);
    if (sum.total <= limit) {
      return true;
    }
    __atomic_fetch_sub(&mine->pending_bytes, bytes, __ATOMIC_SEQ_CST);
    // Without the others' reservations it would fit: wait for them to be settled, each slot for a
    // different number of turns.
    const uint64_t others = sum.pending > bytes ? sum.pending - bytes : 0;
    if (sum.total - others > limit) {
      break;
    }
    for (uint64_t turn = 0; turn <= ((uint64_t)(slot - usage->slots) + attempt) % 7; turn++) {
      sched_yield();
    }
  }
  __atomic_fetch_add(&mine->refused, 1, __ATOMIC_RELAXED);
  return false;
}

void jvgpu_account_commit(jvgpu_slot_t *slot, uint32_t device, uint64_t reserved_bytes, uint64_t taken_bytes)
{
  __atomic_fetch_add(&slot->devices[device].held_bytes, taken_bytes, __ATOMIC_SEQ_CST);
  __atomic_fetch_sub(&slot->devices[device].pending_bytes, reserved_bytes, __ATOMIC_SEQ_CST);
}

void jvgpu_account_cancel(jvgpu_slot_t *slot, uint32_t device, uint64_t reserved_bytes)
{
  __atomic_fetch_sub(&slot->devices[device].pending_bytes, reserved_bytes, __ATOMIC_SEQ_CST);
}

void jvgpu_account_free(jvgpu_slot_t *slot, uint32_t device, uint64_t bytes)
{
  __atomic_fetch_sub(&slot->devices[device].held_bytes, bytes, __ATOMIC_SEQ_CST);
}

void jvgpu_account_count(jvgpu_slot_t *slot, uint32_t device, int64_t made)
{
  __atomic_fetch_add(&slot->devices[device].allocations, (uint64_t)made, __ATOMIC_RELAXED);
}
