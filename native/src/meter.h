// Meter: how much GPU time this process has had, and how long its work has waited.
//
// GPU time is launches × duration, charged as launches are made. Durations come from samples: a pair of
// timing events round one launch, on the launch's own stream, now and then (shapes.h). On the GPU such
// a pair is exact to a tenth of a microsecond, even while other contexts interleave, when the launch
// was queued before the GPU came to it; docs/meter.md has the measurements and the rules for the rest.
// Nothing is sampled while a capture lives. A launch costs a table look-up and two additions.

#ifndef JVGPU_METER_H
#define JVGPU_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "shapes.h"

#define JVGPU_MOST_SAMPLES 8

struct jvgpu_process_s;
typedef struct jvgpu_meter_s jvgpu_meter_t;

// The driver's functions for one kind of stream handle: legacy, or per-thread default ("_ptsz").
typedef struct jvgpu_stream_calls_s {
  CUresult (*record)(CUevent event, CUstream stream);
  CUresult (*is_capturing)(CUstream stream, int *status);
} jvgpu_stream_calls_t;

// What a hook carries across its launch.
typedef struct jvgpu_launch_s {
  jvgpu_meter_t *meter;  // NULL = this launch is not sampled
  int            sample;
} jvgpu_launch_t;

// Count and charge a launch, and open a sample if one is due.
// pre: the stream is not capturing.
jvgpu_launch_t jvgpu_meter_begin(struct jvgpu_process_s *self, int device, uint64_t shape_key, CUstream stream,
                                 const jvgpu_stream_calls_t *calls);
// Close the sample after the launch. pre: launch.meter != NULL.
void jvgpu_meter_end(jvgpu_launch_t launch, CUstream stream, const jvgpu_stream_calls_t *calls, CUresult result);

// The host has seen that everything launched so far is done.
void jvgpu_meter_drained(struct jvgpu_process_s *self);
// The host has seen an event; what lies after it may still be in flight.
void jvgpu_meter_drained_event(struct jvgpu_process_s *self);
// A graph executable was changed or destroyed.
void jvgpu_meter_forget(struct jvgpu_process_s *self, const void *function);

#endif
