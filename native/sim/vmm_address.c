// Addresses of the VMM calls: reserve, map, open, unmap, free.

#include <sys/mman.h>

#include "vmm.h"

SIM_API CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                                     unsigned long long flags)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (out == NULL || bytes == 0 || bytes % SIM_CHUNK_BYTES != 0 || flags != 0 || (alignment & (alignment - 1)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t aligned = alignment < SIM_CHUNK_BYTES ? SIM_CHUNK_BYTES : alignment;
  pthread_mutex_lock(&sim_lock);
  const uintptr_t start = sim_heap_addresses(bytes, aligned, (uintptr_t)hint, PROT_NONE);
  if (start == 0) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else if (sim_range_add(start, bytes, SIM_RANGE_RESERVED, 0, NULL) == NULL) {
    munmap((void *)start, bytes);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    *out = start;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

// returns: the first mapped range that begins in the span, NULL when there is none
static sim_range_t *mapped_in(uintptr_t start, size_t bytes)
{
  for (uintptr_t at = start; at < start + bytes; at += SIM_CHUNK_BYTES) {
    sim_range_t *range = sim_range_find(at);
    if (range != NULL && range->kind == SIM_RANGE_MAPPED) {
      return range;
    }
  }
  return NULL;
}

SIM_API CUresult cuMemAddressFree(CUdeviceptr start, size_t bytes)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find_kind(start, SIM_RANGE_RESERVED);
  if (range == NULL || range->bytes != bytes || mapped_in(range->start, range->bytes) != NULL) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    munmap((void *)range->start, range->bytes);
    sim_range_remove(range);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset, sim_physical_t *physical)
{
  const sim_range_t *reserved = sim_reserved_find(address);
  if (physical == NULL || physical->handles == 0 || bytes == 0 || address % SIM_CHUNK_BYTES != 0 || reserved == NULL ||
      address + bytes > reserved->start + reserved->bytes || mapped_in((uintptr_t)address, bytes) != NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (offset != 0 || bytes != physical->bytes) {
    return CUDA_ERROR_NOT_SUPPORTED;  // a part of an allocation, or more than it, says a driver 580.159.04
  }
  void        *place = (void *)(uintptr_t)address;
  sim_range_t *range = sim_range_add((uintptr_t)address, bytes, SIM_RANGE_MAPPED, physical->device, NULL);
  if (range == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (mmap(place, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, physical->fd, physical->offset) != place) {
    sim_range_remove(range);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  range->physical = physical;
  range->access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  physical->mappings++;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || flags != 0) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  result = map(address, bytes, offset, sim_physical_find(handle));
  pthread_mutex_unlock(&sim_lock);
  return result;
}

// returns: true when whole mapped ranges cover the span, from its first byte to its last
static bool is_covered(uintptr_t start, size_t bytes)
{
  uintptr_t at = start;
  while (at < start + bytes) {
    const sim_range_t *range = sim_range_find_kind(at, SIM_RANGE_MAPPED);
    if (range == NULL) {
      return false;
    }
    at += range->bytes;
  }
  return bytes > 0 && at == start + bytes;
}

// returns: true when the span lies in a reservation and nothing is mapped there
static bool is_bare(uintptr_t start, size_t bytes)
{
  const sim_range_t *reserved = sim_reserved_find(start);
  return bytes > 0 && reserved != NULL && bytes <= reserved->start + reserved->bytes - start &&
         mapped_in(start, bytes) == NULL;
}

static void unmap(uintptr_t start, size_t bytes)
{
  // Nothing may take the place of what is unmapped: the addresses stay reserved.
  mmap((void *)start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  for (uintptr_t at = start; at < start + bytes;) {
    sim_range_t    *range = sim_range_find(at);
    sim_physical_t *physical = range->physical;
    at += range->bytes;
    sim_range_remove(range);
    physical->mappings--;
    sim_physical_drop(physical);
  }
}

SIM_API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  if (is_covered((uintptr_t)address, bytes)) {
    unmap((uintptr_t)address, bytes);
  } else if (!is_bare((uintptr_t)address, bytes)) {
    result = CUDA_ERROR_INVALID_VALUE;  // unmapping what is not mapped is no error to a driver 580.159.04
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *descriptions, size_t count)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || descriptions == NULL || count == 0) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  // One process has one address space here: the widest access given to any device is what counts.
  int access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  for (size_t i = 0; i < count; i++) {
    if (!sim_physical_is_location(&descriptions[i].location)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    access = (int)descriptions[i].flags > access ? (int)descriptions[i].flags : access;
  }
  const int protection = access == CU_MEM_ACCESS_FLAGS_PROT_NONE   ? PROT_NONE
                         : access == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                                   : PROT_READ | PROT_WRITE;
  pthread_mutex_lock(&sim_lock);
  if (!is_covered((uintptr_t)address, bytes) || mprotect((void *)(uintptr_t)address, bytes, protection) != 0) {
    result = CUDA_ERROR_INVALID_VALUE;
  }
  for (uintptr_t at = (uintptr_t)address; result == CUDA_SUCCESS && at < (uintptr_t)address + bytes;) {
    sim_range_t *range = sim_range_find(at);
    range->access = (CUmemAccess_flags)access;
    at += range->bytes;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || flags == NULL || location == NULL || !sim_physical_is_location(location)) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find(address);
  if (range == NULL || range->kind != SIM_RANGE_MAPPED) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    *flags = (unsigned long long)range->access;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}
