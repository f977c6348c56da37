// Pools: stream-ordered memory is charged by what each pool has reserved, which is what the driver
// really took; a freed block that its pool keeps is still the tenant's.

#ifndef JVGPU_POOLS_H
#define JVGPU_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "charge.h"
#include "process.h"

// One allocation under way.
typedef struct jvgpu_pool_charge_s {
  jvgpu_charge_t charge;
  jvgpu_pool_t  *known;  // this and the next only where `charge` has a process
  CUmemoryPool   pool;
} jvgpu_pool_charge_t;

// Reserve for an allocation from `pool` (NULL = the pool that the stream's device uses). While a capture
// lives on `stream` the allocation becomes a graph node and nothing is taken yet.
// returns: false when the tenant has no room; then there is nothing to settle.
bool jvgpu_pool_begin(jvgpu_pool_charge_t *taking, CUmemoryPool pool, uint64_t bytes, CUstream stream,
                      CUresult (*is_capturing)(CUstream, int *));
// Charge what the pool has reserved now.
CUresult jvgpu_pool_settle(const jvgpu_pool_charge_t *taking, CUresult result);

// Note a pool's device, where the program made the pool: an index in the claim, or JVGPU_ON_HOST.
void jvgpu_pool_created(jvgpu_process_t *self, CUmemoryPool pool, int device);
// Destroy a pool for the program. What is in use stays charged until it is freed, and only then the driver is told.
// source: CUDA Driver API 13.0, cuMemPoolDestroy: outstanding allocations outlive their pool.
CUresult jvgpu_pool_destroy(jvgpu_process_t *self, CUmemoryPool pool);
// Tell the driver to destroy a pool that nobody asks about. pre: is_going, and looks is 0. returns: its answer.
CUresult jvgpu_pool_end(jvgpu_process_t *self, jvgpu_pool_t *known);

// Look at every charged pool again; what synchronisation let go is given back, pools that were left are destroyed.
void jvgpu_pools_look(jvgpu_process_t *self);
void jvgpu_pools_look_after_free(jvgpu_process_t *self);
// The same when the host has waited for the device, if something was freed since it last gave anything back.
static inline void jvgpu_pools_waited(jvgpu_process_t *self)
{
  if (__atomic_load_n(&self->has_freed, __ATOMIC_RELAXED) != 0) {
    jvgpu_pools_look_after_free(self);
  }
}
// The same for one device, after asking the driver to let go of what no allocation uses.
// returns: whether anything was given back.
bool jvgpu_pools_trim(jvgpu_process_t *self, uint32_t device);

#endif
