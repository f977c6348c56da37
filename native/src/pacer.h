// Pacer: the tenant's side of the governor. A launch waits while its device's gate is closed, and while
// more GPU time is under way than the bound allows (flight.h).
//
// Failing is towards native sharing: a governor that has not looked for half a second, or a gate that
// stays closed for ten, lets launches through; then only a ceiling is kept, by this process itself.
// Nothing waits, is recorded or asked on a capturing stream, nor is an event while any capture lives.

#ifndef JVGPU_PACER_H
#define JVGPU_PACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvgpu/pages.h"
#include "sampler.h"

struct jvgpu_process_s;
typedef struct jvgpu_pacer_s jvgpu_pacer_t;

// returns: whether a launch has to ask the pacer at all. Two loads of one cache line.
static inline bool jvgpu_pacer_is_needed(const jvgpu_control_device_t *limits)
{
  return __atomic_load_n(&limits->is_governed, __ATOMIC_RELAXED) != 0;
}

// Wait until a launch may go.
// returns: what keeps the flight, for jvgpu_pacer_launched; NULL when nothing is to be noted.
// pre: the stream is not capturing.
jvgpu_pacer_t *jvgpu_pacer_admit(struct jvgpu_process_s *self, int device, CUstream stream,
                                 const jvgpu_stream_calls_t *calls);

// Note what was launched. `charged_ns`: 0 = its duration is not known yet.
void jvgpu_pacer_launched(jvgpu_pacer_t *pacer, CUstream stream, const jvgpu_stream_calls_t *calls,
                          uint64_t charged_ns);

// The host has seen that all is over on `stream`, or, with `all`, on every stream of the context.
void jvgpu_pacer_drained(struct jvgpu_process_s *self, CUstream stream, bool all);

#endif
