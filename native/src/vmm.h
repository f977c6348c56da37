// VMM: physical memory made by cuMemCreate, alive while a handle, a mapping or a holder refers to it.
//
// Pure bookkeeping, as the ledger. A holder is what keeps memory beside handles and mappings: a sparse array
// with tiles in it, a multicast object that it is bound to.

#ifndef JVGPU_VMM_H
#define JVGPU_VMM_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger.h"

typedef struct jvgpu_vmm_s {
  jvgpu_lock_t  lock;
  uint64_t      next_block;
  jvgpu_table_t blocks;    // block id -> bytes, device, references
  jvgpu_table_t handles;   // handle -> block, count = times created and retained
  jvgpu_table_t mappings;  // address -> block, bytes mapped there
  jvgpu_table_t holds;     // holder and place in it -> block, the holder
} jvgpu_vmm_t;

// A new block with one handle; without bytes it is a multicast object. returns: false when memory is short;
// nothing is recorded then.
bool jvgpu_vmm_create(jvgpu_vmm_t *vmm, uint64_t handle, uint64_t bytes, uint32_t device);
// One more reference by this handle, found by the address it is mapped at.
void jvgpu_vmm_retain(jvgpu_vmm_t *vmm, uint64_t handle, uint64_t address);
void jvgpu_vmm_map(jvgpu_vmm_t *vmm, uint64_t address, uint64_t bytes, uint64_t handle);

// All below add what has no reference left to *freed.

void jvgpu_vmm_release(jvgpu_vmm_t *vmm, uint64_t handle, jvgpu_freed_t *freed);
// Forget every mapping in [address, address + bytes).
void jvgpu_vmm_unmap(jvgpu_vmm_t *vmm, uint64_t address, uint64_t bytes, jvgpu_freed_t *freed);

// `place` of `holder`, an array, refers to the block of `handle` now (an unknown one: to none), and no longer to
// what it referred to before. pre: holder is an address.
void jvgpu_vmm_hold(jvgpu_vmm_t *vmm, uint64_t holder, uint64_t place, uint64_t handle, jvgpu_freed_t *freed);
void jvgpu_vmm_let_go(jvgpu_vmm_t *vmm, uint64_t holder, uint64_t place, jvgpu_freed_t *freed);
// The array is destroyed.
void jvgpu_vmm_holder_gone(jvgpu_vmm_t *vmm, uint64_t holder, jvgpu_freed_t *freed);

// `offset` of the multicast object of handle `group`, on the device of the block of `handle`, refers to that block.
// The object lets go of what is bound to it when it is gone.
void jvgpu_vmm_bind(jvgpu_vmm_t *vmm, uint64_t group, uint64_t offset, uint64_t handle, jvgpu_freed_t *freed);
// ... to the block that is mapped at `address`.
void jvgpu_vmm_bind_at(jvgpu_vmm_t *vmm, uint64_t group, uint64_t offset, uint64_t address, jvgpu_freed_t *freed);
void jvgpu_vmm_unbind(jvgpu_vmm_t *vmm, uint64_t group, uint64_t offset, uint32_t device, jvgpu_freed_t *freed);

#endif
