#define _GNU_SOURCE
#include "pools.h"

#include <sched.h>
#include <stddef.h>

#include "account.h"
#include "attach.h"
#include "devices.h"
#include "graph_memory.h"
#include "pool_reserved.h"
#include "pool_table.h"
#include "real.h"

// source: CUDA Driver API 13.0, CUmemPool_attribute.
#define ATTRIBUTE_RELEASE_THRESHOLD 4

// Allocations between two looks at the agent's heartbeat.
#define ALLOCATIONS_A_LOOK 64u

// A pool grows in steps of 32 MiB (measured, H200, driver 580.159.04).
#define GROWTH_BYTES (UINT64_C(32) << 20)

void jvgpu_pool_created(jvgpu_process_t *self, CUmemoryPool pool, int device)
{
  jvgpu_pool_t *known = jvgpu_pool_find_or_add(self, pool, device);
  if (known == NULL) {
    return;
  }
  jvgpu_lock(&self->pool_lock);
  if (known->is_left != 0) {
    // The driver gives the handle out again: of the pool that had it nothing is left.
    jvgpu_pool_recharge(self, known, 0);
    known->is_left = 0;
    __atomic_fetch_sub(&self->left_pools, 1, __ATOMIC_RELAXED);
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

CUresult jvgpu_pool_end(jvgpu_process_t *self, jvgpu_pool_t *known)
{
  CUmemoryPool pool = known->pool;
  // The driver may give the handle out again before this thread is back.
  jvgpu_lock(&self->pool_lock);
  __atomic_store_n(&known->pool, jvgpu_pool_no_handle(known), __ATOMIC_RELEASE);
  jvgpu_unlock(&self->pool_lock);
  jvgpu_pool_use_changed(self);
  const CUresult result = jvgpu_real.cuMemPoolDestroy(pool);
  jvgpu_pool_use_changed(self);
  jvgpu_lock(&self->pool_lock);
  if (result == CUDA_SUCCESS) {
    jvgpu_pool_recharge(self, known, 0);
    __atomic_fetch_sub(&self->left_pools, known->is_left, __ATOMIC_RELAXED);
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
    const CUresult result = jvgpu_real.cuMemPoolDestroy(pool);
    jvgpu_pool_use_changed(self);
    return result;
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
  if (!jvgpu_pool_in_use(pool, &in_use_bytes) || in_use_bytes == 0) {
    return jvgpu_pool_end(self, known);
  }
  leave(self, known);
  jvgpu_lock(&self->pool_lock);
  known->is_left = 1;
  known->is_going = 0;
  __atomic_fetch_add(&self->left_pools, 1, __ATOMIC_RELAXED);
  jvgpu_unlock(&self->pool_lock);
  return CUDA_SUCCESS;
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
    if (__atomic_load_n(&known->pool, __ATOMIC_ACQUIRE) == taking->pool) {
      jvgpu_pool_charge_growth(charge->self, known, taking->pool, charge->bytes);
    }
  }
  jvgpu_account_cancel(charge->slot, (uint32_t)charge->device, charge->bytes);
  return result;
}
