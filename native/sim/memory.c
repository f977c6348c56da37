// cuMemAlloc and its relatives, and how much is left.

#include "driver.h"
#include "graph.h"
#include "pool.h"

static CUresult allocate(CUdeviceptr *dptr, size_t bytes, sim_range_kind_t kind)
{
  CUcontext context;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (dptr == NULL || bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  result = sim_capture_check_unsafe();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_heap_take(context->device, bytes, kind, context);
  if (range != NULL) {
    *dptr = range->start;
  }
  pthread_mutex_unlock(&sim_lock);
  return range == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
  return allocate(dptr, bytes, SIM_RANGE_DEVICE);
}

// The 32-bit ABI of CUDA 2 and 3.0. Simulated addresses never fit into it.
SIM_API CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  return dptr == NULL || bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                                    unsigned int element_bytes)
{
  enum { PITCH_ALIGNMENT = 512 };
  if (pitch == NULL || width == 0 || height == 0 || width > SIZE_MAX / 2 ||
      (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t rounded = (width + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT;
  if (rounded > SIZE_MAX / height) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = allocate(dptr, rounded * height, SIM_RANGE_DEVICE);
  if (result == CUDA_SUCCESS) {
    *pitch = rounded;
  }
  return result;
}

SIM_API CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height,
                                 unsigned int element_bytes)
{
  (void)element_bytes;
  return pitch == NULL || width == 0 || height == 0 ? CUDA_ERROR_INVALID_VALUE : cuMemAlloc(dptr, 1);
}

SIM_API CUresult cuMemFree_v2(CUdeviceptr dptr)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || dptr == 0) {
    return result;
  }
  result = sim_capture_check_unsafe();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find(dptr);
  if (range == NULL || range->start != (uintptr_t)dptr) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else if (range->kind == SIM_RANGE_DEVICE) {
    sim_heap_give(range);
  } else if (range->kind == SIM_RANGE_MANAGED) {
    sim_host_give(range);
  } else if (range->kind == SIM_RANGE_IMPORTED && range->flags == SIM_IMPORTED_TO_FREE) {
    sim_imported_give(range);
  } else if (range->kind == SIM_RANGE_POOL) {
    result = sim_pool_free(range);  // allowed for pool memory too, as a synchronous free
  } else {
    result = range->kind == SIM_RANGE_GRAPH ? sim_graph_memory_free(range) : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
  return cuMemFree_v2(dptr);
}

SIM_API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  // Either pointer may be NULL (CASES.md 14: OptiX passes one).
  const uint64_t total = sim_board_capacity(sim_board(context->device));
  if (free_bytes != NULL) {
    *free_bytes = sim_device_free(context->device);
  }
  if (total_bytes != NULL) {
    *total_bytes = total;
  }
  return CUDA_SUCCESS;
}

SIM_API CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
  size_t         left = 0;
  size_t         total = 0;
  const CUresult result = cuMemGetInfo_v2(&left, &total);
  if (result == CUDA_SUCCESS && free_bytes != NULL) {
    *free_bytes = left > UINT32_MAX ? UINT32_MAX : (unsigned int)left;
  }
  if (result == CUDA_SUCCESS && total_bytes != NULL) {
    *total_bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
  }
  return result;
}

SIM_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr dptr)
{
  CUcontext context;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find(dptr);
  if (range == NULL) {
    result = CUDA_ERROR_NOT_FOUND;
  } else {
    if (base != NULL) {
      *base = range->start;
    }
    if (bytes != NULL) {
      *bytes = range->bytes;
    }
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}
