// Stretches: what all launches between two samples took together. A sample stands for the launches up to the next one of
// its shape, and clocks change meanwhile; a stretch leaves nothing to stand for.

#include "sampler_parts.h"

// No clock makes more of a difference. What took less than it was charged did: nothing can be missing in a stretch.
#define MOST_PART 1.4

static uint64_t charged_before_latest_ns(const jvgpu_sampler_t *sampler)
{
  return __atomic_load_n(&sampler->charged_ns[0], __ATOMIC_RELAXED) +
         __atomic_load_n(&sampler->charged_ns[1], __ATOMIC_RELAXED) -
         __atomic_load_n(&sampler->latest_ns, __ATOMIC_RELAXED);
}

static bool is_free(const jvgpu_sampler_t *sampler, uint32_t contenders)
{
  return contenders <= 1 && sampler->streams < 2 && __atomic_load_n(&sampler->is_free, __ATOMIC_RELAXED);
}

// The GPU was not at its first event when its last was recorded (in a mark it was seen at work meanwhile), and is not
// at its last now.
static bool is_still_queued(const jvgpu_sample_t *sample)
{
  return __atomic_load_n(&sample->state, __ATOMIC_ACQUIRE) == JVGPU_SAMPLE_PENDING &&
         (sample->was_queued || sample->is_mark) && jvgpu_real.cuEventQuery(sample->ended) != CUDA_SUCCESS;
}

void jvgpu_stretch_begin(jvgpu_sampler_t *sampler, int index, CUstream stream, uint32_t contenders)
{
  jvgpu_stretch_t *stretch = &sampler->samples[index].stretch;
  jvgpu_sample_t  *before = sampler->newest >= 0 ? &sampler->samples[sampler->newest] : NULL;
  // The launch that opened a sample is counted already, and made after its first event.
  stretch->before_ns = charged_before_latest_ns(sampler);
  stretch->unknown = __atomic_load_n(&sampler->unknown, __ATOMIC_RELAXED);
  stretch->stream = stream;
  stretch->begun += 1;
  stretch->next = -1;
  sampler->newest = index;
  if (before != NULL && before->stretch.next < 0 && before != &sampler->samples[index] && !before->is_contended &&
      is_free(sampler, contenders) && before->stretch.stream == stream && before->stretch.unknown == stretch->unknown &&
      is_still_queued(before)) {
    before->stretch.next = index;
    before->stretch.next_begun = stretch->begun;
    before->stretch.charged_ns = (double)(stretch->before_ns - before->stretch.before_ns);
    sampler->stretches += 1;
  }
  stretch->from = sampler->stretches;
}

// returns: the sample at which a stretch ends, NULL = it has none, or it was dropped meanwhile.
static const jvgpu_sample_t *next_of(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample)
{
  const jvgpu_stretch_t *stretch = &sample->stretch;
  const jvgpu_sample_t  *next = stretch->next < 0 ? NULL : &sampler->samples[stretch->next];
  return next != NULL && next->stretch.begun == stretch->next_begun ? next : NULL;
}

bool jvgpu_stretch_is_over(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample)
{
  const jvgpu_sample_t *next = next_of(sampler, sample);
  return next == NULL || jvgpu_real.cuEventQuery(next->begun) == CUDA_SUCCESS;
}

int64_t jvgpu_stretch_owed_ns(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample, uint32_t contenders)
{
  const jvgpu_sample_t *next = next_of(sampler, sample);
  const double          charged_ns = sample->stretch.charged_ns;
  float                 elapsed_ms = 0;
  if (next == NULL || !is_free(sampler, contenders) ||
      jvgpu_real.cuEventElapsedTime(&elapsed_ms, sample->begun, next->begun) != CUDA_SUCCESS) {
    return 0;
  }
  const double elapsed_ns = (double)elapsed_ms * 1e6;
  // A clock that rises from its lowest does make more.
  const bool is_far = elapsed_ns > charged_ns * MOST_PART && !sample->is_mark;
  if (is_far || jvgpu_shapes_is_cut_alone(elapsed_ns, charged_ns)) {
    return 0;
  }
  return (int64_t)(elapsed_ns - charged_ns);
}

bool jvgpu_stretch_is_within(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample)
{
  const uint32_t to = sample->has_next ? sample->stretch.to : sampler->stretches;
  return to != sample->stretch.from;
}
