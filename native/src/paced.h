// Paced: runs over several streams beside others.
//
// Such a run is more than may be under way at once, and never all queued. Where as much is under way at its end as at its
// beginning, and something always was, so many launches were done in between as were made, and nothing else.

#ifndef JVGPU_PACED_H
#define JVGPU_PACED_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler.h"

// returns: whether a run under way is one of them.
bool jvgpu_paced_is(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample);

// returns: how many launches of `shape` it should take in, 24..160.
uint32_t jvgpu_paced_run(const jvgpu_shape_t *shape);

// returns: whether as many launches are under way as when it was begun.
bool jvgpu_paced_is_as_full(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample);

// returns: whether it is to be given up.
bool jvgpu_paced_is_endless(const jvgpu_sampler_t *sampler, const jvgpu_open_t *open);

#endif
