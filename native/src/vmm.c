#define _GNU_SOURCE
#include "vmm.h"

#include <stddef.h>

// --- references -------------------------------------------------------------------------------------------------

static void drop_reference(jvgpu_vmm_t *vmm, uint64_t block_id, jvgpu_freed_t *freed);

// pre: the lock is held.
static void let_go(jvgpu_vmm_t *vmm, uint64_t key, jvgpu_freed_t *freed)
{
  jvgpu_record_t hold;
  if (jvgpu_table_take(&vmm->holds, key, &hold)) {
    drop_reference(vmm, hold.owner, freed);
  }
}

// pre: the lock is held.
static void let_all_go(jvgpu_vmm_t *vmm, uint64_t holder, jvgpu_freed_t *freed)
{
  for (size_t i = 0; i < vmm->holds.capacity;) {
    const jvgpu_record_t *each = &vmm->holds.records[i];
    if (each->key != 0 && each->bytes == holder) {
      // Another record may move into this place: it is looked at again.
      let_go(vmm, each->key, freed);
    } else {
      i++;
    }
  }
}

// pre: the lock is held.
static void drop_reference(jvgpu_vmm_t *vmm, uint64_t block_id, jvgpu_freed_t *freed)
{
  jvgpu_record_t  gone;
  jvgpu_record_t *block = jvgpu_table_find(&vmm->blocks, block_id);
  if (block == NULL) {
    return;
  }
  block->count -= 1;
  if (block->count == 0 && jvgpu_table_take(&vmm->blocks, block_id, &gone)) {
    jvgpu_freed_add(freed, &gone);
    // A block without bytes is a multicast object: what was bound to it is not any more.
    if (gone.bytes == 0) {
      let_all_go(vmm, block_id, freed);
    }
  }
}

// --- handles and mappings ---------------------------------------------------------------------------------------

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

void jvgpu_vmm_release(jvgpu_vmm_t *vmm, uint64_t handle, jvgpu_freed_t *freed)
{
  jvgpu_lock(&vmm->lock);
  jvgpu_record_t *by_handle = jvgpu_table_find(&vmm->handles, handle);
  if (by_handle != NULL) {
    const uint64_t block_id = by_handle->owner;
    by_handle->count -= 1;
    if (by_handle->count == 0) {
      jvgpu_record_t taken;
      jvgpu_table_take(&vmm->handles, handle, &taken);
    }
    drop_reference(vmm, block_id, freed);
  }
  jvgpu_unlock(&vmm->lock);
}

void jvgpu_vmm_unmap(jvgpu_vmm_t *vmm, uint64_t address, uint64_t bytes, jvgpu_freed_t *freed)
{
  // source: CUDA Driver API 13.0, cuMemUnmap: the range must cover whole mappings, of any number.
  jvgpu_lock(&vmm->lock);
  const uint64_t end = address + bytes;
  while (address < end) {
    jvgpu_record_t mapping;
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
    drop_reference(vmm, mapping.owner, freed);
    address += mapping.bytes;
  }
  jvgpu_unlock(&vmm->lock);
}

// --- holders ----------------------------------------------------------------------------------------------------

// One key for a holder and a place in it. Two pairs that meet in one key by chance, once in 2^64, would share
// a hold: one of them would be given back too early.
static uint64_t hold_key(uint64_t holder, uint64_t place)
{
  const uint64_t key = jvgpu_scatter(holder ^ jvgpu_scatter(place + 1));
  return key == 0 ? 1 : key;
}

static jvgpu_record_t *block_of_handle(const jvgpu_vmm_t *vmm, uint64_t handle)
{
  const jvgpu_record_t *by_handle = jvgpu_table_find(&vmm->handles, handle);
  return by_handle == NULL ? NULL : jvgpu_table_find(&vmm->blocks, by_handle->owner);
}

static jvgpu_record_t *block_at(const jvgpu_vmm_t *vmm, uint64_t address)
{
  const jvgpu_record_t *mapping = mapping_at(vmm, address);
  return mapping == NULL ? NULL : jvgpu_table_find(&vmm->blocks, mapping->owner);
}

// pre: the lock is held. `block` NULL: none of ours.
static void hold(jvgpu_vmm_t *vmm, uint64_t holder, uint64_t place, jvgpu_record_t *block, jvgpu_freed_t *freed)
{
  const jvgpu_record_t record = {
      .key = hold_key(holder, place), .owner = block == NULL ? 0 : block->key, .bytes = holder};
  // Hold the new one first: it may be the one that is let go.
  if (block != NULL) {
    block->count += 1;
  }
  let_go(vmm, record.key, freed);
  // Without host memory for the record the reference stays until the process ends: less, never more.
  if (record.owner != 0) {
    (void)jvgpu_table_put(&vmm->holds, &record);
  }
}

void jvgpu_vmm_hold(jvgpu_vmm_t *vmm, uint64_t holder, uint64_t place, uint64_t handle, jvgpu_freed_t *freed)
{
  jvgpu_lock(&vmm->lock);
  hold(vmm, holder, place, block_of_handle(vmm, handle), freed);
  jvgpu_unlock(&vmm->lock);
}

void jvgpu_vmm_let_go(jvgpu_vmm_t *vmm, uint64_t holder, uint64_t place, jvgpu_freed_t *freed)
{
  jvgpu_lock(&vmm->lock);
  let_go(vmm, hold_key(holder, place), freed);
  jvgpu_unlock(&vmm->lock);
}

void jvgpu_vmm_holder_gone(jvgpu_vmm_t *vmm, uint64_t holder, jvgpu_freed_t *freed)
{
  // Nearly always nothing is held by anything.
  if (__atomic_load_n(&vmm->holds.used, __ATOMIC_ACQUIRE) == 0) {
    return;
  }
  jvgpu_lock(&vmm->lock);
  let_all_go(vmm, holder, freed);
  jvgpu_unlock(&vmm->lock);
}

// A multicast object has the same places on each of its devices. source: CUDA Driver API 13.0, cuMulticastBindMem.
static uint64_t place_on(uint64_t offset, uint32_t device)
{
  return offset ^ (uint64_t)device << 56;
}

// pre: the lock is held.
static void bind(jvgpu_vmm_t *vmm, uint64_t group, uint64_t offset, jvgpu_record_t *block, jvgpu_freed_t *freed)
{
  const jvgpu_record_t *object = block_of_handle(vmm, group);
  if (object != NULL && block != NULL) {
    hold(vmm, object->key, place_on(offset, block->device), block, freed);
  }
}

void jvgpu_vmm_bind(jvgpu_vmm_t *vmm, uint64_t group, uint64_t offset, uint64_t handle, jvgpu_freed_t *freed)
{
  jvgpu_lock(&vmm->lock);
  bind(vmm, group, offset, block_of_handle(vmm, handle), freed);
  jvgpu_unlock(&vmm->lock);
}

void jvgpu_vmm_bind_at(jvgpu_vmm_t *vmm, uint64_t group, uint64_t offset, uint64_t address, jvgpu_freed_t *freed)
{
  jvgpu_lock(&vmm->lock);
  bind(vmm, group, offset, block_at(vmm, address), freed);
  jvgpu_unlock(&vmm->lock);
}

void jvgpu_vmm_unbind(jvgpu_vmm_t *vmm, uint64_t group, uint64_t offset, uint32_t device, jvgpu_freed_t *freed)
{
  jvgpu_lock(&vmm->lock);
  const jvgpu_record_t *object = block_of_handle(vmm, group);
  if (object != NULL) {
    let_go(vmm, hold_key(object->key, place_on(offset, device)), freed);
  }
  jvgpu_unlock(&vmm->lock);
}
