#define _GNU_SOURCE
#include "moving.h"

#include <stddef.h>
#include <string.h>

// Every figure of a slot is changed by adding, and carried as a difference: modulo 2^64 it does not
// matter whether a thread adds to the old slot before, during or after the move. Held and pending come
// first: what a commit turns from one into the other is then seen twice rather than not at all.
#define FIGURES (offsetof(jvgpu_use_t, blocked) / sizeof(uint64_t))

static void carry_device(const jvgpu_use_t *from, jvgpu_use_t *carried, jvgpu_use_t *to)
{
  const uint64_t *source = (const uint64_t *)from;
  uint64_t       *done = (uint64_t *)carried;
  uint64_t       *target = (uint64_t *)to;

  for (size_t i = 0; i < FIGURES; i++) {
    const uint64_t now = __atomic_load_n(&source[i], __ATOMIC_SEQ_CST);
    if (now != done[i]) {
      __atomic_fetch_add(&target[i], now - done[i], __ATOMIC_SEQ_CST);
      done[i] = now;
    }
  }
  const uint32_t blocked = __atomic_load_n(&from->blocked, __ATOMIC_RELAXED);
  if (blocked != carried->blocked) {
    __atomic_fetch_add(&to->blocked, blocked - carried->blocked, __ATOMIC_RELAXED);
    carried->blocked = blocked;
  }
}

void jvgpu_carry(jvgpu_left_t *left, const jvgpu_control_t *control, jvgpu_slot_t *to)
{
  for (uint32_t from_index = 0; from_index < left->control->device_count; from_index++) {
    for (uint32_t to_index = 0; to_index < control->device_count; to_index++) {
      if (memcmp(control->devices[to_index].uuid, left->control->devices[from_index].uuid, JVGPU_UUID_BYTES) == 0) {
        carry_device(&left->slot->devices[from_index], &left->carried[from_index], &to->devices[to_index]);
      }
    }
  }
}
