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
#define JVGPU_LEDGER_DEVICES 16

typedef struct jvgpu_record_s {
  uint64_t key;     // pointer or handle; 0 = empty
  uint64_t bytes;   // charged
  uint64_t owner;   // context of a pointer, block of a handle or mapping
  uint32_t device;  // index in the claim
  uint32_t count;   // references, where they are counted; of a pointer or handle: JVGPU_IS_*
} jvgpu_record_t;

enum {
  JVGPU_IS_POINTER = 0,  // the driver can be asked whether it knows it
  JVGPU_IS_HANDLE = 1,
};

// What is to be given back, by device of the claim.
typedef struct jvgpu_freed_s {
  uint64_t bytes[JVGPU_LEDGER_DEVICES];
  uint64_t count[JVGPU_LEDGER_DEVICES];  // allocations
} jvgpu_freed_t;

static inline void jvgpu_freed_add(jvgpu_freed_t *freed, const jvgpu_record_t *record)
{
  freed->bytes[record->device] += record->bytes;
  freed->count[record->device] += record->bytes != 0;
}

// Open addressing with backward-shift deletion: no tombstones, so that a million allocations and
// frees leave it as fast as it was.
typedef struct jvgpu_table_s {
  jvgpu_record_t *records;
  size_t          capacity;  // power of two, 0 = not yet made
  size_t          used;
} jvgpu_table_t;

// returns: `value` with every bit spread over all.
uint64_t jvgpu_scatter(uint64_t value);

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
// Make every record of `owner` one of `heir`.
void jvgpu_ledger_hand_over(jvgpu_ledger_t *ledger, uint64_t owner, uint64_t heir);
// Take every record of `owner`; adds what they charge to *freed.
void jvgpu_ledger_take_owner(jvgpu_ledger_t *ledger, uint64_t owner, jvgpu_freed_t *freed);
// Take those pointers of `owner` that `is_known` says no to, and give the others to `heir`.
// threads: `is_known` is called without a lock.
void jvgpu_ledger_take_unknown(jvgpu_ledger_t *ledger, uint64_t owner, uint64_t heir, bool (*is_known)(uint64_t),
                               jvgpu_freed_t *freed);

#endif
