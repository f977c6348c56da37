// Multicast objects: an address range that stands for memory of several devices at once.
//
// Bound memory stays its owner's, who pays for it; the object itself costs nothing. What is written through a mapping
// of the object lands in the object and in no bound memory: switches are not simulated.

#include "vmm.h"

enum { FIRST_MAJOR = 9 };

static CUresult check_properties(const CUmulticastObjectProp *properties)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  for (CUdevice i = 0; i < sim_process.device_count; i++) {
    if (sim_board(i)->capability_major < FIRST_MAJOR) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return properties == NULL || properties->numDevices == 0 || properties->flags != 0 ? CUDA_ERROR_INVALID_VALUE
                                                                                     : CUDA_SUCCESS;
}

SIM_API CUresult cuMulticastGetGranularity(size_t *bytes, const CUmulticastObjectProp *properties,
                                           CUmulticastGranularity_flags option)
{
  (void)option;
  const CUresult result = check_properties(properties);
  if (result != CUDA_SUCCESS || bytes == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  *bytes = SIM_CHUNK_BYTES;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *properties)
{
  const CUresult result = check_properties(properties);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (handle == NULL || properties->size == 0 || properties->size % SIM_CHUNK_BYTES != 0 ||
      properties->numDevices > (unsigned int)sim_process.device_count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return sim_physical_multicast(handle, properties->size, properties->numDevices);
}

// returns: the multicast object, or NULL; pre: sim_lock held
static sim_physical_t *find(CUmemGenericAllocationHandle handle)
{
  sim_physical_t *physical = sim_physical_find(handle);
  return physical != NULL && physical->team_size > 0 ? physical : NULL;
}

SIM_API CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
  CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  sim_physical_t *physical = find(handle);
  if (physical == NULL || (physical->team & 1u << device) != 0 || physical->team_count >= physical->team_size) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    physical->team |= 1u << device;
    physical->team_count++;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

static CUresult bind(CUmemGenericAllocationHandle handle, size_t offset, CUdevice device, size_t bytes)
{
  const sim_physical_t *physical = find(handle);
  if (physical == NULL || bytes == 0 || bytes % SIM_CHUNK_BYTES != 0 || offset % SIM_CHUNK_BYTES != 0 ||
      offset + bytes > physical->bytes || (physical->team & 1u << device) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return physical->team_count == physical->team_size ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_API CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                                    CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
                                    unsigned long long flags)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_physical_t *bound = sim_physical_find(memory);
  result = bound == NULL || flags != 0 || memory_offset + bytes > bound->bytes
               ? CUDA_ERROR_INVALID_VALUE
               : bind(handle, offset, bound->device, bytes);
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address,
                                     size_t bytes, unsigned long long flags)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find(address);
  result = range == NULL || flags != 0 ? CUDA_ERROR_INVALID_VALUE : bind(handle, offset, range->device, bytes);
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t bytes)
{
  CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  result = bind(handle, offset, device, bytes);
  pthread_mutex_unlock(&sim_lock);
  return result;
}
