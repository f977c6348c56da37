// What the sampler's files share (sampler.h is its face).

#ifndef JVGPU_SAMPLER_PARTS_H
#define JVGPU_SAMPLER_PARTS_H

#include <stddef.h>

#include "clock.h"
#include "real.h"
#include "sampler.h"

static inline double sampler_now_ns(void)
{
  return (double)jvgpu_now_ns();
}

static inline bool sampler_try_lock(jvgpu_sampler_t *sampler)
{
  return __atomic_exchange_n(&sampler->lock, 1, __ATOMIC_ACQUIRE) == 0;
}

// Release: who sees it sees the sample, too. Launches look at it without the lock.
static inline void sample_set_state(jvgpu_sample_t *sample, jvgpu_sample_state_t state)
{
  __atomic_store_n(&sample->state, state, __ATOMIC_RELEASE);
}

// returns: the window that is this process's own just now, 0 = it is in none.
static inline uint64_t sampler_clear_ns(const jvgpu_sampler_t *sampler)
{
  const uint64_t *clear_ns = __atomic_load_n(&sampler->clear_ns, __ATOMIC_RELAXED);
  return clear_ns != NULL ? __atomic_load_n(clear_ns, __ATOMIC_ACQUIRE) : 0;
}

static inline CUstream sampler_last(const jvgpu_sampler_t *sampler)
{
  return __atomic_load_n(&sampler->last, __ATOMIC_RELAXED);
}

static inline bool sampler_is_last_done(const jvgpu_sampler_t *sampler)
{
  const CUstream last = sampler_last(sampler);
  return last == JVGPU_NO_STREAM || jvgpu_real.cuStreamQuery(last) == CUDA_SUCCESS;
}

// Where what is known is in doubt and others may have the GPU meanwhile, see when they do.
static inline void sampler_watch(jvgpu_sampler_t *sampler, jvgpu_sample_t *sample)
{
  // Pulses on a stream more tell little of runs over several: they wait behind the program's own work.
  if (sample->is_contended && sample->shape != NULL && sampler->streams < 2 && jvgpu_shape_is_doubtful(sample->shape)) {
    sample->watch = jvgpu_pulse_watch(&sampler->pulse, sampler->ctx, sample->begun, sample->ended);
  }
}

// A span over several streams, of launches of several shapes, lasted `seen` times what they are charged by themselves.
void jvgpu_sampler_learn_overlap(jvgpu_sampler_t *sampler, double seen, bool was_queued, bool is_alone);
// What launches take was seen while nobody else had the GPU: what is charged from here on is no guess.
void jvgpu_sampler_note_known(jvgpu_sampler_t *sampler);
// returns: whether it was seen lately what many streams take while the device is this process's own: events beside others
// say nothing then.
bool jvgpu_sampler_has_had(const jvgpu_sampler_t *sampler);

// Where nobody else has the GPU, all that it does between the samples is known: `index` begins, its first event is
// recorded. pre: the lock is held, as for all of these.
void jvgpu_stretch_begin(jvgpu_sampler_t *sampler, int index, CUstream stream, uint32_t contenders);
// returns: whether the GPU has come to the end of a sample's stretch, or it has none.
bool jvgpu_stretch_is_over(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample);
// returns: what is still to be charged for it (less than 0: to give back), once it is over.
int64_t jvgpu_stretch_owed_ns(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample, uint32_t contenders);
// returns: whether some of the launches that a sample stands for are in stretches.
bool jvgpu_stretch_is_within(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample);

// Let a run or a span go on from `sample`, of which the first event is recorded, until `wanted` launches are made.
// pre: the lock is held.
void jvgpu_sampler_open_over(jvgpu_sampler_t *sampler, jvgpu_open_t *open, int sample, CUstream stream, uint32_t wanted,
                             uint64_t busy_ns);
// Give up what is open. pre: the lock is held.
void jvgpu_sampler_drop(jvgpu_sampler_t *sampler);

#endif
