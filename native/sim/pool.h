// What the files of the memory pools know of each other.

#ifndef JVGPU_SIM_POOL_H
#define JVGPU_SIM_POOL_H

#include "range.h"

#define POOL_MAGIC 0x504f4f4cu

typedef struct sim_block_s {
  sim_range_t        *range;  // taken from the heap, entered in no context
  struct sim_block_s *next;
} sim_block_t;

struct CUmemPoolHandle_st {
  uint32_t                   magic;
  CUdevice                   device;
  bool                       is_default;
  bool                       is_shareable;
  bool                       is_imported;  // another process's: nothing can be allocated from it
  bool                       is_hosts;  // of the host's memory: no board is charged
  uint64_t                   reuse[3];
  uint64_t                   threshold_bytes;
  uint64_t                   most_bytes;  // 0: the board's size
  uint64_t                   reserved_bytes, reserved_high_bytes;
  uint64_t                   used_bytes, used_high_bytes;
  CUmemAccess_flags          access[SIM_MAX_BOARDS];
  sim_block_t               *unused;
  struct CUmemPoolHandle_st *next;
};

typedef struct sim_pools_s {
  CUmemoryPool all;
  CUmemoryPool default_of[SIM_MAX_BOARDS];
  CUmemoryPool current_of[SIM_MAX_BOARDS];
  CUmemoryPool of_host;
  _Atomic bool has_unused;
} sim_pools_t;

extern sim_pools_t sim_pools;

// returns: the device's default pool, made on first use; NULL when memory for it is short
// pre: sim_lock held
CUmemoryPool sim_pool_default(CUdevice device);
// The same of the host's memory.
CUmemoryPool sim_pool_of_host(void);
bool sim_is_pool(CUmemoryPool pool);
// pre: sim_lock held
CUmemoryPool sim_pool_make(CUdevice device, uint64_t most_bytes);
// returns: true when unused pool memory of the device went back to the board
// pre: sim_lock held
bool sim_pools_squeeze(CUdevice device);
CUresult sim_pool_free(sim_range_t *range);

#endif
