#define _GNU_SOURCE
#include "ledger.h"

#include <string.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 128u

// --- one table ----------------------------------------------------------------------------------------

// source: the finalizer of MurmurHash3 (Austin Appleby, public domain): every key bit reaches every index bit.
uint64_t jvgpu_scatter(uint64_t value)
{
  value ^= value >> 33;
  value *= UINT64_C(0xff51afd7ed558ccd);
  value ^= value >> 33;
  value *= UINT64_C(0xc4ceb9fe1a85ec53);
  value ^= value >> 33;
  return value;
}

static size_t home_of(const jvgpu_table_t *table, uint64_t key)
{
  return jvgpu_scatter(key) & (table->capacity - 1);
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
  // Read without the table's lock by who frees.
  __atomic_store_n(&table->used, table->used + (table->records[index].key == 0), __ATOMIC_RELAXED);
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
  if (table->records != NULL) {
    munmap(table->records, table->capacity * sizeof *table->records);
  }
  // `used` stays what it is: for who frees without the table's lock it must not be 0 for a moment.
  table->records = larger.records;
  table->capacity = larger.capacity;
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
  __atomic_store_n(&table->used, table->used - 1, __ATOMIC_RELAXED);
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
  return (jvgpu_scatter(key) >> 60) & (JVGPU_SHARDS - 1);
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

void jvgpu_ledger_hand_over(jvgpu_ledger_t *ledger, uint64_t owner, uint64_t heir)
{
  for (size_t shard = 0; shard < JVGPU_SHARDS; shard++) {
    jvgpu_lock(&ledger->shards[shard].lock);
    jvgpu_table_t *table = &ledger->shards[shard].table;
    for (size_t i = 0; i < table->capacity; i++) {
      if (table->records[i].key != 0 && table->records[i].owner == owner) {
        table->records[i].owner = heir;
      }
    }
    jvgpu_unlock(&ledger->shards[shard].lock);
  }
}

void jvgpu_ledger_take_owner(jvgpu_ledger_t *ledger, uint64_t owner, jvgpu_freed_t *freed)
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
          jvgpu_freed_add(freed, &table->records[i]);
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

// returns: a copy of the shard's records of `owner`, `*count` of them; NULL when there are none or memory is short.
static jvgpu_record_t *copy_of_owner(jvgpu_ledger_t *ledger, size_t shard, uint64_t owner, size_t *count, size_t *bytes)
{
  jvgpu_record_t *copies = MAP_FAILED;
  *count = 0;
  jvgpu_lock(&ledger->shards[shard].lock);
  const jvgpu_table_t *table = &ledger->shards[shard].table;
  *bytes = table->used * sizeof *copies;
  if (table->used != 0) {
    copies = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  for (size_t i = 0; copies != MAP_FAILED && i < table->capacity; i++) {
    if (table->records[i].key != 0 && table->records[i].owner == owner) {
      copies[(*count)++] = table->records[i];
    }
  }
  jvgpu_unlock(&ledger->shards[shard].lock);
  return copies == MAP_FAILED ? NULL : copies;
}

void jvgpu_ledger_take_unknown(jvgpu_ledger_t *ledger, uint64_t owner, uint64_t heir, bool (*is_known)(uint64_t),
                               jvgpu_freed_t *freed)
{
  for (size_t shard = 0; shard < JVGPU_SHARDS; shard++) {
    size_t          count;
    size_t          bytes;
    jvgpu_record_t *copies = copy_of_owner(ledger, shard, owner, &count, &bytes);
    for (size_t i = 0; i < count; i++) {
      const bool stays = copies[i].count == JVGPU_IS_HANDLE || is_known(copies[i].key);
      // Another thread may have freed it meanwhile.
      if (jvgpu_ledger_take(ledger, copies[i].key, &copies[i])) {
        copies[i].owner = heir;
        if (!stays || !jvgpu_ledger_put(ledger, &copies[i])) {
          jvgpu_freed_add(freed, &copies[i]);
        }
      }
    }
    if (copies != NULL) {
      munmap(copies, bytes);
    }
  }
}
