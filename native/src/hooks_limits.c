// Limits of a context that are memory of the device: the heap of `malloc` in device code, the buffer of `printf`, the
// stacks. Charged when they are set, from what a context has by itself; the driver takes it then or at a launch.

#define _GNU_SOURCE
#include <stddef.h>

#include "account.h"
#include "charge.h"
#include "devices.h"
#include "hooks.h"

// What each has in a new context is in the context's overhead.
// source: CUDA C++ Programming Guide 13.0, "Dynamic Global Memory Allocation and Operations" (8 MiB), "Formatted
// Output" (1 MiB); the stack as cuCtxGetLimit says on an H200.
#define DEFAULT_HEAP_BYTES UINT64_C(8388608)
#define DEFAULT_FIFO_BYTES UINT64_C(1048576)
#define DEFAULT_STACK_BYTES UINT64_C(1024)

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

static uint64_t beyond(uint64_t value, uint64_t by_itself, uint64_t times)
{
  uint64_t bytes = 0;
  if (value <= by_itself) {
    return 0;
  }
  return __builtin_mul_overflow(value - by_itself, times, &bytes) ? UINT64_MAX : jvgpu_charge_in_blocks(bytes);
}

// returns: device memory that the limit is worth, beyond what a context has by itself.
static uint64_t worth(int limit, uint64_t value, CUdevice dev)
{
  switch (limit) {
    case CU_LIMIT_MALLOC_HEAP_SIZE: return beyond(value, DEFAULT_HEAP_BYTES, 1);
    case CU_LIMIT_PRINTF_FIFO_SIZE: return beyond(value, DEFAULT_FIFO_BYTES, 1);
    case CU_LIMIT_STACK_SIZE: return beyond(value, DEFAULT_STACK_BYTES, threads_of(dev));
    default: return 0;
  }
}

// What the limit was raised to: the driver rounds. Where it cannot be asked, what was asked for.
static uint64_t raised_to(int limit, size_t asked)
{
  size_t value = asked;
  return jvgpu_real.cuCtxGetLimit != NULL && jvgpu_real.cuCtxGetLimit(&value, limit) == CUDA_SUCCESS ? value : asked;
}

static CUresult set(jvgpu_process_t *self, CUcontext ctx, CUdevice dev, int limit, size_t value)
{
  // A context is an object of many bytes: no key meets another's, nor a pointer.
  const uint64_t key = (uint64_t)(uintptr_t)ctx + (uint64_t)limit;
  const uint64_t wanted = worth(limit, value, dev);
  jvgpu_record_t before = {.bytes = 0};
  const bool     is_raised = jvgpu_ledger_take(&self->pointers, key, &before);
  jvgpu_charge_t charge = {.self = NULL};
  if (wanted > before.bytes) {
    charge = jvgpu_charge_begin_on(self, jvgpu_device_of(self, dev), wanted - before.bytes);
  }
  CUresult       result = charge.refused ? CUDA_ERROR_OUT_OF_MEMORY : jvgpu_real.cuCtxSetLimit(limit, value);
  const uint64_t taken = result == CUDA_SUCCESS ? worth(limit, raised_to(limit, value), dev) : 0;
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

CUresult cuCtxSetLimit(int limit, size_t value)
{
  if (!JVGPU_HAS_CU(cuCtxSetLimit)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  CUcontext        ctx = NULL;
  CUdevice         dev = 0;
  if (self == NULL || limit < 0 || limit > CU_LIMIT_MALLOC_HEAP_SIZE || jvgpu_real.cuCtxGetCurrent == NULL ||
      jvgpu_real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS || ctx == NULL || jvgpu_real.cuCtxGetDevice == NULL ||
      jvgpu_real.cuCtxGetDevice(&dev) != CUDA_SUCCESS) {
    return jvgpu_real.cuCtxSetLimit(limit, value);
  }
  return set(self, ctx, dev, limit, value);
}
