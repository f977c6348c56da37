#define _GNU_SOURCE
#include "pools.h"

#include <sched.h>
#include <stddef.h>

#include "account.h"
#include "attach.h"
#include "devices.h"
#include "graph_memory.h"
#include "pool_table.h"
#include "real.h"

// source: CUDA Driver API 13.0, CUmemPool_attribute.
#define ATTRIBUTE_RELEASE_THRESHOLD 4
#define ATTRIBUTE_RESERVED_CURRENT 5
#define ATTRIBUTE_USED_CURRENT 7

// Allocations between two looks at the agent's heartbeat.
#define ALLOCATIONS_A_LOOK 64u

// A pool grows in steps of 32 MiB (measured, H200, driver 580.159.04).
#define GROWTH_BYTES (UINT64_C(32) << 20)

static bool bytes_of(CUmemoryPool pool, int attribute, uint64_t *bytes)
{
  return jvgpu_real.cuMemPoolGetAttribute != NULL &&
         jvgpu_real.cuMemPoolGetAttribute(pool, attribute, bytes) == CUDA_SUCCESS;
}

static bool reserved_bytes(CUmemoryPool pool, uint64_t *bytes)
{
  return bytes_of(pool, ATTRIBUTE_RESERVED_CURRENT, bytes);
}

// Bring a pool's charge to `now_bytes`. pre: pool_lock is held.
// returns: bytes given back.
static uint64_t recharge(jvgpu_process_t *self, jvgpu_pool_t *known, uint64_t now_bytes)
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
    given_back = recharge(self, known, now_bytes);
  }
  return given_back;
}

// pre: pool_lock is held.
static void asked(jvgpu_pool_t *known)
{
  // Release: who sees nobody ask sees what was charged.
  __atomic_store_n(&known->looks, known->looks - 1, __ATOMIC_RELEASE);
}

// Charge what the pool has after an allocation for which `bytes` were set aside. Kept out of line, so that an allocation
// from a pool that has not grown saves no registers for it.
static __attribute__((noinline)) void charge_growth(jvgpu_process_t *self, jvgpu_pool_t *known, CUmemoryPool pool,
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

// returns: whether the pool has grown or somebody else asks; usually not, and then there is nothing to do.
static bool may_have_grown(const jvgpu_pool_t *known, CUmemoryPool pool)
{
  uint64_t now_bytes = 0;
  return !reserved_bytes(pool, &now_bytes) || __atomic_load_n(&known->looks, __ATOMIC_ACQUIRE) != 0 ||
         now_bytes != __atomic_load_n(&known->charged_bytes, __ATOMIC_RELAXED);
}

void jvgpu_pool_created(jvgpu_process_t *self, CUmemoryPool pool, int device)
{
  jvgpu_pool_t *known = jvgpu_pool_find_or_add(self, pool, device);
  if (known == NULL) {
    return;
  }
  jvgpu_lock(&self->pool_lock);
  if (known->is_left != 0) {
    // The driver gives the handle out again: of the pool that had it nothing is left.
    recharge(self, known, 0);
    known->is_left = 0;
    self->left_pools--;
  }
  known->device = (uint32_t)device;
  known->is_made = 1;
  jvgpu_unlock(&self->pool_lock);
}

// --- pools that go ----------------------------------------------------------------------------------------
//
// The driver is never asked about a pool that it was told to destroy, nor about memory of one. A process that did ended in
// cuMemPoolDestroy of the next pool (H200, driver 580.159.04); whether for that is not known: the same calls by the driver
// alone end none (benchmarks/memory/orphan_pool.py). Who asks is counted in `looks`, and who destroys waits for
// them. A pool of which something is in use when its program destroys it is `left`: the driver is told once nothing of it
// is in use any more.

// Destroy a pool that nobody asks about. pre: is_going, and looks is 0. returns: the driver's answer.
static CUresult destroy(jvgpu_process_t *self, jvgpu_pool_t *known)
{
  CUmemoryPool pool = known->pool;
  // The driver may give the handle out again before this thread is back.
  __atomic_store_n(&known->pool, jvgpu_pool_no_handle(known), __ATOMIC_RELEASE);
  jvgpu_pool_use_changed(self);
  const CUresult result = jvgpu_real.cuMemPoolDestroy(pool);
  jvgpu_pool_use_changed(self);
  jvgpu_lock(&self->pool_lock);
  if (result == CUDA_SUCCESS) {
    recharge(self, known, 0);
    self->left_pools -= known->is_left;
    known->is_left = 0;
    __atomic_store_n(&known->pool, NULL, __ATOMIC_RELEASE);
  } else {
    known->is_going = 0;
    __atomic_store_n(&known->pool, pool, __ATOMIC_RELEASE);
  }
  jvgpu_unlock(&self->pool_lock);
  return result;
}

// What destroying does at once: no allocation gets memory of the pool any more, and it keeps nothing that is free.
static void leave(jvgpu_process_t *self, const jvgpu_pool_t *known)
{
  uint64_t keep_bytes = 0;
  if (jvgpu_real.cuMemPoolSetAttribute != NULL) {
    (void)jvgpu_real.cuMemPoolSetAttribute(known->pool, ATTRIBUTE_RELEASE_THRESHOLD, &keep_bytes);
  }
  // source: CUDA Driver API 13.0, cuMemPoolDestroy: a device whose current pool goes has its default one again.
  for (CUdevice dev = 0; jvgpu_real.cuDeviceGetMemPool != NULL && jvgpu_real.cuDeviceGetDefaultMemPool != NULL &&
                         jvgpu_real.cuDeviceSetMemPool != NULL && dev < (CUdevice)self->ordinals;
       dev++) {
    CUmemoryPool current = NULL;
    CUmemoryPool its_own = NULL;
    if (jvgpu_real.cuDeviceGetMemPool(&current, dev) == CUDA_SUCCESS && current == known->pool &&
        jvgpu_real.cuDeviceGetDefaultMemPool(&its_own, dev) == CUDA_SUCCESS) {
      (void)jvgpu_real.cuDeviceSetMemPool(dev, its_own);
    }
  }
  jvgpu_pool_use_changed(self);
}

CUresult jvgpu_pool_destroy(jvgpu_process_t *self, CUmemoryPool pool)
{
  uint64_t      in_use_bytes = 0;
  jvgpu_pool_t *known = jvgpu_pool_find(self, pool);
  bool          is_asked;
  // A device's own pool is no program's to destroy: the driver says so.
  if (known == NULL || known->is_made == 0) {
    return jvgpu_real.cuMemPoolDestroy(pool);
  }
  jvgpu_lock(&self->pool_lock);
  const bool is_first = known->pool == pool && known->is_left == 0 && known->is_going == 0;
  known->is_going = is_first ? 1 : known->is_going;
  jvgpu_unlock(&self->pool_lock);
  if (!is_first) {
    return CUDA_ERROR_INVALID_VALUE;  // destroyed already
  }
  do {
    jvgpu_lock(&self->pool_lock);
    is_asked = known->looks != 0;
    jvgpu_unlock(&self->pool_lock);
    if (is_asked) {
      sched_yield();
    }
  } while (is_asked);
  if (!bytes_of(pool, ATTRIBUTE_USED_CURRENT, &in_use_bytes) || in_use_bytes == 0) {
    return destroy(self, known);
  }
  leave(self, known);
  jvgpu_lock(&self->pool_lock);
  known->is_left = 1;
  known->is_going = 0;
  self->left_pools++;
  jvgpu_unlock(&self->pool_lock);
  return CUDA_SUCCESS;
}

// returns: the pool, which stays as long as it is looked at; NULL when there is nothing to look at.
static CUmemoryPool begin_look(jvgpu_process_t *self, jvgpu_pool_t *each, int device, uint64_t *question)
{
  CUmemoryPool pool = NULL;
  if (__atomic_load_n(&each->pool, __ATOMIC_RELAXED) == NULL) {
    return NULL;
  }
  jvgpu_lock(&self->pool_lock);
  if (each->pool != NULL && each->is_going == 0 && (each->charged_bytes != 0 || each->is_left != 0) &&
      (device == JVGPU_NO_DEVICE || each->device == (uint32_t)device)) {
    pool = each->pool;
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
    CUmemoryPool  pool = begin_look(self, each, device, &question);
    uint64_t      now_bytes = UINT64_MAX;
    uint64_t      in_use_bytes = UINT64_MAX;
    if (pool == NULL) {
      continue;
    }
    if (trim && jvgpu_real.cuMemPoolTrimTo != NULL) {
      (void)jvgpu_real.cuMemPoolTrimTo(pool, 0);
    }
    const bool is_known = reserved_bytes(pool, &now_bytes);
    const bool is_unused = each->is_left != 0 && bytes_of(pool, ATTRIBUTE_USED_CURRENT, &in_use_bytes) &&
                           in_use_bytes == 0 && __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) == 0;
    jvgpu_lock(&self->pool_lock);
    // Who makes a pool grow charges it.
    if (is_known && now_bytes < each->charged_bytes) {
      given_back += answered(self, each, question, now_bytes);
    }
    asked(each);
    // The last of several threads that look.
    const bool     destroys = is_unused && each->looks == 0 && each->is_going == 0;
    const uint64_t charged_bytes = each->charged_bytes;
    each->is_going = destroys ? 1 : each->is_going;
    jvgpu_unlock(&self->pool_lock);
    if (destroys && destroy(self, each) == CUDA_SUCCESS) {
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

// --- one allocation -----------------------------------------------------------------------------------------

// A pool too many to keep count of gets nothing: less, never more.
static __attribute__((noinline)) int device_of_new(jvgpu_process_t *self, CUmemoryPool pool)
{
  const int device = jvgpu_pool_device(self, pool);
  if (device == JVGPU_ON_HOST) {
    (void)jvgpu_pool_find_or_add(self, pool, device);
    return device;
  }
  return jvgpu_pool_find(self, NULL) != NULL ? device : JVGPU_NO_DEVICE;
}

bool jvgpu_pool_begin(jvgpu_pool_charge_t *taking, CUmemoryPool pool, uint64_t bytes, CUstream stream,
                      CUresult (*is_capturing)(CUstream, int *))
{
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_pool_t    *known = NULL;
  taking->charge.self = NULL;
  if (self == NULL || bytes == 0) {
    return true;
  }
  if (jvgpu_is_captured(self, stream, is_capturing)) {
    jvgpu_graph_memory_seen(self);
    return true;
  }
  // The clock that a look at the agent needs is dear here; a plain allocation looks each time.
  if (jvgpu_tick(self, ALLOCATIONS_A_LOOK)) {
    jvgpu_attach_renew(self);
    // Should a program have a way to set a device's pool that we do not know.
    jvgpu_pool_use_changed(self);
  }
  if (!jvgpu_pool_choose(self, &pool, stream, &known)) {
    return true;
  }
  const int device = known != NULL ? (int)known->device : device_of_new(self, pool);
  if (device == JVGPU_ON_HOST) {
    return true;
  }
  taking->known = known;
  taking->pool = pool;
  taking->charge.self = self;
  taking->charge.device = device;
  // The pool may have to grow for this; how far, only the driver knows, but not beyond whole steps.
  taking->charge.bytes = bytes > UINT64_MAX - GROWTH_BYTES ? UINT64_MAX : (bytes / GROWTH_BYTES + 1) * GROWTH_BYTES;
  return jvgpu_charge_reserve(&taking->charge);
}

// A pool is noted when something was taken from it: of those that the driver gives nothing from, another process's among
// them, no place is kept.
// returns: NULL where there is none left; then what was set aside stays so until the process ends.
static __attribute__((noinline)) jvgpu_pool_t *noted(const jvgpu_pool_charge_t *taking)
{
  return jvgpu_pool_find_or_add(taking->charge.self, taking->pool, taking->charge.device);
}

CUresult jvgpu_pool_settle(const jvgpu_pool_charge_t *taking, CUresult result)
{
  const jvgpu_charge_t *charge = &taking->charge;
  if (charge->self == NULL) {
    return result;
  }
  if (result == CUDA_SUCCESS) {
    jvgpu_pool_t *known = taking->known != NULL ? taking->known : noted(taking);
    if (known == NULL) {
      return result;
    }
    // Unless it was destroyed meanwhile.
    if (__atomic_load_n(&known->pool, __ATOMIC_ACQUIRE) == taking->pool && may_have_grown(known, taking->pool)) {
      charge_growth(charge->self, known, taking->pool, charge->bytes);
    }
  }
  jvgpu_account_cancel(charge->slot, (uint32_t)charge->device, charge->bytes);
  return result;
}
