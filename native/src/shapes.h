// Shapes: how long a launch of one function in one shape keeps the GPU, learned from samples.
//
// Pure bookkeeping: no driver, no clock. A *shape* is a function with its grid, block and shared memory,
// or a graph executable. GPU time is charged as launches are made: launches × duration. What the
// samples are, and what they leave out, is sampler.h's affair. Zeroed memory is an empty table.
// source of every constant here: measured, H200, driver 580.159.04 (docs/meter.md).

#ifndef JVGPU_SHAPES_H
#define JVGPU_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#define JVGPU_MOST_SHAPES 4096u  // power of two

typedef struct jvgpu_shape_s {
  uint64_t key;          // 0 = free
  uint64_t duration_ns;  // what a launch is charged; 0 = not known yet
  uint64_t uncharged;    // launches made before it was known
  double   mean_ns;      // of the samples that were taken as clean
  double   lowest_ns;    // the least seen
  uint32_t samples;      // taken as clean
  uint32_t cut;          // in a row taken as cut by lost turns
  uint64_t reserved;
} jvgpu_shape_t;

typedef struct jvgpu_shapes_s {
  jvgpu_shape_t rows[JVGPU_MOST_SHAPES];
  jvgpu_shape_t rest;  // every shape that found no row
} jvgpu_shapes_t;

// A turn of the driver's own time-slicing gives a context this much of the GPU.
#define JVGPU_TURN_NS 2070000.0
// A sample that a lost turn cuts is longer by at least this.
#define JVGPU_CUT_NS 1000000.0

// Mix what makes a shape into a key that is never 0.
static inline uint64_t jvgpu_shape_key(const void *function, uint64_t grid_xy, uint64_t grid_z_block_x, uint64_t rest)
{
  uint64_t key = (uint64_t)(uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15);
  key = (key ^ grid_xy) * UINT64_C(0xff51afd7ed558ccd);
  key = (key ^ (key >> 32) ^ grid_z_block_x) * UINT64_C(0xc4ceb9fe1a85ec53);
  key = (key ^ (key >> 29) ^ rest) * UINT64_C(0x9e3779b97f4a7c15);
  return (key ^ (key >> 32)) | 1;
}

// returns: the row of `key`, made if need be. threads: any.
jvgpu_shape_t *jvgpu_shapes_find(jvgpu_shapes_t *shapes, uint64_t key);

// Take in one sample: `elapsed_ns` on the GPU's own clock, overhead of the events already taken off.
// `on_fraction` is the part of the time that this context has the GPU while it wants it, 0..1; it is
// used for durations beyond a turn only, where no sample is clean.
// pre: the caller holds the sampler's lock.
// returns: nanoseconds to charge for launches that were made before the duration was known.
uint64_t jvgpu_shape_learn(jvgpu_shape_t *shape, double elapsed_ns, double on_fraction, bool contended);

// Forget what is known, as when a graph executable is updated; what was charged stays charged.
void jvgpu_shape_forget(jvgpu_shape_t *shape);

#endif
