// Host memory the device may use, and managed memory, which a simulated board keeps on the host too.

#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "graph.h"

enum { ATTACH_GLOBAL = 1, ATTACH_HOST = 2 };

static CUresult allocate(uintptr_t *address, size_t bytes, sim_range_kind_t kind, unsigned int flags)
{
  CUcontext context;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (address == NULL || (bytes == 0 && kind != SIM_RANGE_HOST)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  result = sim_capture_check_unsafe();
  if (result != CUDA_SUCCESS || bytes == 0) {
    return result;  // nothing of the host's memory is no error to the real driver: the place gets NULL here
  }
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (bytes > SIZE_MAX - page) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const size_t whole = (bytes + page - 1) / page * page;
  pthread_mutex_lock(&sim_lock);
  const uintptr_t start = sim_heap_addresses(whole, page, 0, PROT_READ | PROT_WRITE);
  sim_range_t    *range = start == 0 ? NULL : sim_range_add(start, bytes, kind, context->device, context);
  if (range != NULL) {
    range->block_bytes = whole;
    range->flags = flags;
    *address = start;
  } else if (start != 0) {
    munmap((void *)start, whole);
  }
  pthread_mutex_unlock(&sim_lock);
  return range == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void sim_host_give(sim_range_t *range)
{
  const uintptr_t start = range->start;
  const size_t    bytes = range->block_bytes;
  const bool      is_ours = range->kind != SIM_RANGE_REGISTERED;
  if (range->resident_bytes > 0) {
    sim_uncharge(range->device, range->resident_bytes);
  }
  sim_range_remove(range);
  if (is_ours) {
    munmap((void *)start, bytes);
  }
}

// The real driver moves pages of managed memory to a board when they are used there, and away again when another needs
// the room. Here they count as the board's after a prefetch or a fill; they never really move.
void sim_managed_move(sim_range_t *range, uint64_t bytes, CUdevice device)
{
  const uint64_t whole = (range->bytes + SIM_CHUNK_BYTES - 1) / SIM_CHUNK_BYTES * SIM_CHUNK_BYTES;
  const uint64_t more = (bytes + SIM_CHUNK_BYTES - 1) / SIM_CHUNK_BYTES * SIM_CHUNK_BYTES;
  if (range->resident_bytes > 0 && device != range->device) {
    sim_uncharge(range->device, range->resident_bytes);
    range->resident_bytes = 0;
  }
  if (device < 0) {
    return;
  }
  range->device = device;
  const uint64_t left = whole - range->resident_bytes;
  const uint64_t wanted = more < left ? more : left;
  // More than fits is allowed: the rest stays on the host.
  if (wanted > 0 && sim_charge(device, wanted)) {
    range->resident_bytes += wanted;
  }
}

SIM_API CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
  if (flags != ATTACH_GLOBAL && flags != ATTACH_HOST) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uintptr_t      address = 0;
  const CUresult result = allocate(dptr == NULL ? NULL : &address, bytes, SIM_RANGE_MANAGED, flags);
  if (result == CUDA_SUCCESS) {
    *dptr = address;
  }
  return result;
}

SIM_API CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
  if (flags > 7) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uintptr_t      address = 0;
  const CUresult result = allocate(pointer == NULL ? NULL : &address, bytes, SIM_RANGE_HOST, flags);
  if (result == CUDA_SUCCESS) {
    *pointer = (void *)address;
  }
  return result;
}

SIM_API CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
  return cuMemHostAlloc(pointer, bytes, 0);
}

SIM_API CUresult cuMemAllocHost(void **pointer, unsigned int bytes)
{
  return cuMemHostAlloc(pointer, bytes, 0);
}

static CUresult give(const void *pointer, sim_range_kind_t kind, CUresult unknown)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  result = sim_capture_check_unsafe();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find_kind((uintptr_t)pointer, kind);
  if (range == NULL) {
    result = unknown;
  } else {
    sim_host_give(range);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemFreeHost(void *pointer)
{
  return pointer == NULL ? sim_ready() : give(pointer, SIM_RANGE_HOST, CUDA_ERROR_INVALID_VALUE);
}

SIM_API CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
  CUcontext context;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (pointer == NULL || bytes == 0 || flags > 15) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_add((uintptr_t)pointer, bytes, SIM_RANGE_REGISTERED, context->device, context);
  if (range == NULL) {
    result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  } else {
    range->flags = flags;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
  return cuMemHostRegister_v2(pointer, bytes, flags);
}

SIM_API CUresult cuMemHostUnregister(void *pointer)
{
  return give(pointer, SIM_RANGE_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static CUresult host_range(const void *pointer, sim_range_t *copy)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find((uintptr_t)pointer);
  if (range == NULL || (range->kind != SIM_RANGE_HOST && range->kind != SIM_RANGE_REGISTERED)) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    *copy = *range;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *pointer, unsigned int flags)
{
  sim_range_t range;
  if (dptr == NULL || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = host_range(pointer, &range);
  if (result == CUDA_SUCCESS) {
    *dptr = (uintptr_t)pointer;
  }
  return result;
}

SIM_API CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer)
{
  sim_range_t range;
  if (flags == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = host_range(pointer, &range);
  if (result == CUDA_SUCCESS) {
    *flags = range.flags;
  }
  return result;
}

// Advice is taken and forgotten.
static CUresult known_range(CUdeviceptr dptr, size_t bytes)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find(dptr);
  if (bytes == 0 || range == NULL || dptr + bytes > range->start + range->bytes) {
    result = CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemAdvise(CUdeviceptr dptr, size_t bytes, CUmem_advise advice, CUdevice device)
{
  (void)advice;
  (void)device;
  return known_range(dptr, bytes);
}

SIM_API CUresult cuMemAdvise_v2(CUdeviceptr dptr, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
  (void)advice;
  (void)location;
  return known_range(dptr, bytes);
}

static CUresult prefetch(CUdeviceptr dptr, size_t bytes, CUdevice device, CUstream handle, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  result = result == CUDA_SUCCESS ? known_range(dptr, bytes) : result;
  if (result != CUDA_SUCCESS || device >= sim_process.device_count) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_DEVICE;
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find(dptr);
  if (range != NULL && range->kind == SIM_RANGE_MANAGED) {
    sim_managed_move(range, bytes, device);
  }
  pthread_mutex_unlock(&sim_lock);
  sim_submit(stream, sim_link_ns(stream->context->device, bytes));
  return CUDA_SUCCESS;
}

SIM_TWINS(cuMemPrefetchAsync, ptsz, (CUdeviceptr dptr, size_t bytes, CUdevice device, CUstream stream),
          prefetch(dptr, bytes, device, stream, face))
SIM_TWINS(cuMemPrefetchAsync_v2, ptsz,
          (CUdeviceptr dptr, size_t bytes, CUmemLocation location, unsigned int flags __attribute__((unused)),
           CUstream stream),
          prefetch(dptr, bytes, location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : -1, stream, face))
