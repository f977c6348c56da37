// Ledger: which pointer or handle of this process stands for how many charged bytes.
//
// Pure bookkeeping: no driver, no pages, no clock. Zeroed memory is an empty ledger. Memory comes
// from mmap, so that a program's own malloc (and its hooks) never sees us.

#ifndef JVGPU_LEDGER_H
#define JVGPU_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock.h"

#define JVGPU_SHARDS 16

typedef struct jvgpu_record_s {
  uint64_t key;     // pointer or handle; 0 = empty
  uint64_t bytes;   // charged
  uint64_t owner;   // context of a pointer, block of a handle or mapping
  uint32_t device;  // index in the claim
  uint32_t count;   // references, where they are counted
} jvgpu_record_t;

// Open addressing with backward-shift deletion: no tombstones, so that a million allocations and
// frees leave it as fast as it was.
typedef struct jvgpu_table_s {
  jvgpu_record_t *records;
  size_t          capacity;  // power of two, 0 = not yet made
  size_t          used;
} jvgpu_table_t;

// pre: key != 0. returns: false when memory is short.
bool jvgpu_table_put(jvgpu_table_t *table, const jvgpu_record_t *record);
// returns: the record in place, or NULL. Valid until the next put or take.
jvgpu_record_t *jvgpu_table_find(const jvgpu_table_t *table, uint64_t key);
// returns: whether the key was there; it is not any more.
bool jvgpu_table_take(jvgpu_table_t *table, uint64_t key, jvgpu_record_t *taken);
// Give the memory back.
void jvgpu_table_clear(jvgpu_table_t *table);

// Pointers, from any thread.
typedef struct jvgpu_ledger_s {
  struct {
    jvgpu_lock_t  lock;
    jvgpu_table_t table;
  } shards[JVGPU_SHARDS];
} jvgpu_ledger_t;

bool jvgpu_ledger_put(jvgpu_ledger_t *ledger, const jvgpu_record_t *record);
bool jvgpu_ledger_take(jvgpu_ledger_t *ledger, uint64_t key, jvgpu_record_t *taken);
// Take every record of `owner`; adds what they charge to freed[device].
// pre: freed has room for every device index used.
void jvgpu_ledger_take_owner(jvgpu_ledger_t *ledger, uint64_t owner, uint64_t *freed);

// Physical memory made by cuMemCreate: alive while a handle or a mapping refers to it.
typedef struct jvgpu_vmm_s {
  jvgpu_lock_t  lock;
  uint64_t      next_block;
  jvgpu_table_t blocks;    // block id -> bytes, device, references
  jvgpu_table_t handles;   // handle -> block, count = times created and retained
  jvgpu_table_t mappings;  // address -> block, bytes mapped there
} jvgpu_vmm_t;

// A new block with one handle. returns: false when memory is short; nothing is recorded then.
bool jvgpu_vmm_create(jvgpu_vmm_t *vmm, uint64_t handle, uint64_t bytes, uint32_t device);
// One more reference by this handle, found by the address it is mapped at.
void jvgpu_vmm_retain(jvgpu_vmm_t *vmm, uint64_t handle, uint64_t address);
void jvgpu_vmm_map(jvgpu_vmm_t *vmm, uint64_t address, uint64_t bytes, uint64_t handle);
// returns: whether that was the block's last reference; then *gone says what to give back.
bool jvgpu_vmm_release(jvgpu_vmm_t *vmm, uint64_t handle, jvgpu_record_t *gone);
// Forget every mapping in [address, address + bytes); adds what has no reference left to freed[device].
void jvgpu_vmm_unmap(jvgpu_vmm_t *vmm, uint64_t address, uint64_t bytes, uint64_t *freed);

#endif
