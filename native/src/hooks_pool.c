// Stream-ordered memory: charged by what the pool has reserved (pools.h).

#define _GNU_SOURCE
#include <stddef.h>

#include "devices.h"
#include "hooks.h"
#include "pool_table.h"
#include "pools.h"

typedef CUresult (*from_current_t)(CUdeviceptr *, size_t, CUstream);
typedef CUresult (*from_pool_t)(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
typedef CUresult (*free_async_t)(CUdeviceptr, CUstream);
typedef CUresult (*is_capturing_t)(CUstream, int *);

static CUresult allocate(from_current_t real, is_capturing_t is_capturing, CUdeviceptr *dptr, size_t bytes,
                         CUstream stream)
{
  jvgpu_pool_charge_t taking;
  if (!jvgpu_pool_begin(&taking, NULL, bytes, stream, is_capturing)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return jvgpu_pool_settle(&taking, real(dptr, bytes, stream));
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemAllocAsync)) {
    return JVGPU_NO_SUCH_CU;
  }
  return allocate(jvgpu_real.cuMemAllocAsync, jvgpu_real.cuStreamIsCapturing, dptr, bytes, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemAllocAsync_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  return allocate(jvgpu_real.cuMemAllocAsync_ptsz, jvgpu_real.cuStreamIsCapturing_ptsz, dptr, bytes, stream);
}

static CUresult allocate_from(from_pool_t real, is_capturing_t is_capturing, CUdeviceptr *dptr, size_t bytes,
                              CUmemoryPool pool, CUstream stream)
{
  if (pool == NULL) {
    return real(dptr, bytes, pool, stream);
  }
  jvgpu_pool_charge_t taking;
  if (!jvgpu_pool_begin(&taking, pool, bytes, stream, is_capturing)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return jvgpu_pool_settle(&taking, real(dptr, bytes, pool, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemAllocFromPoolAsync)) {
    return JVGPU_NO_SUCH_CU;
  }
  return allocate_from(jvgpu_real.cuMemAllocFromPoolAsync, jvgpu_real.cuStreamIsCapturing, dptr, bytes, pool, stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemAllocFromPoolAsync_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  return allocate_from(jvgpu_real.cuMemAllocFromPoolAsync_ptsz, jvgpu_real.cuStreamIsCapturing_ptsz, dptr, bytes, pool,
                       stream);
}

// A pool's memory has no record; a plain allocation may be freed in stream order too.
static CUresult free_async(free_async_t real, is_capturing_t is_capturing, CUdeviceptr dptr, CUstream stream)
{
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_record_t   record;
  // A free that is captured happens when the graph is launched: until the process ends it is none.
  if (self == NULL || jvgpu_is_captured(self, stream, is_capturing)) {
    return real(dptr, stream);
  }
  if (jvgpu_charge_free_begin(dptr, &record)) {
    return jvgpu_charge_free_settle(&record, real(dptr, stream));
  }
  __atomic_store_n(&self->has_freed, 1, __ATOMIC_RELAXED);
  return real(dptr, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemFreeAsync)) {
    return JVGPU_NO_SUCH_CU;
  }
  return free_async(jvgpu_real.cuMemFreeAsync, jvgpu_real.cuStreamIsCapturing, dptr, stream);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemFreeAsync_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  return free_async(jvgpu_real.cuMemFreeAsync_ptsz, jvgpu_real.cuStreamIsCapturing_ptsz, dptr, stream);
}

// --- pools themselves -------------------------------------------------------------------------------------

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
  if (!JVGPU_HAS_CU(cuMemPoolCreate)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuMemPoolCreate(pool, props);
  if (result == CUDA_SUCCESS && self != NULL) {
    const int device = jvgpu_device_at(self, props->allocType, &props->location);
    if (device != JVGPU_NO_DEVICE) {
      jvgpu_pool_created(self, *pool, device);
    }
  }
  return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
  if (!JVGPU_HAS_CU(cuMemPoolDestroy)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  return self == NULL || pool == NULL ? jvgpu_real.cuMemPoolDestroy(pool) : jvgpu_pool_destroy(self, pool);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
  if (!JVGPU_HAS_CU(cuMemPoolTrimTo)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuMemPoolTrimTo(pool, keep);
  if (result == CUDA_SUCCESS && self != NULL) {
    jvgpu_pools_look(self);
  }
  return result;
}

// --- the pool that a device uses ----------------------------------------------------------------------------

static CUresult use_changed(CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (self != NULL) {
    jvgpu_pool_use_changed(self);
  }
  return result;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
  return JVGPU_HAS_CU(cuDeviceSetMemPool) ? use_changed(jvgpu_real.cuDeviceSetMemPool(dev, pool)) : JVGPU_NO_SUCH_CU;
}

CUresult cuMemSetMemPool(CUmemLocation *location, int kind, CUmemoryPool pool)
{
  return JVGPU_HAS_CU(cuMemSetMemPool) ? use_changed(jvgpu_real.cuMemSetMemPool(location, kind, pool))
                                       : JVGPU_NO_SUCH_CU;
}
