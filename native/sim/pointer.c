// What the driver knows about an address.

#include <string.h>

#include "driver.h"
#include "range.h"

static bool is_host_kind(const sim_range_t *range)
{
  return range->kind == SIM_RANGE_HOST || range->kind == SIM_RANGE_REGISTERED;
}

// Writes one attribute of a known range.
static CUresult describe(const sim_range_t *range, CUpointer_attribute attribute, void *out, CUdeviceptr address)
{
  switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)out = range->context; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned int *)out = is_host_kind(range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)out = address; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_host_kind(range) && range->kind != SIM_RANGE_MANAGED) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      *(void **)out = (void *)(uintptr_t)address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: *(unsigned int *)out = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)out = range->buffer_id; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned int *)out = range->kind == SIM_RANGE_MANAGED; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)out = range->device; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr *)out = range->start; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)out = range->bytes; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned int *)out = 1; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *(unsigned long long *)out = range->kind == SIM_RANGE_MAPPED ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned int *)out = range->access; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)out = range->pool; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: *(unsigned long long *)out = range->buffer_id; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// pre: sim_lock held
static const sim_range_t *known(CUdeviceptr address)
{
  const sim_range_t *range = sim_range_find(address);
  return range != NULL && range->kind != SIM_RANGE_UNUSED ? range : NULL;
}

SIM_API CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || out == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = known(address);
  result = range == NULL ? CUDA_ERROR_INVALID_VALUE : describe(range, attribute, out, address);
  pthread_mutex_unlock(&sim_lock);
  return result;
}

static size_t size_of(CUpointer_attribute attribute)
{
  switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return 8;
    default: return 4;
  }
}

// source: CUDA Driver API 13.0, cuPointerGetAttributes: an address that is not the driver's gives zeroes, not an error
// (and -2 for the ordinal, CU_DEVICE_INVALID).
SIM_API CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **out,
                                        CUdeviceptr address)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || count == 0 || attributes == NULL || out == NULL) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = known(address);
  for (unsigned int i = 0; i < count; i++) {
    if (range == NULL || describe(range, attributes[i], out[i], address) != CUDA_SUCCESS) {
      memset(out[i], 0, size_of(attributes[i]));
      if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
        *(int *)out[i] = -2;
      }
    }
  }
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  result = known(address) == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  pthread_mutex_unlock(&sim_lock);
  return result;
}
