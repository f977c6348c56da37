// Memory of graphs: addresses from the moment of capture, memory from the first launch.
//
// What a graph has freed stays with the device's graph pool until cuDeviceGraphMemTrim, as with the real driver.

#include <stdlib.h>
#include <sys/mman.h>

#include "driver.h"
#include "graph.h"
#include "pool.h"

static struct {
  uint64_t      used[SIM_MAX_BOARDS];
  uint64_t      used_high[SIM_MAX_BOARDS];
  uint64_t      reserved[SIM_MAX_BOARDS];
  uint64_t      reserved_high[SIM_MAX_BOARDS];
  sim_range_t **all;  // every graph range, for the trim
  size_t        count;
} memory;

sim_range_t *sim_graph_memory_new(CUdevice device, size_t bytes)
{
  if (bytes == 0 || bytes > sim_board_capacity(sim_board(device))) {
    return NULL;
  }
  sim_range_t **all = realloc(memory.all, (memory.count + 1) * sizeof *all);
  if (all == NULL) {
    return NULL;
  }
  memory.all = all;
  const size_t    whole = (bytes + SIM_CHUNK_BYTES - 1) & ~(size_t)(SIM_CHUNK_BYTES - 1);
  const uintptr_t start = sim_heap_addresses(whole, SIM_CHUNK_BYTES, 0, PROT_READ | PROT_WRITE);
  sim_range_t    *range = start == 0 ? NULL : sim_range_add(start, bytes, SIM_RANGE_GRAPH, device, NULL);
  if (range == NULL) {
    if (start != 0) {
      munmap((void *)start, whole);
    }
    return NULL;
  }
  range->block_bytes = whole;
  memory.all[memory.count++] = range;
  return range;
}

static void uncharge(sim_range_t *range)
{
  if (range->is_charged) {
    madvise((void *)range->start, range->block_bytes, MADV_DONTNEED);
    sim_uncharge(range->device, range->block_bytes);
    memory.reserved[range->device] -= range->block_bytes;
    range->is_charged = false;
  }
}

static void forget(sim_range_t *range)
{
  uncharge(range);
  for (size_t i = 0; i < memory.count; i++) {
    if (memory.all[i] == range) {
      memory.all[i] = memory.all[--memory.count];
      break;
    }
  }
  munmap((void *)range->start, range->block_bytes);
  sim_range_remove(range);
}

void sim_graph_memory_hold(const sim_work_t *work)
{
  sim_range_t *range = work->kind == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? sim_range_find(work->of.address) : NULL;
  if (range != NULL) {
    range->nodes++;
  }
}

void sim_graph_memory_drop(const sim_work_t *work)
{
  sim_range_t *range = work->kind == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? sim_range_find(work->of.address) : NULL;
  // What lives when its graph goes belongs to the user until it is freed.
  if (range != NULL && --range->nodes == 0 && !range->is_live) {
    forget(range);
  }
}

static void add(uint64_t *figure, uint64_t *high, uint64_t bytes)
{
  *figure += bytes;
  *high = *figure > *high ? *figure : *high;
}

static CUresult charge(sim_range_t *range)
{
  if (range->is_charged) {
    return CUDA_SUCCESS;
  }
  if (!sim_charge(range->device, range->block_bytes) &&
      !(sim_pools_squeeze(range->device) && sim_charge(range->device, range->block_bytes))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  range->is_charged = true;
  add(&memory.reserved[range->device], &memory.reserved_high[range->device], range->block_bytes);
  return CUDA_SUCCESS;
}

static CUresult come_alive(sim_range_t *range, bool auto_free)
{
  if (range->is_live) {
    return auto_free ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = charge(range);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  range->is_live = true;
  add(&memory.used[range->device], &memory.used_high[range->device], range->block_bytes);
  return CUDA_SUCCESS;
}

CUresult sim_graph_memory_take(const sim_work_t *work)
{
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = work->kind == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? sim_range_find(work->of.address) : NULL;
  if (range != NULL && range->kind == SIM_RANGE_GRAPH) {
    result = charge(range);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

CUresult sim_graph_memory_free(sim_range_t *range)
{
  if (!range->is_live) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  range->is_live = false;
  memory.used[range->device] -= range->block_bytes;
  if (range->nodes == 0) {
    forget(range);
  }
  return CUDA_SUCCESS;
}

CUresult sim_graph_memory_run(const sim_work_t *work, bool auto_free)
{
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find(work->of.address);
  if (range != NULL && range->kind == SIM_RANGE_GRAPH) {
    result = work->kind == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? come_alive(range, auto_free) : sim_graph_memory_free(range);
  } else if (range != NULL && range->kind == SIM_RANGE_POOL && work->kind == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    result = sim_pool_free(range);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuDeviceGraphMemTrim(CUdevice device)
{
  const CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  for (size_t i = 0; i < memory.count; i++) {
    if (memory.all[i]->device == device && !memory.all[i]->is_live) {
      uncharge(memory.all[i]);
    }
  }
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
  const CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS || value == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t *figures[] = {memory.used, memory.used_high, memory.reserved, memory.reserved_high};
  if ((unsigned int)attribute >= sizeof figures / sizeof *figures) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  *(cuuint64_t *)value = figures[attribute][device];
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
  const CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS || value == NULL || *(cuuint64_t *)value != 0) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) {
    memory.used_high[device] = memory.used[device];
  } else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
    memory.reserved_high[device] = memory.reserved[device];
  }
  pthread_mutex_unlock(&sim_lock);
  return attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
