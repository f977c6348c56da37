// Copies: which of them stay within a device's memory, and what shape they are of.
//
// Those take the device's time as a launch does. What comes from or goes to the host goes by engines of its own; so does
// what is known to go from one device to another. Where memory is counts, not what it is called.

#ifndef JVGPU_COPY_H
#define JVGPU_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_abi_copy.h"
#include "process.h"

// One end of a copy of rows.
typedef struct jvgpu_copy_end_s {
  int         type;  // CU_MEMORYTYPE_*
  CUdeviceptr address;  // of the host's memory, too
  uint64_t    pitch;
} jvgpu_copy_end_t;

// returns, all of them: the key of the copy's shape; 0 where it does not stay within a device's memory.

// Of a copy whose name says that it does.
uint64_t jvgpu_copy_within(uint64_t bytes);
// Between any two addresses: the driver is asked what is there.
uint64_t jvgpu_copy_anywhere(const jvgpu_process_t *self, CUdeviceptr to, CUdeviceptr from, uint64_t bytes);
// Of a rectangle or a block, row by row.
uint64_t jvgpu_copy_rows(const jvgpu_process_t *self, jvgpu_copy_end_t to, jvgpu_copy_end_t from, uint64_t width_bytes,
                         uint64_t rows);
// Of many at once: if any of them does.
uint64_t jvgpu_copy_batch(const jvgpu_process_t *self, const CUdeviceptr *to, const CUdeviceptr *from,
                          const size_t *bytes, size_t count);
uint64_t jvgpu_copy_blocks(const jvgpu_process_t *self, const CUDA_MEMCPY3D_BATCH_OP *blocks, size_t count);

#endif
