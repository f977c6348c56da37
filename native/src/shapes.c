#include "shapes.h"

#include <stddef.h>

#define MOST_PROBES 16u
// Samples that weigh in a mean: later ones push out earlier ones, since arguments change durations.
#define MEMORY 32u
// So many samples in a row that look cut are no accident: the work itself has become longer.
#define CUT_IN_A_ROW 12u

jvgpu_shape_t *jvgpu_shapes_find(jvgpu_shapes_t *shapes, uint64_t key)
{
  for (uint32_t probe = 0; probe < MOST_PROBES; probe++) {
    jvgpu_shape_t *row = &shapes->rows[((key >> 1) + probe) & (JVGPU_MOST_SHAPES - 1)];
    uint64_t       there = __atomic_load_n(&row->key, __ATOMIC_ACQUIRE);
    if (there == 0 && __atomic_compare_exchange_n(&row->key, &there, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      return row;
    }
    if (there == key) {
      return row;
    }
  }
  return &shapes->rest;
}

static void start_over(jvgpu_shape_t *shape, double sample_ns)
{
  shape->mean_ns = sample_ns;
  shape->lowest_ns = sample_ns;
  shape->samples = 1;
  shape->cut = 0;
}

static void take_in(jvgpu_shape_t *shape, double sample_ns)
{
  shape->samples += shape->samples < MEMORY;
  shape->mean_ns += (sample_ns - shape->mean_ns) / shape->samples;
  shape->lowest_ns = sample_ns < shape->lowest_ns ? sample_ns : shape->lowest_ns;
  shape->cut = 0;
}

// Long work is cut in every sample: the time on the GPU is the elapsed time's part of turns.
static void learn_long(jvgpu_shape_t *shape, double elapsed_ns, double on_fraction)
{
  const double own_ns = elapsed_ns * on_fraction;
  if (shape->samples == 0) {
    start_over(shape, own_ns);
  } else {
    take_in(shape, own_ns);
  }
  shape->lowest_ns = elapsed_ns < shape->lowest_ns || shape->samples == 1 ? elapsed_ns : shape->lowest_ns;
}

static void learn_short(jvgpu_shape_t *shape, double elapsed_ns, bool contended)
{
  const bool was_long = shape->lowest_ns > JVGPU_TURN_NS && elapsed_ns <= JVGPU_TURN_NS;
  if (shape->samples == 0 || was_long || elapsed_ns < shape->mean_ns - JVGPU_CUT_NS) {
    // The first, or the first clean one after cut ones were taken for clean or for long.
    start_over(shape, elapsed_ns);
  } else if (contended && elapsed_ns > shape->mean_ns + JVGPU_CUT_NS && shape->cut < CUT_IN_A_ROW) {
    shape->cut += 1;
  } else if (shape->cut >= CUT_IN_A_ROW) {
    start_over(shape, elapsed_ns);
  } else {
    take_in(shape, elapsed_ns);
  }
}

uint64_t jvgpu_shape_learn(jvgpu_shape_t *shape, double elapsed_ns, double on_fraction, bool contended)
{
  if (elapsed_ns < 0) {
    elapsed_ns = 0;
  }
  const double lowest = shape->samples == 0 || elapsed_ns < shape->lowest_ns ? elapsed_ns : shape->lowest_ns;
  if (contended && lowest > JVGPU_TURN_NS) {
    learn_long(shape, elapsed_ns, on_fraction);
  } else {
    learn_short(shape, elapsed_ns, contended);
  }
  const uint64_t known_ns = (uint64_t)(shape->mean_ns + 0.5);
  __atomic_store_n(&shape->duration_ns, known_ns > 0 ? known_ns : 1, __ATOMIC_RELAXED);
  return __atomic_exchange_n(&shape->uncharged, 0, __ATOMIC_RELAXED) * known_ns;
}

void jvgpu_shape_forget(jvgpu_shape_t *shape)
{
  shape->samples = 0;
  shape->cut = 0;
  __atomic_store_n(&shape->duration_ns, 0, __ATOMIC_RELAXED);
}
