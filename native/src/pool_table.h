// Pool table: which pools there are, on which device each is, and which one an allocation comes from.
//
// The driver is asked once which pool a device uses (15 ns each time, measured, H200); whoever sets another says so.

#ifndef JVGPU_POOL_TABLE_H
#define JVGPU_POOL_TABLE_H

#include <stdbool.h>

#include "process.h"

// Stands for the handle of a pool that is being destroyed: no driver gives it out.
static inline CUmemoryPool jvgpu_pool_no_handle(const jvgpu_pool_t *known)
{
  return (CUmemoryPool)((uintptr_t)known | 1u);
}

static inline bool jvgpu_pool_is_there(CUmemoryPool pool)
{
  return pool != NULL && ((uintptr_t)pool & 1u) == 0;
}

// returns: the pool's place, NULL = not known. With NULL for the pool: a free place.
jvgpu_pool_t *jvgpu_pool_find(jvgpu_process_t *self, CUmemoryPool pool);
// The same; a pool that is new is noted with its device. NULL = one too many to keep count of.
jvgpu_pool_t *jvgpu_pool_find_or_add(jvgpu_process_t *self, CUmemoryPool pool, int device);

// returns: the device of a pool that the program did not make, which is some device's own or the host's: its index in the
// claim, JVGPU_ON_HOST or JVGPU_NO_DEVICE. Of any other pool, the current context's.
int jvgpu_pool_device(jvgpu_process_t *self, CUmemoryPool pool);

// Which pool an allocation on `stream` comes from: *pool, or where that is NULL the one that the device uses, which is
// put there.
// returns: false where nobody can say; then the driver has its own answer. *known is NULL for a pool that is not noted:
// one that nothing was taken from yet, or one too many.
bool jvgpu_pool_choose(jvgpu_process_t *self, CUmemoryPool *pool, CUstream stream, jvgpu_pool_t **known);

// A device may use another pool now, or no longer the one that it used: to be called after the driver was told, and where
// a pool goes, before that too.
void jvgpu_pool_use_changed(jvgpu_process_t *self);

#endif
