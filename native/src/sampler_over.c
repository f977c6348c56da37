// Runs and spans: samples of many launches, which stay open until a later launch closes them.

#include "paced.h"
#include "sampler_parts.h"

// A span ends where a lost turn would not stand out any more: on one stream, and over several beside others.
#define SPAN_NS UINT64_C(1000000)
// A mark ends sooner where launches are long.
#define MARK_NS UINT64_C(2000000)

void jvgpu_sampler_open_over(jvgpu_sampler_t *sampler, jvgpu_open_t *open, int sample, CUstream stream, uint32_t wanted,
                             uint64_t busy_ns)
{
  sampler->samples[sample].is_over = true;
  sampler_watch(sampler, &sampler->samples[sample]);
  open->stream = stream;
  open->launches = jvgpu_sampler_launches(sampler);
  open->wanted = wanted;
  open->busy_ns = busy_ns;
  // Release: launches that see it open see the rest.
  __atomic_store_n(&open->sample, sample, __ATOMIC_RELEASE);
}

static void close_over(jvgpu_sampler_t *sampler, jvgpu_open_t *open, const jvgpu_stream_calls_t *calls,
                       uint64_t busy_ns)
{
  jvgpu_sample_t *sample = &sampler->samples[open->sample];
  sample_set_state(sample, JVGPU_SAMPLE_FREE);
  if (calls->record(sample->ended, open->stream) == CUDA_SUCCESS) {
    sample->was_queued = jvgpu_real.cuEventQuery(sample->begun) != CUDA_SUCCESS;
    sample->charged_ns = (double)(busy_ns - open->busy_ns) / sampler->overlap;
    // From the launch that opened it to the one before this, which is counted already.
    sample->launches = jvgpu_sampler_launches(sampler) - open->launches;
    sample_set_state(sample, JVGPU_SAMPLE_PENDING);
  }
  jvgpu_pulse_close(&sampler->pulse, sample->watch);
  __atomic_store_n(&open->sample, -1, __ATOMIC_RELEASE);
}

static void drop_over(jvgpu_sampler_t *sampler, jvgpu_open_t *open)
{
  sample_set_state(&sampler->samples[open->sample], JVGPU_SAMPLE_FREE);
  jvgpu_pulse_close(&sampler->pulse, sampler->samples[open->sample].watch);
  __atomic_store_n(&open->sample, -1, __ATOMIC_RELEASE);
}

void jvgpu_sampler_drop(jvgpu_sampler_t *sampler)
{
  if (sampler->run.sample >= 0) {
    drop_over(sampler, &sampler->run);
  }
  if (sampler->span.sample >= 0) {
    drop_over(sampler, &sampler->span);
  }
  __atomic_store_n(&sampler->is_marking, false, __ATOMIC_RELAXED);
}

// A mark counts where the GPU always has something to do from its first launch on.
static void step_mark(jvgpu_sampler_t *sampler, const jvgpu_shape_t *shape, CUstream stream,
                      const jvgpu_stream_calls_t *calls, uint64_t busy_ns, bool quiet)
{
  jvgpu_open_t  *open = &sampler->span;
  const uint32_t made = jvgpu_sampler_launches(sampler) - open->launches;
  if (quiet || stream != open->stream || shape->samples == 0 || sampler_is_last_done(sampler)) {
    drop_over(sampler, open);
  } else if (made >= open->wanted || busy_ns - open->busy_ns >= MARK_NS) {
    close_over(sampler, open, calls, busy_ns);
  }
  __atomic_store_n(&sampler->is_marking, open->sample >= 0, __ATOMIC_RELAXED);
}

static void step_one(jvgpu_sampler_t *sampler, jvgpu_open_t *open, jvgpu_shape_t *shape, CUstream stream,
                     const jvgpu_stream_calls_t *calls, uint64_t busy_ns, bool quiet)
{
  if (open->sample < 0) {
    return;
  }
  jvgpu_sample_t      *sample = &sampler->samples[open->sample];
  const jvgpu_shape_t *only = sample->shape;
  const uint32_t       made = jvgpu_sampler_launches(sampler) - open->launches;
  const bool           is_other = only != NULL && only != shape;
  const bool           is_round = sampler->streams < 2 || (sample->is_contended && made >= 2 * sampler->streams);
  const bool           is_long = only == NULL && is_round && busy_ns - open->busy_ns >= SPAN_NS;
  const bool           is_enough = is_long || made >= open->wanted;
  const bool           is_paced = jvgpu_paced_is(sampler, sample);
  if (!quiet && is_paced && !sample->is_dry) {
    sample->is_dry = sampler_is_last_done(sampler);
  }
  if (quiet || (is_other && stream != open->stream)) {
    sampler->is_mixed = sampler->is_mixed || !quiet;
    drop_over(sampler, open);
  } else if (is_paced && is_enough && !sample->is_dry && jvgpu_paced_is_as_full(sampler, sample) &&
             (stream == open->stream || made >= open->wanted + open->wanted / 2)) {
    // On its own stream; where that is rare on any, none of which is far ahead of the others.
    sample->was_full = true;
    open->stream = stream;
    close_over(sampler, open, calls, busy_ns);
  } else if (is_paced && (sample->is_dry || jvgpu_paced_is_endless(sampler, open))) {
    drop_over(sampler, open);
  } else if (!is_paced && stream == open->stream && (is_enough || is_other)) {
    sampler->is_mixed = sampler->is_mixed && !(only != NULL && is_enough && sampler->streams > 1);
    close_over(sampler, open, calls, busy_ns);
  } else if (only == NULL) {
    if (sample->spanned < JVGPU_MOST_SPAN) {
      sample->shapes[sample->spanned++] = shape;
    }
  }
}

void jvgpu_sampler_step(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, CUstream stream,
                        const jvgpu_stream_calls_t *calls, uint64_t busy_ns, bool quiet)
{
  if (!sampler_try_lock(sampler)) {
    return;
  }
  if (sampler->is_marking) {
    step_mark(sampler, shape, stream, calls, busy_ns, quiet);
  } else {
    step_one(sampler, &sampler->run, shape, stream, calls, busy_ns, quiet);
    step_one(sampler, &sampler->span, shape, stream, calls, busy_ns, quiet);
  }
  jvgpu_unlock(&sampler->lock);
}

void jvgpu_sampler_gated(jvgpu_sampler_t *sampler)
{
  if (jvgpu_sampler_is_open(sampler) && sampler_try_lock(sampler)) {
    jvgpu_sampler_drop(sampler);
    jvgpu_unlock(&sampler->lock);
  }
}
