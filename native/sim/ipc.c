// Memory of one process in another: cuIpcGetMemHandle and what opens it; pools hand their memory over likewise
// (pool_share.c).
//
// Device memory is the process's own until somebody asks for a handle; then it moves, at the same addresses, into a
// file without a name, which the other process opens through /proc. The exporter alone pays for it.

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "range.h"

#define IPC_MAGIC 0x4349504956474aull

// What a CUipcMemHandle holds.
typedef struct sim_ticket_s {
  uint64_t magic;
  uint64_t owner;  // identity of the exporter
  int32_t  fd;     // its descriptor
  uint32_t board;
  uint64_t offset;
  uint64_t bytes;
} sim_ticket_t;

_Static_assert(sizeof(sim_ticket_t) <= sizeof(CUipcMemHandle), "it travels in the handle");

CUresult sim_ipc_tell(CUdeviceptr dptr, sim_range_kind_t kind, void *handle)
{
  sim_ticket_t ticket = {.magic = IPC_MAGIC, .owner = sim_shared_identity()};
  CUcontext    context;
  CUresult     result = sim_current(&context);
  if (result != CUDA_SUCCESS || handle == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find_kind(dptr, kind);
  if (range == NULL) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else if (!sim_heap_share(range, &ticket.fd, &ticket.offset)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    ticket.board = sim_process.board_of[range->device];
    ticket.bytes = range->bytes;
  }
  pthread_mutex_unlock(&sim_lock);
  if (result == CUDA_SUCCESS) {
    memset(handle, 0, sizeof(CUipcMemHandle));
    memcpy(handle, &ticket, sizeof ticket);
  }
  return result;
}

SIM_API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
  return sim_ipc_tell(dptr, SIM_RANGE_DEVICE, handle);
}

static int open_file(const sim_ticket_t *ticket)
{
  char path[64];
  if (!sim_shared_is_alive(ticket->owner)) {
    return -1;
  }
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)(ticket->owner & SIM_PID_MASK), ticket->fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

static CUresult map(CUcontext context, const sim_ticket_t *ticket, unsigned int flags, CUdeviceptr *dptr)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t before = ticket->offset % page;
  const size_t whole = (before + ticket->bytes + page - 1) / page * page;
  struct stat  info;
  const int    fd = open_file(ticket);
  void        *place = MAP_FAILED;
  // A file that is shorter than the handle says would kill the process at the first touch.
  if (fd >= 0 && fstat(fd, &info) == 0 && (uint64_t)info.st_size >= ticket->offset + ticket->bytes) {
    place = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(ticket->offset - before));
  }
  if (fd >= 0) {
    close(fd);
  }
  if (place == MAP_FAILED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  sim_range_t *range =
      sim_range_add((uintptr_t)place + before, ticket->bytes, SIM_RANGE_IMPORTED, context->device, context);
  if (range == NULL) {
    munmap(place, whole);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  range->block_bytes = whole;
  range->flags = flags;
  *dptr = range->start;
  return CUDA_SUCCESS;
}

CUresult sim_ipc_open(CUdeviceptr *dptr, const void *handle, unsigned int flags)
{
  sim_ticket_t ticket;
  CUcontext    context;
  CUresult     result = sim_current(&context);
  if (result != CUDA_SUCCESS || dptr == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  memcpy(&ticket, handle, sizeof ticket);
  if (ticket.magic != IPC_MAGIC || ticket.board != sim_process.board_of[context->device] || ticket.bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (ticket.owner == sim_shared_identity()) {
    return CUDA_ERROR_INVALID_CONTEXT;  // not in the process that made it
  }
  pthread_mutex_lock(&sim_lock);
  result = map(context, &ticket, flags, dptr);
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
  return flags > 1 ? CUDA_ERROR_INVALID_VALUE : sim_ipc_open(dptr, &handle, 0);
}

SIM_API CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
  return flags > 1 ? CUDA_ERROR_INVALID_VALUE : sim_ipc_open(dptr, &handle, 0);
}

void sim_imported_give(sim_range_t *range)
{
  const size_t    page = (size_t)sysconf(_SC_PAGESIZE);
  const uintptr_t start = range->start / page * page;
  const size_t    bytes = range->block_bytes;
  sim_range_remove(range);
  munmap((void *)start, bytes);
}

SIM_API CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find_kind(dptr, SIM_RANGE_IMPORTED);
  if (range == NULL || range->flags != 0) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    sim_imported_give(range);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}
