// Which pool a device uses, and who may reach into a pool.

#include "pool.h"

SIM_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *descriptions, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (!sim_is_pool(pool) || descriptions == NULL || descriptions[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        sim_check_device(descriptions[i].location.id) != CUDA_SUCCESS) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    pool->access[descriptions[i].location.id] = descriptions[i].flags;
  }
  return CUDA_SUCCESS;
}

SIM_API CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
  if (flags == NULL || !sim_is_pool(pool) || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
      sim_check_device(location->id) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = pool->access[location->id];
  return CUDA_SUCCESS;
}

static CUresult pool_of(CUmemoryPool *pool, CUdevice device, bool current)
{
  const CUresult result = sim_check_device(device);
  if (result == CUDA_ERROR_INVALID_DEVICE && current) {
    return CUDA_ERROR_INVALID_VALUE;  // so a driver 580.159.04, which names the device in the other call only
  }
  if (result != CUDA_SUCCESS || pool == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  *pool = sim_pool_default(device);
  if (current && *pool != NULL) {
    *pool = sim_pools.current_of[device];
  }
  pthread_mutex_unlock(&sim_lock);
  return *pool == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
  return pool_of(pool, device, false);
}

SIM_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
  return pool_of(pool, device, true);
}

SIM_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
  CUmemoryPool   ignored;
  const CUresult result = pool_of(&ignored, device, false);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (!sim_is_pool(pool) || pool->device != device || pool->is_hosts) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  sim_pools.current_of[device] = pool;
  return CUDA_SUCCESS;
}

static CUresult pool_at(CUmemoryPool *pool, const CUmemLocation *location, CUmemAllocationType type, bool current)
{
  if (location == NULL || type != CU_MEM_ALLOCATION_TYPE_PINNED || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return pool_of(pool, location->id, current);
}

SIM_API CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
  if (pool == NULL || location == NULL || type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      location->type != CU_MEM_LOCATION_TYPE_HOST) {
    return pool_at(pool, location, type, false);
  }
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  pthread_mutex_lock(&sim_lock);
  *pool = sim_pool_of_host();
  pthread_mutex_unlock(&sim_lock);
  return *pool == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
  return pool_at(pool, location, type, true);
}

SIM_API CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
  if (location == NULL || type != CU_MEM_ALLOCATION_TYPE_PINNED || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return cuDeviceSetMemPool(location->id, pool);
}
