// Device memory: host memory that costs nothing until it is touched.
//
// The device hands out chunks of 2 MiB and charges the board by them. What is larger than half a chunk gets
// chunks of its own; smaller allocations share a chunk with others of their size class, so that a hundred
// thousand small ones cost what they hold. Freed large blocks go back to the host at once.

#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "pool.h"
#include "range.h"

#define SMALLEST_BYTES 512u
#define CLASSES 12u  // 512 B .. 1 MiB
#define SLOTS_MOST (SIM_CHUNK_BYTES / SMALLEST_BYTES)

typedef struct sim_chunk_s {
  uintptr_t           start;
  CUdevice            device;
  uint32_t            size_class;
  uint32_t            used;
  uint32_t            hint;  // no free place below this word of `taken`
  int                 file;  // descriptor + 1 once it is shared with other processes
  struct sim_chunk_s *next;
  struct sim_chunk_s *previous;
  uint64_t            taken[SLOTS_MOST / 64];
} sim_chunk_t;

// Chunks with room, per device and size class.
static sim_chunk_t *roomy[SIM_MAX_BOARDS][CLASSES];

uintptr_t sim_heap_addresses(size_t bytes, size_t alignment, uintptr_t hint, int protection)
{
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (bytes > SIZE_MAX - alignment) {
    return 0;
  }
  if (hint != 0 && hint % alignment == 0) {
    void *place = mmap((void *)hint, bytes, protection, flags, -1, 0);
    if (place == (void *)hint) {
      return hint;
    }
    if (place != MAP_FAILED) {
      munmap(place, bytes);
    }
  }
  char *place = mmap(NULL, bytes + alignment, protection, flags, -1, 0);
  if (place == MAP_FAILED) {
    return 0;
  }
  const uintptr_t raw = (uintptr_t)place;
  const uintptr_t start = (raw + alignment - 1) & ~(alignment - 1);
  if (start > raw) {
    munmap(place, start - raw);
  }
  munmap((void *)(start + bytes), raw + alignment - start);
  return start;
}

static uint32_t class_of(size_t bytes)
{
  uint32_t size_class = 0;
  while (((size_t)SMALLEST_BYTES << size_class) < bytes) {
    size_class++;
  }
  return size_class;
}

static void unlink_chunk(sim_chunk_t *chunk)
{
  if (chunk->previous != NULL) {
    chunk->previous->next = chunk->next;
  } else {
    roomy[chunk->device][chunk->size_class] = chunk->next;
  }
  if (chunk->next != NULL) {
    chunk->next->previous = chunk->previous;
  }
  chunk->next = NULL;
  chunk->previous = NULL;
}

static void link_chunk(sim_chunk_t *chunk)
{
  sim_chunk_t **head = &roomy[chunk->device][chunk->size_class];
  chunk->next = *head;
  if (chunk->next != NULL) {
    chunk->next->previous = chunk;
  }
  *head = chunk;
}

static uint32_t places_of(const sim_chunk_t *chunk)
{
  return (uint32_t)(SIM_CHUNK_BYTES / ((size_t)SMALLEST_BYTES << chunk->size_class));
}

// returns: addresses of whole chunks, charged; 0 when the board or the host is full
static uintptr_t take_chunks(CUdevice device, size_t bytes)
{
  if (!sim_charge(device, bytes) && !(sim_pools_squeeze(device) && sim_charge(device, bytes))) {
    return 0;
  }
  const uintptr_t start = sim_heap_addresses(bytes, SIM_CHUNK_BYTES, 0, PROT_READ | PROT_WRITE);
  if (start == 0) {
    sim_uncharge(device, bytes);
  }
  return start;
}

static sim_chunk_t *new_chunk(CUdevice device, uint32_t size_class)
{
  sim_chunk_t *chunk = calloc(1, sizeof *chunk);
  if (chunk == NULL) {
    return NULL;
  }
  chunk->device = device;
  chunk->size_class = size_class;
  chunk->start = take_chunks(device, SIM_CHUNK_BYTES);
  if (chunk->start == 0) {
    free(chunk);
    return NULL;
  }
  link_chunk(chunk);
  return chunk;
}

static uint32_t take_place(sim_chunk_t *chunk)
{
  while (chunk->taken[chunk->hint] == UINT64_MAX) {
    chunk->hint++;
  }
  const uint32_t place = chunk->hint * 64 + (uint32_t)__builtin_ctzll(~chunk->taken[chunk->hint]);
  chunk->taken[place / 64] |= 1ull << place % 64;
  if (++chunk->used == places_of(chunk)) {
    unlink_chunk(chunk);
  }
  return place;
}

static void close_file(int file)
{
  if (file > 0) {
    close(file - 1);
  }
}

static void give_place(sim_chunk_t *chunk, uintptr_t address)
{
  const uint32_t place = (uint32_t)((address - chunk->start) / ((size_t)SMALLEST_BYTES << chunk->size_class));
  const bool     was_full = chunk->used == places_of(chunk);
  chunk->taken[place / 64] &= ~(1ull << place % 64);
  chunk->used--;
  if (place / 64 < chunk->hint) {
    chunk->hint = place / 64;
  }
  if (was_full) {
    link_chunk(chunk);
  }
  if (chunk->used == 0) {
    unlink_chunk(chunk);
    munmap((void *)chunk->start, SIM_CHUNK_BYTES);
    close_file(chunk->file);
    sim_uncharge(chunk->device, SIM_CHUNK_BYTES);
    free(chunk);
  }
}

static sim_range_t *take_small(CUdevice device, size_t bytes, sim_range_kind_t kind, CUcontext context)
{
  const uint32_t size_class = class_of(bytes);
  sim_chunk_t   *chunk = roomy[device][size_class];
  if (chunk == NULL) {
    chunk = new_chunk(device, size_class);
  }
  if (chunk == NULL) {
    return NULL;
  }
  const uintptr_t start = chunk->start + take_place(chunk) * ((size_t)SMALLEST_BYTES << size_class);
  sim_range_t    *range = sim_range_add(start, bytes, kind, device, context);
  if (range == NULL) {
    give_place(chunk, start);
    return NULL;
  }
  range->block_bytes = (size_t)SMALLEST_BYTES << size_class;
  range->chunk = chunk;
  return range;
}

sim_range_t *sim_heap_take(CUdevice device, size_t bytes, sim_range_kind_t kind, CUcontext context)
{
  if (bytes > sim_board_capacity(sim_board(device)) || sim_allocation_fails(device)) {
    return NULL;
  }
  if (bytes <= SIM_CHUNK_BYTES / 2) {
    return take_small(device, bytes, kind, context);
  }
  const size_t    whole = (bytes + SIM_CHUNK_BYTES - 1) & ~(size_t)(SIM_CHUNK_BYTES - 1);
  const uintptr_t start = take_chunks(device, whole);
  if (start == 0) {
    return NULL;
  }
  sim_range_t *range = sim_range_add(start, bytes, kind, device, context);
  if (range == NULL) {
    munmap((void *)start, whole);
    sim_uncharge(device, whole);
    return NULL;
  }
  range->block_bytes = whole;
  return range;
}

void sim_heap_give(sim_range_t *range)
{
  const uintptr_t start = range->start;
  const size_t    bytes = range->block_bytes;
  const CUdevice  device = range->device;
  sim_chunk_t    *chunk = range->chunk;
  const int       file = range->file;
  sim_range_remove(range);
  if (chunk != NULL) {
    give_place(chunk, start);
    return;
  }
  munmap((void *)start, bytes);
  close_file(file);
  sim_uncharge(device, bytes);
}

// Copies what has been written, page by page: the rest stays a hole.
static bool fill_file(int fd, uintptr_t start, size_t bytes)
{
  static const char zeroes[4096];
  bool              ok = true;
  for (size_t at = 0; ok && at < bytes; at += sizeof zeroes) {
    const void *page = (const void *)(start + at);
    ok = memcmp(page, zeroes, sizeof zeroes) == 0 ||
         pwrite(fd, page, sizeof zeroes, (off_t)at) == (ssize_t)sizeof zeroes;
  }
  return ok;
}

// returns: the descriptor of a file that now lies behind the addresses, plus one; 0 when that cannot be
static int move_to_file(uintptr_t start, size_t bytes)
{
  const int fd = (int)syscall(SYS_memfd_create, "jupyter-vgpu-sim-ipc", MFD_CLOEXEC);
  if (fd < 0) {
    return 0;
  }
  if (ftruncate(fd, (off_t)bytes) != 0 || !fill_file(fd, start, bytes) ||
      mmap((void *)start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    close(fd);
    return 0;
  }
  return fd + 1;
}

bool sim_heap_share(sim_range_t *range, int *fd, uint64_t *offset)
{
  sim_chunk_t    *chunk = range->chunk;
  int            *file = chunk != NULL ? &chunk->file : &range->file;
  const uintptr_t start = chunk != NULL ? chunk->start : range->start;
  if (*file == 0) {
    *file = move_to_file(start, chunk != NULL ? SIM_CHUNK_BYTES : range->block_bytes);
  }
  *fd = *file - 1;
  *offset = range->start - start;
  return *file != 0;
}
