// A pool in another process: its allocations can be opened there one by one; the exporter pays for them.
//
// A shared pool is a small file that says which board it is of; the pool in the other process stands for nothing more.

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool.h"

#define SHARE_MAGIC 0x4c4f4f5056474a53ull

typedef struct sim_share_s {
  uint64_t magic;
  uint32_t board;
} sim_share_t;

SIM_API CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool, CUmemAllocationHandleType kind,
                                                  unsigned long long flags)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || out == NULL || !sim_is_pool(pool) || !pool->is_shareable || flags != 0 ||
      kind != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_VALUE;
  }
  const sim_share_t share = {.magic = SHARE_MAGIC, .board = sim_process.board_of[pool->device]};
  const int         fd = (int)syscall(SYS_memfd_create, "jupyter-vgpu-sim-pool", MFD_CLOEXEC);
  if (fd < 0 || write(fd, &share, sizeof share) != (ssize_t)sizeof share) {
    if (fd >= 0) {
      close(fd);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *(int *)out = fd;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle, CUmemAllocationHandleType kind,
                                                    unsigned long long flags)
{
  sim_share_t    share = {.magic = 0};
  const int      fd = (int)(uintptr_t)handle;
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || out == NULL || flags != 0 || kind != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      pread(fd, &share, sizeof share, 0) != (ssize_t)sizeof share || share.magic != SHARE_MAGIC) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_VALUE;
  }
  for (CUdevice device = 0; device < sim_process.device_count; device++) {
    if (sim_process.board_of[device] == share.board) {
      pthread_mutex_lock(&sim_lock);
      *out = sim_pool_make(device, 0);
      if (*out != NULL) {
        (*out)->is_imported = true;
      }
      pthread_mutex_unlock(&sim_lock);
      return *out == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SIM_API CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr dptr)
{
  return sim_ipc_tell(dptr, SIM_RANGE_POOL, out);
}

SIM_API CUresult cuMemPoolImportPointer(CUdeviceptr *dptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
  if (!sim_is_pool(pool) || !pool->is_imported || data == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return sim_ipc_open(dptr, data, SIM_IMPORTED_TO_FREE);
}
