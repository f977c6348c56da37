#define _GNU_SOURCE
#include "pool_reserved.h"

#include <stddef.h>

#include "account.h"
#include "devices.h"
#include "graph_memory.h"
#include "pools.h"
#include "real.h"

// source: CUDA Driver API 13.0, CUmemPool_attribute.
#define ATTRIBUTE_RESERVED_CURRENT 5
#define ATTRIBUTE_USED_CURRENT 7

static bool bytes_of(CUmemoryPool pool, int attribute, uint64_t *bytes)
{
  return jvgpu_real.cuMemPoolGetAttribute != NULL &&
         jvgpu_real.cuMemPoolGetAttribute(pool, attribute, bytes) == CUDA_SUCCESS;
}

static bool reserved_bytes(CUmemoryPool pool, uint64_t *bytes)
{
  return bytes_of(pool, ATTRIBUTE_RESERVED_CURRENT, bytes);
}

bool jvgpu_pool_in_use(CUmemoryPool pool, uint64_t *bytes)
{
  return bytes_of(pool, ATTRIBUTE_USED_CURRENT, bytes);
}

uint64_t jvgpu_pool_recharge(jvgpu_process_t *self, jvgpu_pool_t *known, uint64_t now_bytes)
{
  jvgpu_slot_t  *slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE);
  const uint64_t before = known->charged_bytes;
  if (now_bytes == before) {
    return 0;
  }
  __atomic_store_n(&known->charged_bytes, now_bytes, __ATOMIC_RELAXED);
  // A pool that has anything counts as one allocation: nothing is kept per pointer.
  jvgpu_account_count(slot, known->device, (now_bytes != 0) - (before != 0));
  if (now_bytes >= before) {
    jvgpu_account_commit(slot, known->device, 0, now_bytes - before);
    return 0;
  }
  jvgpu_account_free(slot, known->device, before - now_bytes);
  return before - now_bytes;
}

// --- what a pool has reserved -----------------------------------------------------------------------------
//
// No lock is held while the driver answers, so an answer may be older than another thread's allocation. Questions are
// numbered: an answer counts only where no later question's has been charged. Who has allocated asks afterwards, so the
// answer to that question, and to each later one, has the allocation in it.

// returns: the question's number. pre: pool_lock is held. Until it is answered nobody destroys the pool.
static uint64_t ask(jvgpu_pool_t *known)
{
  __atomic_store_n(&known->looks, known->looks + 1, __ATOMIC_RELAXED);
  return ++known->asked;
}

// pre: pool_lock is held. returns: bytes given back.
static uint64_t answered(jvgpu_process_t *self, jvgpu_pool_t *known, uint64_t question, uint64_t now_bytes)
{
  uint64_t given_back = 0;
  if (question > known->answered) {
    known->answered = question;
    given_back = jvgpu_pool_recharge(self, known, now_bytes);
  }
  return given_back;
}

// pre: pool_lock is held.
static void asked(jvgpu_pool_t *known)
{
  // Release: who sees nobody ask sees what was charged.
  __atomic_store_n(&known->looks, known->looks - 1, __ATOMIC_RELEASE);
}

// Kept out of line, so that an allocation from a pool that has not grown saves no registers for it.
static __attribute__((noinline)) void ask_and_charge(jvgpu_process_t *self, jvgpu_pool_t *known, CUmemoryPool pool,
                                                     uint64_t bytes)
{
  uint64_t now_bytes = 0;
  jvgpu_lock(&self->pool_lock);
  const uint64_t question = ask(known);
  jvgpu_unlock(&self->pool_lock);
  const bool is_known = reserved_bytes(pool, &now_bytes);
  jvgpu_lock(&self->pool_lock);
  // Where the driver does not say: what was set aside, until it does.
  (void)answered(self, known, question, is_known ? now_bytes : known->charged_bytes + bytes);
  asked(known);
  jvgpu_unlock(&self->pool_lock);
}

void jvgpu_pool_charge_growth(jvgpu_process_t *self, jvgpu_pool_t *known, CUmemoryPool pool, uint64_t bytes)
{
  uint64_t now_bytes = 0;
  // Usually the pool has not grown, nobody else asks, and there is nothing to do.
  if (!reserved_bytes(pool, &now_bytes) || __atomic_load_n(&known->looks, __ATOMIC_ACQUIRE) != 0 ||
      now_bytes != __atomic_load_n(&known->charged_bytes, __ATOMIC_RELAXED)) {
    ask_and_charge(self, known, pool, bytes);
  }
}

// --- looks ------------------------------------------------------------------------------------------------

// returns: the pool, which stays as long as it is looked at; NULL when there is nothing to look at. *is_left: its
// program has left it.
static CUmemoryPool begin_look(jvgpu_process_t *self, jvgpu_pool_t *each, int device, uint64_t *question, bool *is_left)
{
  CUmemoryPool pool = NULL;
  if (__atomic_load_n(&each->pool, __ATOMIC_RELAXED) == NULL) {
    return NULL;
  }
  jvgpu_lock(&self->pool_lock);
  if (each->pool != NULL && each->is_going == 0 && (each->charged_bytes != 0 || each->is_left != 0) &&
      (device == JVGPU_NO_DEVICE || each->device == (uint32_t)device)) {
    pool = each->pool;
    *is_left = each->is_left != 0;
    *question = ask(each);
  }
  jvgpu_unlock(&self->pool_lock);
  return pool;
}

// `device` JVGPU_NO_DEVICE: every device.
static uint64_t look(jvgpu_process_t *self, int device, bool trim)
{
  uint64_t given_back = 0;
  for (size_t i = 0; i < JVGPU_MOST_POOLS; i++) {
    jvgpu_pool_t *each = &self->pools[i];
    uint64_t      question = 0;
    bool          is_left = false;
    CUmemoryPool  pool = begin_look(self, each, device, &question, &is_left);
    uint64_t      now_bytes = UINT64_MAX;
    uint64_t      in_use_bytes = UINT64_MAX;
    if (pool == NULL) {
      continue;
    }
    if (trim && jvgpu_real.cuMemPoolTrimTo != NULL) {
      (void)jvgpu_real.cuMemPoolTrimTo(pool, 0);
    }
    const bool is_known = reserved_bytes(pool, &now_bytes);
    const bool is_unused = is_left && jvgpu_pool_in_use(pool, &in_use_bytes) && in_use_bytes == 0 &&
                           __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) == 0;
    jvgpu_lock(&self->pool_lock);
    // Who makes a pool grow charges it.
    if (is_known && now_bytes < each->charged_bytes) {
      given_back += answered(self, each, question, now_bytes);
    }
    asked(each);
    // The last of several threads that look. The driver may have given the handle of a pool that is gone to a new one.
    const bool     destroys = is_unused && each->is_left != 0 && each->looks == 0 && each->is_going == 0;
    const uint64_t charged_bytes = each->charged_bytes;
    each->is_going = destroys ? 1 : each->is_going;
    jvgpu_unlock(&self->pool_lock);
    if (destroys && jvgpu_pool_end(self, each) == CUDA_SUCCESS) {
      given_back += charged_bytes;
    }
  }
  return given_back;
}

void jvgpu_pools_look(jvgpu_process_t *self)
{
  (void)look(self, JVGPU_NO_DEVICE, false);
  (void)jvgpu_graph_memory_look(self);
}

void jvgpu_pools_look_after_free(jvgpu_process_t *self)
{
  // What was freed on another stream may come back at a later wait only, and a pool that was left goes then.
  if (look(self, JVGPU_NO_DEVICE, false) != 0 && __atomic_load_n(&self->left_pools, __ATOMIC_RELAXED) == 0) {
    __atomic_store_n(&self->has_freed, 0, __ATOMIC_RELAXED);
  }
}

bool jvgpu_pools_trim(jvgpu_process_t *self, uint32_t device)
{
  // Nothing of ours happens while a capture lives: trimming might be unsafe for it.
  const bool     trim = __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) == 0;
  const uint64_t of_graphs = trim ? jvgpu_graph_memory_trim(self, device) : jvgpu_graph_memory_look(self);
  return look(self, (int)device, trim) + of_graphs != 0;
}
