// The index of addresses: two balanced trees of ranges that never overlap, libc's own (tsearch).
// A range compares equal to any range it overlaps, so a one-byte key finds what holds it.

#include <search.h>
#include <stdlib.h>

#include "driver.h"
#include "range.h"

static void    *ranges;
static void    *reserved;
static uint64_t next_buffer_id = 1;

static int compare(const void *left, const void *right)
{
  const sim_range_t *a = left;
  const sim_range_t *b = right;
  if (a->start + a->bytes <= b->start) {
    return -1;
  }
  return b->start + b->bytes <= a->start ? 1 : 0;
}

static void **tree_of(sim_range_kind_t kind)
{
  return kind == SIM_RANGE_RESERVED ? &reserved : &ranges;
}

static sim_range_t *find_in(void **tree, CUdeviceptr address)
{
  const sim_range_t key = {.start = (uintptr_t)address, .bytes = 1};
  void             *node = tfind(&key, tree, compare);
  return node == NULL ? NULL : *(sim_range_t **)node;
}

sim_range_t *sim_range_find(CUdeviceptr address)
{
  return find_in(&ranges, address);
}

sim_range_t *sim_reserved_find(CUdeviceptr address)
{
  return find_in(&reserved, address);
}

sim_range_t *sim_range_find_kind(CUdeviceptr address, sim_range_kind_t kind)
{
  sim_range_t *range = find_in(tree_of(kind), address);
  return range != NULL && range->kind == kind && range->start == (uintptr_t)address ? range : NULL;
}

sim_range_t *sim_range_add(uintptr_t start, size_t bytes, sim_range_kind_t kind, CUdevice device, CUcontext context)
{
  sim_range_t *range = calloc(1, sizeof *range);
  if (range == NULL) {
    return NULL;
  }
  range->start = start;
  range->bytes = bytes;
  range->block_bytes = bytes;
  range->kind = kind;
  range->device = device;
  range->context = context;
  range->buffer_id = next_buffer_id++;
  range->access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  void *node = tsearch(range, tree_of(kind), compare);
  if (node == NULL || *(sim_range_t **)node != range) {
    free(range);
    return NULL;
  }
  if (context != NULL) {
    range->next = context->ranges;
    if (range->next != NULL) {
      range->next->previous = range;
    }
    context->ranges = range;
  }
  return range;
}

void sim_range_remove(sim_range_t *range)
{
  tdelete(range, tree_of(range->kind), compare);
  if (range->context != NULL) {
    if (range->previous != NULL) {
      range->previous->next = range->next;
    } else {
      range->context->ranges = range->next;
    }
    if (range->next != NULL) {
      range->next->previous = range->previous;
    }
  }
  free(range);
}
