// Shapes: how long a launch of one function in one shape keeps the GPU, learned from samples.
//
// Pure bookkeeping: no driver, no clock. A *shape* is a function with its grid, block and shared memory,
// or a graph executable. GPU time is charged as launches are made: launches × duration. Zeroed memory
// is an empty table.
//
// A sample is the time between two events round some launches of one shape. While several contexts
// interleave, a turn lost in the middle lengthens it by a step; such samples are recognised and left
// out. Launches longer than a turn are cut in every sample: there the turns lost within it are watched (pulse.h).
// source of every constant here: measured, H200, driver 580.159.04 (docs/meter.md).

#ifndef JVGPU_SHAPES_H
#define JVGPU_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "rough.h"

#define JVGPU_MOST_SHAPES 4096u  // power of two

// Launches of a shape and what they were charged. The difference of two marks is of the launches between them.
typedef struct jvgpu_shape_mark_s {
  uint32_t made;
  uint32_t unknown;  // of them, made before the duration was known
  uint64_t sum_ns;   // what the others were charged
} jvgpu_shape_mark_t;

typedef struct jvgpu_shape_s {
  uint64_t      key;          // 0 = free
  uint64_t      duration_ns;  // what a launch is charged; 0 = not known yet
  uint64_t      uncharged;    // launches made before it was known
  uint64_t      unknown_since_ns;  // when the first of them was, 0 = nobody says
  double        mean_ns;      // of the samples that were taken as clean, a launch
  uint32_t      samples;      // taken as clean; 0 with a mean: a first guess, to be replaced
  uint16_t      odd;          // samples in a row that did not fit
  uint16_t      odd_sure;     // of them, watched, or shorter than what is known: no turn of others' makes them so
  double        least_odd_ns; // the shortest of those in a row, a launch
  uint8_t       doubt;        // more with each that did not fit, less with each that did
  uint8_t       is_varied; // a sample that nothing cut was far from what is known: some arguments make it so
  int8_t        trend;        // so many in a row were above what was known, or, less than 0, below
  uint8_t       singly;       // samples to take of one launch only: its runs are not queued
  bool          has_runs;     // what is known comes of runs
  uint32_t      tries;        // samples begun
  uint32_t      idle_tries;   // that would have been, in a row, where the GPU had nothing to do
  uint32_t      sm_ppm;       // part of the SMs that a launch can fill, 0 = not asked yet
  uint64_t      late_ns;      // what each launch of unknown duration was charged when it was known
  double        company;      // a launch takes 1 + this of the mean where launches of other shapes are about it
  uint32_t      spans;        // that showed it
  uint32_t      last_span;    // which was the last
  jvgpu_rough_t sure;         // of runs over several streams that began and ended with as much under way
  jvgpu_rough_t rough;        // of others over several streams
  // Launches so far: of one thread that nobody else writes for, which spares it a locked addition, and of all others.
  jvgpu_shape_mark_t so_far[2];
} jvgpu_shape_t;

typedef struct jvgpu_shapes_s {
  jvgpu_shape_t rows[JVGPU_MOST_SHAPES];
  jvgpu_shape_t rest;  // every shape that found no row
} jvgpu_shapes_t;

// How a sample came about.
typedef struct jvgpu_how_s {
  uint32_t contenders;  // processes that want the GPU, this one among them
  bool     is_watched;  // the turns lost within it are known and taken off already
  bool     is_sure;  // it was alone or watched, what was taken off is little of it, and no pause of the host's is in it
  bool     is_of_streams;  // a run over several streams: a few launches more or less may have been done in it
  bool     is_alone;  // nobody else has had the GPU for some time
  bool     is_rough;  // one short launch, where runs are known; set by jvgpu_shape_learn
} jvgpu_how_t;

// A turn of the driver's own time-slicing gives a context this much of the GPU.
#define JVGPU_TURN_NS 2070000.0

// Mix what makes a shape into a key that is never 0.
static inline uint64_t jvgpu_shape_key(const void *function, uint64_t grid_xy, uint64_t grid_z_block_x, uint64_t rest)
{
  uint64_t key = (uint64_t)(uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15);
  key = (key ^ grid_xy) * UINT64_C(0xff51afd7ed558ccd);
  key = (key ^ (key >> 32) ^ grid_z_block_x) * UINT64_C(0xc4ceb9fe1a85ec53);
  key = (key ^ (key >> 29) ^ rest) * UINT64_C(0x9e3779b97f4a7c15);
  return (key ^ (key >> 32)) | 1;
}

// As the next, for a key that is not in its first place.
jvgpu_shape_t *jvgpu_shapes_search(jvgpu_shapes_t *shapes, uint64_t key);
// returns: the row of `key`, made if need be. threads: any.
static inline jvgpu_shape_t *jvgpu_shapes_find(jvgpu_shapes_t *shapes, uint64_t key)
{
  jvgpu_shape_t *first = &shapes->rows[(key >> 1) & (JVGPU_MOST_SHAPES - 1)];
  return __builtin_expect(__atomic_load_n(&first->key, __ATOMIC_ACQUIRE) == key, 1) ? first
                                                                                    : jvgpu_shapes_search(shapes, key);
}

// What a run beside others should last, in nanoseconds: long enough that the events' own cost, some 2 µs at worst, is
// below one per cent, short enough that few are cut by the other contenders.
#define JVGPU_RUN_NS 250000.0
// Alone nothing cuts it: longer, since what a launch leaves in the L2 cache to be written shows only behind the next.
// source: measured, H200: 134 MB in place take 62 µs in a row of 200, and 52 µs in a sample of one.
#define JVGPU_RUN_ALONE_NS 1000000.0

// returns: how many launches a sample should span that is to last `run_ns`, 1..256.
uint32_t jvgpu_shape_run(const jvgpu_shape_t *shape, double run_ns);

// returns: whether the next sample beside others should be watched: it may be cut, and only so is known by how much.
bool jvgpu_shape_is_doubtful(const jvgpu_shape_t *shape);

// Take in one sample: `elapsed_ns` on the GPU's own clock for `launches` launches, the events' own cost
// already taken off.
// pre: launches >= 1; the caller holds the sampler's lock.
// returns: nanoseconds to charge for launches that were made before the duration was known.
uint64_t jvgpu_shape_learn(jvgpu_shape_t *shape, double elapsed_ns, uint32_t launches, jvgpu_how_t how);

// Take in a sample of one launch that may hold other people's time: it can only lower what is known.
// pre: the caller holds the sampler's lock.
uint64_t jvgpu_shape_guess(jvgpu_shape_t *shape, double elapsed_ns);

// returns: whether a turn of somebody's who is not counted may be in what was measured alone, over several launches: it
// can be so long that a turn in it does not double it.
bool jvgpu_shapes_is_cut_alone(double elapsed_ns, double expected_ns);

// returns: whether a sample made alone is of the same work as what is known.
bool jvgpu_shape_agrees(const jvgpu_shape_t *shape, double elapsed_ns, uint32_t launches);

// Note a launch that was charged `charge_ns`. `is_writer`: by the one thread. threads: any.
static inline void jvgpu_shape_charged(jvgpu_shape_t *shape, bool is_writer, uint64_t charge_ns)
{
  jvgpu_shape_mark_t *so_far = &shape->so_far[is_writer ? 0 : 1];
  if (is_writer) {
    __atomic_store_n(&so_far->made, so_far->made + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&so_far->sum_ns, so_far->sum_ns + charge_ns, __ATOMIC_RELAXED);
  } else {
    __atomic_fetch_add(&so_far->made, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&so_far->sum_ns, charge_ns, __ATOMIC_RELAXED);
  }
}

// Note a launch whose duration is not known yet. threads: any.
static inline void jvgpu_shape_uncharged(jvgpu_shape_t *shape, bool is_writer)
{
  jvgpu_shape_charged(shape, is_writer, 0);
  __atomic_fetch_add(&shape->so_far[1].unknown, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&shape->uncharged, 1, __ATOMIC_RELAXED);
}

// A launch that another thread notes at this moment may be in one of its figures and not yet in the other.
jvgpu_shape_mark_t jvgpu_shape_mark(const jvgpu_shape_t *shape);
// returns: what is still to be charged (less than 0: what was charged too much) for the launches between two marks,
// of which a sample said that each takes `launch_ns` in a run of its own.
double jvgpu_shape_owed_ns(const jvgpu_shape_t *shape, jvgpu_shape_mark_t from, jvgpu_shape_mark_t to,
                           double launch_ns);

// Take in how long some launches of several shapes, all queued, took together: each takes so much more or less in
// their company than in runs of its own. `count` pointers, one a launch; `is_alone`: as in jvgpu_how_t; `number`: of the
// span, rising.
// pre: the caller holds the sampler's lock.
void jvgpu_shapes_learn_span(jvgpu_shape_t *const *shapes, uint32_t count, double elapsed_ns, bool is_alone,
                             uint32_t number);

// Forget what is known, as when a graph executable is updated; what was charged stays charged.
// pre: the caller holds the sampler's lock.
void jvgpu_shape_forget(jvgpu_shape_t *shape);

#endif
