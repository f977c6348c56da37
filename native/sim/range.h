// Everything the process can name by address (range.c), and the memory behind it (heap.c, host_memory.c).
//
// pre of all: sim_lock held

#ifndef JVGPU_SIM_RANGE_H
#define JVGPU_SIM_RANGE_H

#include "driver.h"

typedef enum {
  SIM_RANGE_DEVICE,      // cuMemAlloc and relatives
  SIM_RANGE_MANAGED,
  SIM_RANGE_HOST,        // cuMemHostAlloc
  SIM_RANGE_REGISTERED,  // cuMemHostRegister
  SIM_RANGE_POOL,        // cuMemAllocAsync
  SIM_RANGE_UNUSED,      // kept by a pool, not the user's
  SIM_RANGE_GRAPH,       // a graph's memory node
  SIM_RANGE_RESERVED,    // cuMemAddressReserve
  SIM_RANGE_MAPPED,      // cuMemMap, inside a reserved one
  SIM_RANGE_ARRAY,       // arrays and mipmapped arrays
  SIM_RANGE_IMPORTED  // another's: by cuIpcOpenMemHandle, or, with SIM_IMPORTED_TO_FREE, from a pool or external memory
} sim_range_kind_t;

enum { SIM_IMPORTED_TO_FREE = 1 };  // flag: cuMemFree lets go of it

typedef struct sim_range_s {
  uintptr_t              start;
  size_t                 bytes;  // as asked for
  size_t                 block_bytes;  // as taken
  sim_range_kind_t       kind;
  CUdevice               device;
  CUcontext              context;  // NULL: belongs to the device
  unsigned int           flags;
  uint64_t               buffer_id;
  uint64_t               resident_bytes;  // managed memory: charged to the device it was last moved to
  struct sim_chunk_s    *chunk;  // small allocations share one
  int                    file;  // descriptor + 1 once it is shared with other processes
  CUmemoryPool           pool;
  struct sim_physical_s *physical;
  uint32_t               nodes;  // graph memory: allocation nodes that mean it
  bool                   is_live;  // graph memory: between its allocation and its free
  bool                   is_charged;  // graph memory: taken from the board
  CUmemAccess_flags      access;
  struct sim_range_s    *next;  // of the same context
  struct sim_range_s    *previous;
} sim_range_t;

// `sim_range_find` takes any address inside the range.
sim_range_t *sim_range_find(CUdeviceptr address);
sim_range_t *sim_range_find_kind(CUdeviceptr address, sim_range_kind_t kind);
// returns: the new range, entered; NULL when memory for the entry is short or the place is taken
sim_range_t *sim_range_add(uintptr_t start, size_t bytes, sim_range_kind_t kind, CUdevice device, CUcontext context);
void sim_range_remove(sim_range_t *range);  // and free the entry
// Reserved ranges hold mapped ones, so they live in an index of their own.
sim_range_t *sim_reserved_find(CUdeviceptr address);

// ---- device memory (heap.c)

// Takes `bytes` of the device's memory: host memory that costs nothing until touched.
// pre: sim_lock held; bytes > 0
// returns: the range, charged to the board; NULL when the board is full
sim_range_t *sim_heap_take(CUdevice device, size_t bytes, sim_range_kind_t kind, CUcontext context);
void sim_heap_give(sim_range_t *range);  // removes the range
// Lets other processes map the range: from now on it lies in a file, at `offset`.
// pre: sim_lock held
bool sim_heap_share(sim_range_t *range, int *fd, uint64_t *offset);
void sim_imported_give(sim_range_t *range);  // ipc.c
// Memory for other processes: 64 bytes that say where it is, and the range that stands for it there (ipc.c). Both take
// sim_lock themselves; kinds are SIM_RANGE_DEVICE and SIM_RANGE_POOL.
CUresult sim_ipc_tell(CUdeviceptr dptr, sim_range_kind_t kind, void *ticket);
CUresult sim_ipc_open(CUdeviceptr *dptr, const void *ticket, unsigned int flags);
// returns: false when the handle is none of an array
// returns: false when the handle is none; how many bytes the shape takes, and its flags
bool sim_array_needs(CUarray array, size_t *bytes, unsigned int *flags);
bool sim_mipmap_needs(CUmipmappedArray mipmap, size_t *bytes, unsigned int *flags);
// An array of that address is gone: so is what was mapped into it (array_sparse.c). Takes sim_lock itself.
void sim_sparse_drop(const void *resource);
bool sim_array_memory(CUarray array, CUdeviceptr *start, size_t *pitch, size_t *height);  // array.c
// Managed memory moves to a device, as far as that has room, or back to the host (device -1).
// pre: sim_lock held
void sim_managed_move(sim_range_t *range, uint64_t bytes, CUdevice device);
// Addresses without memory behind them, aligned to `alignment` (a power of two >= 4096).
// returns: 0 when there are none
uintptr_t sim_heap_addresses(size_t bytes, size_t alignment, uintptr_t hint, int protection);

// Host memory the driver made or was told of, managed memory too (host_memory.c). Removes the range.
// pre: sim_lock held
void sim_host_give(sim_range_t *range);

#endif
