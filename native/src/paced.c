#include "paced.h"

// A run from full to full that has not ended after so many times the launches wanted is given up.
#define MOST_PACED 8u
// It lasts so long: half a turn, since others' turns cut most that are longer. That a few launches more or less are under
// way at its end, the average of several takes care of.
#define PACED_NS 1000000.0
// What a launch is charged may change by a part of so many meanwhile.
#define SAME_PARTS 16u
#define LEAST_PACED 24u
#define MOST_PACED_LAUNCHES 160u

bool jvgpu_paced_is(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample)
{
  return sample->shape != NULL && sample->is_contended && sampler->streams > 1;
}

uint32_t jvgpu_paced_run(const jvgpu_shape_t *shape)
{
  const double launches = PACED_NS / (shape->mean_ns + 1);
  return launches > MOST_PACED_LAUNCHES ? MOST_PACED_LAUNCHES
         : launches < LEAST_PACED       ? LEAST_PACED
                                        : (uint32_t)launches;
}

bool jvgpu_paced_is_as_full(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample)
{
  const uint64_t known_ns = __atomic_load_n(&sample->shape->duration_ns, __ATOMIC_RELAXED);
  return __atomic_load_n(&sampler->full_ns, __ATOMIC_RELAXED) == sample->full_ns &&
         known_ns * SAME_PARTS <= sample->known_ns * (SAME_PARTS + 1) &&
         sample->known_ns * SAME_PARTS <= known_ns * (SAME_PARTS + 1);
}

bool jvgpu_paced_is_endless(const jvgpu_sampler_t *sampler, const jvgpu_open_t *open)
{
  return jvgpu_sampler_launches(sampler) - open->launches > MOST_PACED * open->wanted;
}
