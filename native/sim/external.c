// External memory: here, memory of cuMemCreate that was exported as a descriptor, by whomever. The exporter pays.

#include <stdlib.h>
#include <unistd.h>

#include "vmm.h"

#define EXTERNAL_MAGIC 0x45585445u

struct CUextMemory_st {
  uint32_t                     magic;
  CUmemGenericAllocationHandle memory;
  uint64_t                     bytes;
};

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
                                        CUmemAllocationHandleType kind);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);

static bool is_external(CUexternalMemory external)
{
  return external != NULL && external->magic == EXTERNAL_MAGIC;
}

SIM_API CUresult cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
  CUcontext context;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS || out == NULL || desc == NULL || desc->size == 0) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUexternalMemory external = calloc(1, sizeof *external);
  if (external == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  result = cuMemImportFromShareableHandle(&external->memory, (void *)(intptr_t)desc->handle.fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) {
    free(external);
    return result;
  }
  // source: CUDA Driver API 13.0, cuImportExternalMemory: the descriptor is the driver's after a success.
  close(desc->handle.fd);
  external->magic = EXTERNAL_MAGIC;
  external->bytes = desc->size;
  *out = external;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *dptr, CUexternalMemory external,
                                                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
  CUcontext context;
  CUdevice  device;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (dptr == NULL || !is_external(external) || desc == NULL || desc->size == 0 || desc->flags != 0 ||
      desc->size > external->bytes || desc->offset > external->bytes - desc->size) {
    return is_external(external) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  pthread_mutex_lock(&sim_lock);
  const uintptr_t start = sim_physical_place(external->memory, desc->offset, desc->size, &device);
  sim_range_t    *range =
      start == 0 ? NULL : sim_range_add(start, (size_t)desc->size, SIM_RANGE_IMPORTED, device, context);
  if (range == NULL) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    range->flags = SIM_IMPORTED_TO_FREE;
    *dptr = start;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuDestroyExternalMemory(CUexternalMemory external)
{
  if (!is_external(external)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  external->magic = SIM_DEAD_MAGIC;
  const CUresult result = cuMemRelease(external->memory);
  free(external);
  return result;
}
