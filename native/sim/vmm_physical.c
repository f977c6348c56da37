// cuMemCreate and what is done with handles. Memory lies in files that have no name (memfd), so that one piece can be
// mapped at several addresses and handed to another process.

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "graph.h"
#include "pool.h"
#include "vmm.h"

#define FIRST_HANDLE 0x10000u
#define FILE_NAME "jupyter-vgpu-sim-board-"

static struct {
  sim_physical_t **slots;  // a handle is an index, so a wrong one is found out
  size_t           count;
  size_t           first_free;
  int  file[SIM_MAX_BOARDS];  // shared by all memory that is not exportable; one descriptor per 2 MiB would be too many
  bool has_file[SIM_MAX_BOARDS];
  off_t end[SIM_MAX_BOARDS];
} vmm;

bool sim_physical_is_location(const CUmemLocation *location)
{
  return location->type == CU_MEM_LOCATION_TYPE_DEVICE && sim_check_device(location->id) == CUDA_SUCCESS;
}

sim_physical_t *sim_physical_find(CUmemGenericAllocationHandle handle)
{
  return handle < FIRST_HANDLE || handle - FIRST_HANDLE >= vmm.count ? NULL : vmm.slots[handle - FIRST_HANDLE];
}

// returns: false when memory for the table is short
static bool give_handle(sim_physical_t *physical)
{
  while (vmm.first_free < vmm.count && vmm.slots[vmm.first_free] != NULL) {
    vmm.first_free++;
  }
  if (vmm.first_free == vmm.count) {
    const size_t     more = vmm.count == 0 ? 64 : vmm.count * 2;
    sim_physical_t **slots = realloc(vmm.slots, more * sizeof *slots);
    if (slots == NULL) {
      return false;
    }
    memset(slots + vmm.count, 0, (more - vmm.count) * sizeof *slots);
    vmm.slots = slots;
    vmm.count = more;
  }
  vmm.slots[vmm.first_free] = physical;
  physical->handle = FIRST_HANDLE + vmm.first_free;
  return true;
}

static int new_file(CUdevice device, size_t bytes)
{
  char name[64];
  snprintf(name, sizeof name, FILE_NAME "%u", sim_process.board_of[device]);
  // By number: the C library has its function since glibc 2.27, and releases are built for 2.17.
  const int fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
  if (fd >= 0 && bytes > 0 && ftruncate(fd, (off_t)bytes) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

static bool place(sim_physical_t *physical)
{
  const CUdevice device = physical->device;
  if (physical->owns_file) {
    physical->fd = new_file(device, physical->bytes);
    return physical->fd >= 0;
  }
  if (!vmm.has_file[device]) {
    vmm.file[device] = new_file(device, 0);
    vmm.has_file[device] = vmm.file[device] >= 0;
  }
  if (!vmm.has_file[device] || ftruncate(vmm.file[device], vmm.end[device] + (off_t)physical->bytes) != 0) {
    return false;
  }
  physical->fd = vmm.file[device];
  physical->offset = vmm.end[device];
  vmm.end[device] += (off_t)physical->bytes;  // freed pieces are holes: the file grows, the memory does not
  return true;
}

void sim_physical_drop(sim_physical_t *physical)
{
  if (physical->handles > 0 || physical->mappings > 0) {
    return;
  }
  if (physical->handle != 0) {
    const size_t place_of_handle = physical->handle - FIRST_HANDLE;
    vmm.slots[place_of_handle] = NULL;
    vmm.first_free = place_of_handle < vmm.first_free ? place_of_handle : vmm.first_free;
  }
  if (physical->owns_file) {
    close(physical->fd);
  } else {
    fallocate(physical->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, physical->offset, (off_t)physical->bytes);
  }
  if (!physical->is_imported) {
    sim_uncharge(physical->device, physical->bytes);
  }
  free(physical);
}

SIM_API CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                               CUmemAllocationGranularity_flags option)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || bytes == NULL || properties == NULL || (unsigned int)option > 1 ||
      properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || !sim_physical_is_location(&properties->location)) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_VALUE;
  }
  *bytes = SIM_CHUNK_BYTES;
  return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties)
{
  const CUdevice device = properties->location.id;
  if (sim_allocation_fails(device)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!sim_charge(device, bytes) && !(sim_pools_squeeze(device) && sim_charge(device, bytes))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  sim_physical_t *physical = calloc(1, sizeof *physical);
  if (physical != NULL) {
    physical->device = device;
    physical->bytes = bytes;
    physical->properties = *properties;
    physical->owns_file = (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
    physical->handles = 1;
  }
  if (physical == NULL || !place(physical)) {
    free(physical);
    sim_uncharge(device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!give_handle(physical)) {
    physical->handles = 0;
    sim_physical_drop(physical);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = physical->handle;
  return CUDA_SUCCESS;
}

CUresult sim_physical_multicast(CUmemGenericAllocationHandle *handle, size_t bytes, uint32_t team_size)
{
  sim_physical_t *physical = calloc(1, sizeof *physical);
  CUresult        result = CUDA_SUCCESS;
  if (physical == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *physical =
      (sim_physical_t){.bytes = bytes, .owns_file = true, .is_imported = true, .handles = 1, .team_size = team_size};
  pthread_mutex_lock(&sim_lock);
  if (!place(physical)) {
    free(physical);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else if (!give_handle(physical)) {
    physical->handles = 0;
    sim_physical_drop(physical);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    *handle = physical->handle;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                             unsigned long long flags)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (handle == NULL || properties == NULL || flags != 0 || bytes == 0 || bytes % SIM_CHUNK_BYTES != 0 ||
      properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_NOT_SUPPORTED;  // VMM memory of the host is not simulated
  }
  result = sim_check_device(properties->location.id);
  if (result == CUDA_SUCCESS) {
    result = sim_capture_check_unsafe();
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  result = create(handle, bytes, properties);
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  sim_physical_t *physical = sim_physical_find(handle);
  if (physical == NULL || physical->handles == 0) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    physical->handles--;
    sim_physical_drop(physical);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || handle == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find((uintptr_t)address);
  if (range == NULL || range->kind != SIM_RANGE_MAPPED) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    range->physical->handles++;
    *handle = range->physical->handle;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp         *properties,
                                                        CUmemGenericAllocationHandle handle)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || properties == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_physical_t *physical = sim_physical_find(handle);
  if (physical == NULL) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    *properties = physical->properties;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType kind, unsigned long long flags)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || out == NULL || flags != 0 || kind != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_physical_t *physical = sim_physical_find(handle);
  const int             fd = physical == NULL || !physical->owns_file ? -1 : fcntl(physical->fd, F_DUPFD_CLOEXEC, 3);
  pthread_mutex_unlock(&sim_lock);
  if (fd < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *(int *)out = fd;
  return CUDA_SUCCESS;
}

// returns: the CUDA ordinal of the board a memory file belongs to; -1 when it is no such file, or not visible
static int device_of_file(int fd)
{
  char         path[48];
  char         target[128];
  unsigned int board;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(path, target, sizeof target - 1);
  if (length < 0) {
    return -1;
  }
  target[length] = 0;
  if (sscanf(target, "/memfd:" FILE_NAME "%u", &board) != 1) {
    return -1;
  }
  for (int i = 0; i < sim_process.device_count; i++) {
    if (sim_process.board_of[i] == board) {
      return i;
    }
  }
  return -1;
}

SIM_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
                                                CUmemAllocationHandleType kind)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS || handle == NULL || kind != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  struct stat info;
  const int   theirs = (int)(uintptr_t)os_handle;
  const int   device = device_of_file(theirs);
  if (device < 0 || fstat(theirs, &info) != 0 || info.st_size <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  sim_physical_t *physical = calloc(1, sizeof *physical);
  const int       fd = fcntl(theirs, F_DUPFD_CLOEXEC, 3);
  if (physical == NULL || fd < 0) {
    free(physical);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *physical = (sim_physical_t){.device = device,
                               .bytes = (size_t)info.st_size,
                               .fd = fd,
                               .owns_file = true,
                               .is_imported = true,
                               .handles = 1,
                               .properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}}};
  pthread_mutex_lock(&sim_lock);
  if (give_handle(physical)) {
    *handle = physical->handle;
  } else {
    physical->handles = 0;
    sim_physical_drop(physical);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

uintptr_t sim_physical_place(CUmemGenericAllocationHandle handle, uint64_t offset, uint64_t bytes, CUdevice *device)
{
  const sim_physical_t *physical = sim_physical_find(handle);
  if (physical == NULL || offset + bytes > physical->bytes || offset % (uint64_t)sysconf(_SC_PAGESIZE) != 0) {
    return 0;
  }
  void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, physical->fd, physical->offset + (off_t)offset);
  *device = physical->device;
  return place == MAP_FAILED ? 0 : (uintptr_t)place;
}
