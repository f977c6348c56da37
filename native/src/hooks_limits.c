// Limits of a context that are memory of the device: the heap of `malloc` in device code, the buffer of `printf`, the
// stacks. Charged when they are set, from what a context has by itself; the driver takes it then or at a launch.

#define _GNU_SOURCE
#include <stddef.h>

#include "account.h"
#include "charge.h"
#include "devices.h"
#include "hooks.h"
#include "own_limits.h"

// --- what a context has by itself ----------------------------------------------------------------------------
//
// It is in the context's overhead. Drivers and boards differ in it, so it is what the driver says before this process
// first sets a limit in a context.

// A context is an object of many bytes: no key meets another's, nor a pointer.
static uint64_t key_of(CUcontext ctx, int limit)
{
  return (uint64_t)(uintptr_t)ctx + (uint64_t)limit;
}

static bool find_own(jvgpu_process_t *self, uint64_t key, uint64_t *value)
{
  jvgpu_lock(&self->own_limits_lock);
  const jvgpu_record_t *found = jvgpu_table_find(&self->own_limits, key);
  if (found != NULL) {
    *value = found->bytes;
  }
  jvgpu_unlock(&self->own_limits_lock);
  return found != NULL;
}

// To be asked before the driver sets the limit. Where it does not say, 0: all is charged.
// threads: of two that set a limit for the first time, who noted it first has what the context had.
static uint64_t own_limit(jvgpu_process_t *self, CUcontext ctx, int limit)
{
  const uint64_t key = key_of(ctx, limit);
  size_t         now = 0;
  uint64_t       own = 0;
  if (find_own(self, key, &own)) {
    return own;
  }
  if (jvgpu_real.cuCtxGetLimit == NULL || jvgpu_real.cuCtxGetLimit(&now, limit) != CUDA_SUCCESS) {
    return 0;
  }
  const jvgpu_record_t record = {.key = key, .bytes = now};
  jvgpu_lock(&self->own_limits_lock);
  if (jvgpu_table_find(&self->own_limits, key) == NULL) {
    (void)jvgpu_table_put(&self->own_limits, &record);
  }
  jvgpu_unlock(&self->own_limits_lock);
  // Not noted, for want of host memory: all is charged.
  return find_own(self, key, &own) ? own : 0;
}

void jvgpu_limits_forget(jvgpu_process_t *self, CUcontext ctx, jvgpu_own_limits_t *own)
{
  *own = (jvgpu_own_limits_t){.had = {{.key = 0}}};
  jvgpu_lock(&self->own_limits_lock);
  for (int limit = 0; limit <= CU_LIMIT_MALLOC_HEAP_SIZE; limit++) {
    (void)jvgpu_table_take(&self->own_limits, key_of(ctx, limit), &own->had[limit]);
  }
  jvgpu_unlock(&self->own_limits_lock);
}

void jvgpu_limits_remember(jvgpu_process_t *self, const jvgpu_own_limits_t *own)
{
  jvgpu_lock(&self->own_limits_lock);
  for (int limit = 0; limit <= CU_LIMIT_MALLOC_HEAP_SIZE; limit++) {
    if (own->had[limit].key != 0) {
      (void)jvgpu_table_put(&self->own_limits, &own->had[limit]);
    }
  }
  jvgpu_unlock(&self->own_limits_lock);
}

// --- charged ---------------------------------------------------------------------------------------------

// Threads that have a stack at the same time.
static uint64_t threads_of(CUdevice dev)
{
  int multiprocessors = 0;
  int threads = 0;
  if (jvgpu_real.cuDeviceGetAttribute == NULL ||
      jvgpu_real.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev) !=
          CUDA_SUCCESS ||
      jvgpu_real.cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, dev) !=
          CUDA_SUCCESS) {
    return 0;
  }
  return (uint64_t)multiprocessors * (uint64_t)threads;
}

// returns: device memory that the limit is worth, beyond what the context has by itself.
static uint64_t worth(int limit, uint64_t value, uint64_t own, CUdevice dev)
{
  const uint64_t times = limit == CU_LIMIT_STACK_SIZE ? threads_of(dev) : 1;
  uint64_t       bytes = 0;
  if (value <= own) {
    return 0;
  }
  return __builtin_mul_overflow(value - own, times, &bytes) ? UINT64_MAX : jvgpu_charge_in_blocks(bytes);
}

// What the limit was raised to: the driver rounds. Where it cannot be asked, what was asked for.
static uint64_t raised_to(int limit, size_t asked)
{
  size_t value = asked;
  return jvgpu_real.cuCtxGetLimit != NULL && jvgpu_real.cuCtxGetLimit(&value, limit) == CUDA_SUCCESS ? value : asked;
}

static CUresult set(jvgpu_process_t *self, CUcontext ctx, CUdevice dev, int limit, size_t value)
{
  const uint64_t key = key_of(ctx, limit);
  const uint64_t own = own_limit(self, ctx, limit);
  const uint64_t wanted = worth(limit, value, own, dev);
  jvgpu_record_t before = {.bytes = 0};
  const bool     is_raised = jvgpu_ledger_take(&self->pointers, key, &before);
  jvgpu_charge_t charge = {.self = NULL};
  if (wanted > before.bytes) {
    charge = jvgpu_charge_begin_on(self, jvgpu_device_of(self, dev), wanted - before.bytes);
  }
  CUresult       result = charge.refused ? CUDA_ERROR_OUT_OF_MEMORY : jvgpu_real.cuCtxSetLimit(limit, value);
  const uint64_t taken = result == CUDA_SUCCESS ? worth(limit, raised_to(limit, value), own, dev) : 0;
  if (taken != 0) {
    const jvgpu_charge_t now = {.self = self,
                                .slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE),
                                .device = jvgpu_device_of(self, dev),
                                .kind = JVGPU_IS_HANDLE};
    result = jvgpu_charge_settle(&now, result, key, taken);
  }
  // The new charge stands before the old one and the reservation go: nobody gets in between.
  if (charge.self != NULL && !charge.refused) {
    jvgpu_account_cancel(charge.slot, (uint32_t)charge.device, charge.bytes);
  }
  if (is_raised && result == CUDA_SUCCESS) {
    (void)jvgpu_charge_free_settle(&before, result);
  } else if (is_raised) {
    (void)jvgpu_ledger_put(&self->pointers, &before);
  }
  return result;
}

// Of these no call says how much device memory they are worth; raised they are overhead, and who has nothing left gets
// no more of it. The limits of the L2 cache are worth none.
static bool is_overhead(int limit)
{
  return limit > CU_LIMIT_MALLOC_HEAP_SIZE && limit != CU_LIMIT_MAX_L2_FETCH_GRANULARITY &&
         limit != CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

static bool has_none_left_for(jvgpu_process_t *self, CUdevice dev, int limit, size_t value)
{
  size_t    now = 0;
  const int device = jvgpu_device_of(self, dev);
  return device != JVGPU_NO_DEVICE && jvgpu_charge_left(self, device) <= 0 && jvgpu_real.cuCtxGetLimit != NULL &&
         jvgpu_real.cuCtxGetLimit(&now, limit) == CUDA_SUCCESS && value > now;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
  if (!JVGPU_HAS_CU(cuCtxSetLimit)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  CUcontext        ctx = NULL;
  CUdevice         dev = 0;
  if (self == NULL || limit < 0 || jvgpu_real.cuCtxGetCurrent == NULL ||
      jvgpu_real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS || ctx == NULL || jvgpu_real.cuCtxGetDevice == NULL ||
      jvgpu_real.cuCtxGetDevice(&dev) != CUDA_SUCCESS) {
    return jvgpu_real.cuCtxSetLimit(limit, value);
  }
  if (limit <= CU_LIMIT_MALLOC_HEAP_SIZE) {
    return set(self, ctx, dev, limit, value);
  }
  return is_overhead(limit) && has_none_left_for(self, dev, limit, value) ? CUDA_ERROR_OUT_OF_MEMORY
                                                                          : jvgpu_real.cuCtxSetLimit(limit, value);
}
