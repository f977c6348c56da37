// Plain memory: allocated and freed at once, charged to the current context's device.

#define _GNU_SOURCE
#include <stddef.h>

#include "charge.h"
#include "hooks.h"
#include "pools.h"

// What a pitched row takes at most: the driver's widest pitch alignment.
// source: measured, H200: 512 bytes; CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT is below it.
#define PITCH_BYTES UINT64_C(512)

static uint64_t pitched_bytes(uint64_t width, uint64_t height)
{
  uint64_t   row = 0, bytes = 0;
  const bool is_beyond_all =
      __builtin_mul_overflow(width / PITCH_BYTES + 1, PITCH_BYTES, &row) || __builtin_mul_overflow(row, height, &bytes);
  return is_beyond_all ? UINT64_MAX : jvgpu_charge_rounded(bytes);
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
  if (!JVGPU_HAS_CU(cuMemAlloc_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  // Reserve before asking the driver: two threads must not both fit into the last free megabyte.
  const jvgpu_charge_t charge = jvgpu_charge_begin(jvgpu_charge_rounded(bytes));
  if (charge.refused) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = jvgpu_real.cuMemAlloc_v2(dptr, bytes);
  return jvgpu_charge_settle(&charge, result, result == CUDA_SUCCESS ? *dptr : 0, charge.bytes);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
  if (!JVGPU_HAS_CU(cuMemAlloc)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_charge_t charge = jvgpu_charge_begin(jvgpu_charge_rounded(bytes));
  if (charge.refused) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = jvgpu_real.cuMemAlloc(dptr, bytes);
  return jvgpu_charge_settle(&charge, result, result == CUDA_SUCCESS ? *dptr : 0, charge.bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element)
{
  if (!JVGPU_HAS_CU(cuMemAllocPitch_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_charge_t charge = jvgpu_charge_begin(pitched_bytes(width, height));
  if (charge.refused) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = jvgpu_real.cuMemAllocPitch_v2(dptr, pitch, width, height, element);
  const bool     done = result == CUDA_SUCCESS;
  return jvgpu_charge_settle(&charge, result, done ? *dptr : 0, done ? jvgpu_charge_rounded(*pitch * height) : 0);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height,
                         unsigned int element)
{
  if (!JVGPU_HAS_CU(cuMemAllocPitch)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_charge_t charge = jvgpu_charge_begin(pitched_bytes(width, height));
  if (charge.refused) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = jvgpu_real.cuMemAllocPitch(dptr, pitch, width, height, element);
  const bool     done = result == CUDA_SUCCESS;
  return jvgpu_charge_settle(&charge, result, done ? *dptr : 0,
                             done ? jvgpu_charge_rounded((uint64_t)*pitch * height) : 0);
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
  if (!JVGPU_HAS_CU(cuMemAllocManaged)) {
    return JVGPU_NO_SUCH_CU;
  }
  // Managed memory is on the device when it is used there; charged whole, whether used there or not.
  const jvgpu_charge_t charge = jvgpu_charge_begin(jvgpu_charge_rounded(bytes));
  if (charge.refused) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = jvgpu_real.cuMemAllocManaged(dptr, bytes, flags);
  return jvgpu_charge_settle(&charge, result, result == CUDA_SUCCESS ? *dptr : 0, charge.bytes);
}

// None of ours, or a pool's, which may let go of it when the host waits next.
static CUresult freed_elsewhere(CUdeviceptr dptr, CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (result == CUDA_SUCCESS && self != NULL && dptr != 0) {
    __atomic_store_n(&self->has_freed, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&self->left_pools, __ATOMIC_RELAXED) != 0) {
      jvgpu_pools_look(self);
    }
  }
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
  jvgpu_record_t record;
  if (!JVGPU_HAS_CU(cuMemFree_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  if (!jvgpu_charge_free_begin(dptr, &record)) {
    return freed_elsewhere(dptr, jvgpu_real.cuMemFree_v2(dptr));
  }
  return jvgpu_charge_free_settle(&record, jvgpu_real.cuMemFree_v2(dptr));
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
  jvgpu_record_t record;
  if (!JVGPU_HAS_CU(cuMemFree)) {
    return JVGPU_NO_SUCH_CU;
  }
  if (!jvgpu_charge_free_begin(dptr, &record)) {
    return freed_elsewhere(dptr, jvgpu_real.cuMemFree(dptr));
  }
  return jvgpu_charge_free_settle(&record, jvgpu_real.cuMemFree(dptr));
}
