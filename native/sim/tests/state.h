// A state file with small boards for the C tests; Python's create_boards writes the same layout.

#ifndef JVGPU_SIM_TEST_STATE_H
#define JVGPU_SIM_TEST_STATE_H

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared.h"

static inline sim_board_t state_board(unsigned int number, uint64_t memory_bytes)
{
  sim_board_t board = {.memory_bytes = memory_bytes + (64ull << 20),
                       .reserved_bytes = 64ull << 20,
                       .context_bytes = 8ull << 20,
                       .sm_count = 4,
                       .capability_major = 8,
                       .sm_clock_mhz = 1000 + number,
                       .cores_per_sm = 64,
                       .threads_per_sm = 2048,
                       .blocks_per_sm = 32,
                       .shared_per_sm_bytes = 163840,
                       .pci_bus = number};
  snprintf(board.name, sizeof board.name, "Simulated test board %u", number);
  board.uuid[0] = (uint8_t)(0xa0 + number);
  return board;
}

// Writes a file of `count` boards and names it in JUPYTER_VGPU_SIM.
// returns: the path, to be unlinked by the caller; NULL when it cannot be written
static inline char *state_write(unsigned int count, uint64_t memory_bytes)
{
  static char path[] = "/tmp/jvgpu-sim-test-XXXXXX";
  strcpy(path, "/tmp/jvgpu-sim-test-XXXXXX");
  sim_shared_t *shared = calloc(1, sizeof *shared);
  const int     fd = mkstemp(path);
  bool          ok = shared != NULL && fd >= 0;
  if (ok) {
    shared->magic = SIM_MAGIC;
    shared->layout = SIM_LAYOUT;
    shared->board_count = count;
    shared->cuda_version = 13000;
    for (unsigned int i = 0; i < count; i++) {
      shared->boards[i] = state_board(i, memory_bytes);
    }
    const size_t head = offsetof(sim_shared_t, controls);
    ok = write(fd, shared, head) == (ssize_t)head && ftruncate(fd, sizeof *shared) == 0;
  }
  if (fd >= 0) {
    close(fd);
  }
  free(shared);
  setenv("JUPYTER_VGPU_SIM", path, 1);
  return ok ? path : NULL;
}

#endif
