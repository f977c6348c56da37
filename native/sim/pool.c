// Memory pools: stream-ordered allocation from blocks that the pool keeps until the host waits.
//
// A pool keeps freed blocks up to its release threshold (0 by default), and gives the rest back at the next
// synchronisation, or at once when the board is full.

#include <stdlib.h>
#include <sys/mman.h>

#include "graph.h"
#include "pool.h"

sim_pools_t sim_pools;

// pre: sim_lock held
CUmemoryPool sim_pool_make(CUdevice device, uint64_t most_bytes)
{
  CUmemoryPool pool = calloc(1, sizeof *pool);
  if (pool == NULL) {
    return NULL;
  }
  pool->magic = POOL_MAGIC;
  pool->device = device;
  pool->most_bytes = most_bytes;
  pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
  pool->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  pool->next = sim_pools.all;
  sim_pools.all = pool;
  return pool;
}

CUmemoryPool sim_pool_default(CUdevice device)
{
  CUmemoryPool *place = &sim_pools.default_of[device];
  if (*place == NULL && (*place = sim_pool_make(device, 0)) != NULL) {
    (*place)->is_default = true;
    sim_pools.current_of[device] = *place;
  }
  return *place;
}

CUmemoryPool sim_pool_of_host(void)
{
  if (sim_pools.of_host == NULL && (sim_pools.of_host = sim_pool_make(0, 0)) != NULL) {
    sim_pools.of_host->is_default = true;
    sim_pools.of_host->is_hosts = true;
  }
  return sim_pools.of_host;
}

bool sim_is_pool(CUmemoryPool pool)
{
  return pool != NULL && pool->magic == POOL_MAGIC;
}

static sim_range_t *new_block(CUmemoryPool pool, size_t bytes)
{
  if (!pool->is_hosts) {
    return sim_heap_take(pool->device, bytes, SIM_RANGE_POOL, NULL);
  }
  const size_t    whole = (bytes + SIM_CHUNK_BYTES - 1) & ~(size_t)(SIM_CHUNK_BYTES - 1);
  const uintptr_t start = sim_heap_addresses(whole, SIM_CHUNK_BYTES, 0, PROT_READ | PROT_WRITE);
  sim_range_t    *range = start == 0 ? NULL : sim_range_add(start, bytes, SIM_RANGE_POOL, pool->device, NULL);
  if (range != NULL) {
    range->block_bytes = whole;
  } else if (start != 0) {
    munmap((void *)start, whole);
  }
  return range;
}

static void drop_block(CUmemoryPool pool, sim_range_t *range)
{
  if (!pool->is_hosts) {
    sim_heap_give(range);
    return;
  }
  munmap((void *)range->start, range->block_bytes);
  sim_range_remove(range);
}

// Gives unused blocks back until the pool holds at most `keep_bytes`.
static bool trim(CUmemoryPool pool, uint64_t keep_bytes)
{
  bool gave = false;
  while (pool->unused != NULL && pool->reserved_bytes > keep_bytes) {
    sim_block_t *block = pool->unused;
    pool->unused = block->next;
    pool->reserved_bytes -= block->range->block_bytes;
    drop_block(pool, block->range);
    free(block);
    gave = true;
  }
  return gave;
}

void sim_pools_trim(void)
{
  if (!atomic_load_explicit(&sim_pools.has_unused, memory_order_relaxed)) {
    return;
  }
  pthread_mutex_lock(&sim_lock);
  atomic_store(&sim_pools.has_unused, false);
  for (CUmemoryPool pool = sim_pools.all; pool != NULL; pool = pool->next) {
    trim(pool, pool->threshold_bytes);
    if (pool->unused != NULL) {
      atomic_store(&sim_pools.has_unused, true);
    }
  }
  pthread_mutex_unlock(&sim_lock);
}

bool sim_pools_squeeze(CUdevice device)
{
  bool gave = false;
  for (CUmemoryPool pool = sim_pools.all; pool != NULL; pool = pool->next) {
    gave = (pool->device == device && trim(pool, 0)) || gave;
  }
  return gave;
}

// The first unused block that is large enough and not more than twice too large.
static sim_range_t *reuse(CUmemoryPool pool, size_t bytes)
{
  for (sim_block_t **place = &pool->unused; *place != NULL; place = &(*place)->next) {
    sim_block_t *block = *place;
    if (block->range->block_bytes >= bytes && block->range->block_bytes / 2 <= bytes) {
      sim_range_t *range = block->range;
      *place = block->next;
      free(block);
      range->kind = SIM_RANGE_POOL;
      range->bytes = bytes;
      return range;
    }
  }
  return NULL;
}

static CUresult take(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool)
{
  sim_range_t *range = reuse(pool, bytes);
  if (range == NULL) {
    if (pool->most_bytes != 0 && pool->reserved_bytes + bytes > pool->most_bytes) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range = new_block(pool, bytes);
    if (range == NULL) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->pool = pool;
    pool->reserved_bytes += range->block_bytes;
  }
  pool->used_bytes += range->block_bytes;
  pool->used_high_bytes = pool->used_bytes > pool->used_high_bytes ? pool->used_bytes : pool->used_high_bytes;
  if (pool->reserved_bytes > pool->reserved_high_bytes) {
    pool->reserved_high_bytes = pool->reserved_bytes;
  }
  *dptr = range->start;
  return CUDA_SUCCESS;
}

CUresult sim_pool_free(sim_range_t *range)
{
  CUmemoryPool pool = range->pool;
  sim_block_t *block = malloc(sizeof *block);
  pool->used_bytes -= range->block_bytes;
  if (block == NULL) {
    pool->reserved_bytes -= range->block_bytes;
    drop_block(pool, range);
    return CUDA_SUCCESS;
  }
  range->kind = SIM_RANGE_UNUSED;
  block->range = range;
  block->next = pool->unused;
  pool->unused = block;
  atomic_store(&sim_pools.has_unused, true);
  return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream handle, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (dptr == NULL || (bytes == 0 && sim_is_capturing(stream))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (sim_is_capturing(stream)) {
    return sim_capture_allocate(stream, dptr, bytes);
  }
  pthread_mutex_lock(&sim_lock);
  if (pool == NULL && sim_pool_default(stream->context->device) != NULL) {
    pool = sim_pools.current_of[stream->context->device];
  }
  if (!sim_is_pool(pool) || pool->is_imported) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else if (bytes == 0) {
    *dptr = 0;  // no error to the real driver, unlike cuMemAlloc of nothing
  } else {
    result = take(dptr, bytes, pool);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_TWINS(cuMemAllocAsync, ptsz, (CUdeviceptr * dptr, size_t bytes, CUstream stream),
          allocate(dptr, bytes, NULL, stream, face))
SIM_TWINS(cuMemAllocFromPoolAsync, ptsz, (CUdeviceptr * dptr, size_t bytes, CUmemoryPool pool, CUstream stream),
          pool == NULL ? CUDA_ERROR_INVALID_VALUE : allocate(dptr, bytes, pool, stream, face))

static CUresult give(CUdeviceptr dptr, CUstream handle, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (sim_is_capturing(stream)) {
    const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEM_FREE, .of.address = dptr};
    return sim_capture_add(stream, &work);
  }
  if (dptr == 0) {
    return CUDA_SUCCESS;  // what an allocation of nothing gave
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find(dptr);
  if (range == NULL || range->start != (uintptr_t)dptr) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else if (range->kind == SIM_RANGE_POOL) {
    result = sim_pool_free(range);
  } else if (range->kind == SIM_RANGE_GRAPH) {
    result = sim_graph_memory_free(range);
  } else if (range->kind == SIM_RANGE_IMPORTED && range->flags == SIM_IMPORTED_TO_FREE) {
    sim_imported_give(range);
  } else if (range->kind == SIM_RANGE_DEVICE) {
    sim_heap_give(range);  // the driver accepts memory of cuMemAlloc too
  } else {
    result = CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_TWINS(cuMemFreeAsync, ptsz, (CUdeviceptr dptr, CUstream stream), give(dptr, stream, face))

// Managed memory of a pool is a board's from the start: that of the current context where no device is preferred. Boards
// have one locality domain, number 0, which is all of their memory.
// source: CUDA Driver API 13.4, cuMemPoolCreate
static CUresult place_of(const CUmemPoolProps *props, CUdevice *device, bool *is_hosts)
{
  const bool is_managed = props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  CUcontext  context;
  *is_hosts = false;
  switch ((int)props->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: *device = props->location.id; break;
    case CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN:
      *device = props->location.id & 0xff;
      if (is_managed || props->location.id > 0xff) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      break;
    case CU_MEM_LOCATION_TYPE_INVALID:
      if (!is_managed) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      // Fall through.
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      *is_hosts = !is_managed;
      *device = is_managed && sim_current(&context) == CUDA_SUCCESS ? context->device : 0;
      break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return sim_check_device(*device);
}

SIM_API CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
  CUdevice device;
  bool     is_hosts;
  if (out == NULL || props == NULL ||
      (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && props->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED) ||
      (props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED && (props->handleTypes != 0 || props->maxSize != 0))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((props->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;  // other ways to share a pool
  }
  const CUresult result = place_of(props, &device, &is_hosts);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  *out = sim_pool_make(device, props->maxSize);
  if (*out != NULL) {
    (*out)->is_hosts = is_hosts;
    (*out)->is_shareable = props->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  pthread_mutex_unlock(&sim_lock);
  return *out == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

// The real driver waits for outstanding allocations; here they stay valid and the pool goes with the last of them.
SIM_API CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
  if (!sim_is_pool(pool) || pool->is_default) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  trim(pool, 0);
  pool->threshold_bytes = 0;
  pool->magic = SIM_DEAD_MAGIC;
  if (sim_pools.current_of[pool->device] == pool) {
    sim_pools.current_of[pool->device] = sim_pools.default_of[pool->device];
  }
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
  if (!sim_is_pool(pool)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  trim(pool, keep_bytes);
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

// returns: where a 64-bit attribute lives; the first three are `int`
static uint64_t *attribute_of(CUmemoryPool pool, CUmemPool_attribute attribute)
{
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return &pool->reuse[attribute - 1];
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return &pool->threshold_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return &pool->reserved_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return &pool->reserved_high_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return &pool->used_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return &pool->used_high_bytes;
    default: return NULL;
  }
}

SIM_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
  const uint64_t *place = sim_is_pool(pool) && value != NULL ? attribute_of(pool, attribute) : NULL;
  if (place == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  if (attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    *(int *)value = (int)*place;
  } else {
    *(cuuint64_t *)value = *place;
  }
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
  uint64_t *place = sim_is_pool(pool) && value != NULL ? attribute_of(pool, attribute) : NULL;
  if (place == NULL || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ||
      attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&sim_lock);
  if (attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    *place = *(int *)value != 0;
  } else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    *place = *(cuuint64_t *)value;
  } else if (*(cuuint64_t *)value != 0) {
    result = CUDA_ERROR_INVALID_VALUE;  // a high-water mark can only be reset
  } else {
    *place = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool->used_bytes : pool->reserved_bytes;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}
