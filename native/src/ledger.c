#define _GNU_SOURCE
#include "ledger.h"

#include <string.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 128u

// --- one table ----------------------------------------------------------------------------------------

// source: the finalizer of MurmurHash3 (Austin Appleby, public domain): every key bit reaches every index bit.
static uint64_t scatter(uint64_t key)
{
  key ^= key >> 33;
  key *= UINT64_C(0xff51afd7ed558ccd);
  key ^= key >> 33;
  key *= UINT64_C(0xc4ceb9fe1a85ec53);
  key ^= key >> 33;
  return key;
}

static size_t home_of(const jvgpu_table_t *table, uint64_t key)
{
  return scatter(key) & (table->capacity - 1);
}

static size_t next_of(const jvgpu_table_t *table, size_t index)
{
  return (index + 1) & (table->capacity - 1);
}

static void place(jvgpu_table_t *table, const jvgpu_record_t *record)
{
  size_t index = home_of(table, record->key);
  while (table->records[index].key != 0 && table->records[index].key != record->key) {
    index = next_of(table, index);
  }
  table->used += table->records[index].key == 0;
  table->records[index] = *record;
}

static bool grow(jvgpu_table_t *table)
{
  jvgpu_table_t larger = {.capacity = table->capacity == 0 ? FIRST_CAPACITY : 2 * table->capacity};
  larger.records =
      mmap(NULL, larger.capacity * sizeof *larger.records, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (larger.records == MAP_FAILED) {
    return false;
  }
  for (size_t i = 0; i < table->capacity; i++) {
    if (table->records[i].key != 0) {
      place(&larger, &table->records[i]);
    }
  }
  jvgpu_table_clear(table);
  *table = larger;
  return true;
}

bool jvgpu_table_put(jvgpu_table_t *table, const jvgpu_record_t *record)
{
  if (2 * (table->used + 1) > table->capacity && !grow(table)) {
    return false;
  }
  place(table, record);
  return true;
}

jvgpu_record_t *jvgpu_table_find(const jvgpu_table_t *table, uint64_t key)
{
  if (table->capacity == 0) {
    return NULL;
  }
  for (size_t index = home_of(table, key); table->records[index].key != 0; index = next_of(table, index)) {
    if (table->records[index].key == key) {
      return &table->records[index];
    }
  }
  return NULL;
}

bool jvgpu_table_take(jvgpu_table_t *table, uint64_t key, jvgpu_record_t *taken)
{
  const jvgpu_record_t *found = jvgpu_table_find(table, key);
  if (found == NULL) {
    return false;
  }
  *taken = *found;
  size_t hole = (size_t)(found - table->records);
  // Move back whatever the hole would cut off from its home.
  for (size_t index = next_of(table, hole); table->records[index].key != 0; index = next_of(table, index)) {
    const size_t home = home_of(table, table->records[index].key);
    const size_t mask = table->capacity - 1;
    if (((index - home) & mask) >= ((index - hole) & mask)) {
      table->records[hole] = table->records[index];
      hole = index;
    }
  }
  table->records[hole].key = 0;
  table->used -= 1;
  return true;
}

void jvgpu_table_clear(jvgpu_table_t *table)
{
  if (table->capacity != 0) {
    munmap(table->records, table->capacity * sizeof *table->records);
  }
  memset(table, 0, sizeof *table);
}

// --- pointers, from any thread ------------------------------------------------------------------------------

static size_t shard_of(uint64_t key)
{
  return (scatter(key) >> 60) & (JVGPU_SHARDS - 1);
}

bool jvgpu_ledger_put(jvgpu_ledger_t *ledger, const jvgpu_record_t *record)
{
  const size_t shard = shard_of(record->key);
  jvgpu_lock(&ledger->shards[shard].lock);
  const bool done = jvgpu_table_put(&ledger->shards[shard].table, record);
  jvgpu_unlock(&ledger->shards[shard].lock);
  return done;
}

bool jvgpu_ledger_take(jvgpu_ledger_t *ledger, uint64_t key, jvgpu_record_t *taken)
{
  const size_t shard = shard_of(key);
  // A pointer that is freed was put by whoever handed it to us: an empty table holds none.
  if (__atomic_load_n(&ledger->shards[shard].table.used, __ATOMIC_ACQUIRE) == 0) {
    return false;
  }
  jvgpu_lock(&ledger->shards[shard].lock);
  const bool done = jvgpu_table_take(&ledger->shards[shard].table, key, taken);
  jvgpu_unlock(&ledger->shards[shard].lock);
  return done;
}

void jvgpu_ledger_take_owner(jvgpu_ledger_t *ledger, uint64_t owner, uint64_t *freed)
{
  for (size_t shard = 0; shard < JVGPU_SHARDS; shard++) {
    jvgpu_lock(&ledger->shards[shard].lock);
    jvgpu_table_t  kept = {0};
    jvgpu_table_t *table = &ledger->shards[shard].table;
    bool           whole = true;
    for (size_t i = 0; i < table->capacity && whole; i++) {
      if (table->records[i].key != 0 && table->records[i].owner != owner) {
        whole = jvgpu_table_put(&kept, &table->records[i]);
      }
    }
    // Short of memory: keep the old records; a charge too many is the safe mistake.
    if (whole) {
      for (size_t i = 0; i < table->capacity; i++) {
        if (table->records[i].key != 0 && table->records[i].owner == owner) {
          freed[table->records[i].device] += table->records[i].bytes;
        }
      }
      jvgpu_table_clear(table);
      *table = kept;
    } else {
      jvgpu_table_clear(&kept);
    }
    jvgpu_unlock(&ledger->shards[shard].lock);
  }
}

// --- physical memory behind handles and mappings --------------------------------------------------------------

// returns: whether the block is gone; then *gone is what it was.
static bool drop_reference(jvgpu_vmm_t *vmm, uint64_t block_id, jvgpu_record_t *gone)
{
  jvgpu_record_t *block = jvgpu_table_find(&vmm->blocks, block_id);
  if (block == NULL) {
    return false;
  }
  block->count -= 1;
  return block->count == 0 && jvgpu_table_take(&vmm->blocks, block_id, gone);
}

bool jvgpu_vmm_create(jvgpu_vmm_t *vmm, uint64_t handle, uint64_t bytes, uint32_t device)
{
  jvgpu_lock(&vmm->lock);
  vmm->next_block += 1;
  const jvgpu_record_t block = {.key = vmm->next_block, .bytes = bytes, .device = device, .count = 1};
  const jvgpu_record_t by_handle = {.key = handle, .owner = block.key, .device = device, .count = 1};
  bool                 done = jvgpu_table_put(&vmm->blocks, &block);
  if (done && !jvgpu_table_put(&vmm->handles, &by_handle)) {
    jvgpu_record_t undone;
    jvgpu_table_take(&vmm->blocks, block.key, &undone);
    done = false;
  }
  jvgpu_unlock(&vmm->lock);
  return done;
}

// The mapping that holds `address`. Begin addresses are found at once, others by looking at all.
static const jvgpu_record_t *mapping_at(const jvgpu_vmm_t *vmm, uint64_t address)
{
  const jvgpu_record_t *mapping = jvgpu_table_find(&vmm->mappings, address);
  for (size_t i = 0; mapping == NULL && i < vmm->mappings.capacity; i++) {
    const jvgpu_record_t *each = &vmm->mappings.records[i];
    if (each->key != 0 && each->key <= address && address - each->key < each->bytes) {
      mapping = each;
    }
  }
  return mapping;
}

void jvgpu_vmm_retain(jvgpu_vmm_t *vmm, uint64_t handle, uint64_t address)
{
  jvgpu_lock(&vmm->lock);
  const jvgpu_record_t *mapping = mapping_at(vmm, address);
  jvgpu_record_t       *block = mapping == NULL ? NULL : jvgpu_table_find(&vmm->blocks, mapping->owner);
  if (block != NULL) {
    jvgpu_record_t *known = jvgpu_table_find(&vmm->handles, handle);
    if (known != NULL && known->owner == block->key) {
      known->count += 1;
      block->count += 1;
    } else {
      const jvgpu_record_t by_handle = {.key = handle, .owner = block->key, .device = block->device, .count = 1};
      block->count += jvgpu_table_put(&vmm->handles, &by_handle);
    }
  }
  jvgpu_unlock(&vmm->lock);
}

void jvgpu_vmm_map(jvgpu_vmm_t *vmm, uint64_t address, uint64_t bytes, uint64_t handle)
{
  jvgpu_lock(&vmm->lock);
  const jvgpu_record_t *by_handle = jvgpu_table_find(&vmm->handles, handle);
  jvgpu_record_t       *block = by_handle == NULL ? NULL : jvgpu_table_find(&vmm->blocks, by_handle->owner);
  if (block != NULL) {
    const jvgpu_record_t mapping = {.key = address, .bytes = bytes, .owner = block->key, .device = block->device};
    block->count += jvgpu_table_put(&vmm->mappings, &mapping);
  }
  jvgpu_unlock(&vmm->lock);
}

bool jvgpu_vmm_release(jvgpu_vmm_t *vmm, uint64_t handle, jvgpu_record_t *gone)
{
  bool last = false;
  jvgpu_lock(&vmm->lock);
  jvgpu_record_t *by_handle = jvgpu_table_find(&vmm->handles, handle);
  if (by_handle != NULL) {
    const uint64_t block_id = by_handle->owner;
    by_handle->count -= 1;
    if (by_handle->count == 0) {
      jvgpu_record_t taken;
      jvgpu_table_take(&vmm->handles, handle, &taken);
    }
    last = drop_reference(vmm, block_id, gone);
  }
  jvgpu_unlock(&vmm->lock);
  return last;
}

void jvgpu_vmm_unmap(jvgpu_vmm_t *vmm, uint64_t address, uint64_t bytes, uint64_t *freed)
{
  // source: CUDA Driver API 13.0, cuMemUnmap: the range must cover whole mappings, of any number.
  jvgpu_lock(&vmm->lock);
  const uint64_t end = address + bytes;
  while (address < end) {
    jvgpu_record_t mapping;
    jvgpu_record_t gone;
    if (!jvgpu_table_take(&vmm->mappings, address, &mapping)) {
      // Imported or mapped before we attached: go on to the next mapping that is ours.
      uint64_t next = end;
      for (size_t i = 0; i < vmm->mappings.capacity; i++) {
        const uint64_t key = vmm->mappings.records[i].key;
        next = key > address && key < next ? key : next;
      }
      address = next;
      continue;
    }
    if (drop_reference(vmm, mapping.owner, &gone)) {
      freed[gone.device] += gone.bytes;
    }
    address += mapping.bytes;
  }
  jvgpu_unlock(&vmm->lock);
}
