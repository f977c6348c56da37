// What a process holds follows it from page to page while its threads allocate and free.

#define _GNU_SOURCE
#include "moving.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "check.h"

#define THREADS 4
#define MOVES 200
#define STEPS 20000u
#define LIMIT (UINT64_C(1) << 40)

static struct {
  jvgpu_control_t control[2];
  jvgpu_usage_t  *usage[2];
  jvgpu_slot_t   *slot;  // where the process is
  uint32_t        is_over;
} process;

static void make_pages(uint32_t which, uint32_t devices)
{
  jvgpu_control_t *control = &process.control[which];
  memset(control, 0, sizeof *control);
  control->state = JVGPU_CLAIM_BOUND;
  control->device_count = devices;
  control->slot_count = 1;
  for (uint32_t i = 0; i < devices; i++) {
    // The second claim names its devices in the other order.
    control->devices[i].uuid[0] = (uint8_t)(which == 0 ? i + 1 : devices - i);
    control->devices[i].memory_limit_bytes = LIMIT;
  }
  free(process.usage[which]);
  process.usage[which] = calloc(1, sizeof *process.usage[which]);
}

static void figures_go_to_the_device_of_the_same_name(void)
{
  make_pages(0, 2);
  make_pages(1, 2);
  jvgpu_slot_t *from = &process.usage[0]->slots[0];
  jvgpu_slot_t *to = &process.usage[1]->slots[7];
  jvgpu_left_t  left = {.control = &process.control[0], .slot = from};

  from->devices[0].held_bytes = 5;
  from->devices[0].launches = 3;
  from->devices[1].pending_bytes = 7;
  from->devices[1].blocked = 2;
  jvgpu_carry(&left, &process.control[1], to);
  CHECK("what is held is carried", to->devices[1].held_bytes == 5 && to->devices[1].launches == 3);
  CHECK("what is reserved is carried", to->devices[0].pending_bytes == 7 && to->devices[0].blocked == 2);
  CHECK("who has not moved yet goes on counting it", from->devices[0].held_bytes == 5);

  jvgpu_carry(&left, &process.control[1], to);
  CHECK("it is carried once", to->devices[1].held_bytes == 5 && to->devices[0].blocked == 2);

  // A call that was in the driver during the move ends: commit, and a free of what was held before.
  jvgpu_account_commit(from, 1, 7, 6);
  jvgpu_account_free(from, 0, 5);
  from->devices[1].blocked -= 2;
  jvgpu_carry(&left, &process.control[1], to);
  CHECK("what came late follows", to->devices[0].held_bytes == 6 && to->devices[0].pending_bytes == 0);
  CHECK("what went late follows", to->devices[1].held_bytes == 0 && to->devices[0].blocked == 0);
}

static void a_device_that_is_not_in_the_new_claim_is_not_carried(void)
{
  make_pages(0, 2);
  make_pages(1, 1);
  jvgpu_left_t left = {.control = &process.control[0], .slot = &process.usage[0]->slots[0]};
  left.slot->devices[0].held_bytes = 5;
  left.slot->devices[1].held_bytes = 9;

  jvgpu_carry(&left, &process.control[1], &process.usage[1]->slots[0]);

  CHECK("only what is in both", process.usage[1]->slots[0].devices[0].held_bytes == 5);
  CHECK("and nothing beside", process.usage[1]->slots[0].devices[1].held_bytes == 0);
}

// As charge.c does it: reserve in the slot that there is, withdraw where it has been left meanwhile.
static jvgpu_slot_t *reserve(uint64_t bytes)
{
  for (;;) {
    jvgpu_slot_t  *slot = __atomic_load_n(&process.slot, __ATOMIC_SEQ_CST);
    const uint32_t which = slot >= process.usage[0]->slots && slot < process.usage[0]->slots + JVGPU_MAX_SLOTS ? 0 : 1;
    const bool     fits = jvgpu_account_reserve(&process.control[which], process.usage[which], slot, 0, bytes);
    if (__atomic_load_n(&process.slot, __ATOMIC_SEQ_CST) == slot) {
      return fits ? slot : NULL;
    }
    if (fits) {
      jvgpu_account_cancel(slot, 0, bytes);
    }
  }
}

// Allocate and free, and in the end keep one byte per thread.
static void *work(void *seed)
{
  uint64_t held[8] = {0};
  uint32_t dice = (uint32_t)(uintptr_t)seed * 2654435761u + 1;
  bool     is_right = true;

  for (uint32_t step = 0; step < STEPS || __atomic_load_n(&process.is_over, __ATOMIC_ACQUIRE) == 0; step++) {
    dice = dice * 1664525u + 1013904223u;
    uint64_t *place = &held[(dice >> 16) % 8];
    if (*place != 0) {
      jvgpu_account_free(__atomic_load_n(&process.slot, __ATOMIC_ACQUIRE), 0, *place);
      *place = 0;
      continue;
    }
    const uint64_t bytes = (dice >> 8) % 1000 + 1;
    jvgpu_slot_t  *slot = reserve(bytes);
    if (slot == NULL) {
      is_right = false;
    } else if (dice % 5 == 0) {
      jvgpu_account_cancel(slot, 0, bytes);
    } else {
      jvgpu_account_commit(slot, 0, bytes, bytes);
      *place = bytes;
    }
  }
  for (uint32_t i = 0; i < 8; i++) {
    jvgpu_account_free(__atomic_load_n(&process.slot, __ATOMIC_ACQUIRE), 0, held[i]);
  }
  jvgpu_slot_t *slot = reserve(1);
  if (slot != NULL) {
    jvgpu_account_commit(slot, 0, 1, 1);
  }
  return is_right && slot != NULL ? process.usage[0] : NULL;
}

static void nothing_is_lost_whatever_the_threads_are_at(void)
{
  pthread_t    threads[THREADS];
  jvgpu_left_t left[MOVES];
  bool         all_right = true;

  make_pages(0, 1);
  make_pages(1, 1);
  memset(left, 0, sizeof left);
  process.slot = &process.usage[0]->slots[0];
  for (uintptr_t i = 0; i < THREADS; i++) {
    pthread_create(&threads[i], NULL, work, (void *)(i + 1));
  }
  for (uint32_t move = 0; move < MOVES; move++) {
    const uint32_t from = move % 2;
    // Every agent gives a slot that nobody has been in.
    jvgpu_slot_t *to = &process.usage[1 - from]->slots[1 + move / 2];
    left[move].control = &process.control[from];
    left[move].slot = process.slot;
    jvgpu_carry(&left[move], &process.control[1 - from], to);
    __atomic_store_n(&process.slot, to, __ATOMIC_SEQ_CST);
    for (uint32_t earlier = 0; earlier <= move; earlier++) {
      jvgpu_carry(&left[earlier], &process.control[1 - from], to);
    }
  }
  __atomic_store_n(&process.is_over, 1, __ATOMIC_RELEASE);
  for (uint32_t i = 0; i < THREADS; i++) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    all_right = all_right && result != NULL;
  }
  for (uint32_t move = 0; move < MOVES; move++) {
    jvgpu_carry(&left[move], &process.control[0], process.slot);
  }

  CHECK("every allocation was answered", all_right);
  CHECK("the last slot has what is held, to the byte", process.slot->devices[0].held_bytes == THREADS);
  CHECK("and nothing is reserved for ever", process.slot->devices[0].pending_bytes == 0);
}

int main(void)
{
  figures_go_to_the_device_of_the_same_name();
  a_device_that_is_not_in_the_new_claim_is_not_carried();
  nothing_is_lost_whatever_the_threads_are_at();
  free(process.usage[0]);
  free(process.usage[1]);
  RESULT();
}
