// Meter: how much GPU time this process has had, and how long its work has waited.
//
// GPU time is launches × duration, charged as launches are made. Durations come from samples: a pair of
// timing events round launches, on the launches' own stream, now and then (sampler.h, shapes.h). On the
// GPU such a pair is exact to a tenth of a microsecond, even while other contexts interleave;
// docs/meter.md has the measurements and the rules for the rest. Nothing is sampled while a capture
// lives. A launch costs a table look-up and two additions.

#ifndef JVGPU_METER_H
#define JVGPU_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "own.h"
#include "sampler.h"

struct jvgpu_process_s;
typedef struct jvgpu_meter_s jvgpu_meter_t;

// What a hook carries across its launch.
typedef struct jvgpu_launch_s {
  jvgpu_meter_t        *meter;  // NULL = there is no sample to end
  int                   sample;
  struct jvgpu_pacer_s *pacer;       // NULL = nobody asks what is under way
  uint64_t              charged_ns;  // 0 = its duration is not known yet
} jvgpu_launch_t;

// What is launched.
typedef struct jvgpu_work_s {
  uint64_t   key;     // of its shape
  CUfunction f;       // NULL = a graph, or nothing is known of its grid
  uint64_t   blocks;  // of the grid
  uint32_t   threads; // of a block
  uint32_t   shared;  // dynamic shared memory of a block, bytes
  bool       is_no_launch;  // takes the GPU, but is not counted as a launch
} jvgpu_work_t;

// Count and charge a launch, and open a sample if one is due, and say so in `launch`, where all but the pacer is zero.
// pre: the stream is not capturing.
void jvgpu_meter_begin(struct jvgpu_process_s *self, int device, const jvgpu_work_t *work, CUstream stream,
                       const jvgpu_stream_calls_t *calls, jvgpu_launch_t *launch);
// End the sample after the launch. pre: meter != NULL.
void jvgpu_meter_end(jvgpu_meter_t *meter, int sample, CUstream stream, const jvgpu_stream_calls_t *calls,
                     CUresult result);

// A launch is about to wait for leave to go: what is not launched for that reason waits too.
void jvgpu_meter_waits(struct jvgpu_process_s *self, int device);
// It stood at a closed gate.
void jvgpu_meter_gated(struct jvgpu_process_s *self, int device);

// So much of what was charged cannot have been had: it is taken off what comes next.
void jvgpu_meter_too_much(struct jvgpu_process_s *self, int device, uint64_t excess_ns);

// The process had the device for itself, and always something under way: a stretch of that.
// returns: how many times what they were believed to take launches do, 1 = no news.
double jvgpu_meter_had(struct jvgpu_process_s *self, int device, jvgpu_had_t had);

// returns: whether nothing is known yet of what its many streams take, and may be soon.
bool jvgpu_meter_is_blind(const struct jvgpu_process_s *self, int device);

// The launch about to be made had to wait until there was room for it beside `full_ns` under way; 0 = it had not.
void jvgpu_meter_full(struct jvgpu_process_s *self, int device, uint64_t full_ns);

// The host has seen that everything launched so far is done.
void jvgpu_meter_drained(struct jvgpu_process_s *self);
// The host has seen an event; what lies after it may still be in flight.
void jvgpu_meter_drained_event(struct jvgpu_process_s *self);
// A stream is about to be destroyed.
void jvgpu_meter_stream_gone(struct jvgpu_process_s *self, CUstream stream);
// A graph executable was changed or destroyed.
void jvgpu_meter_forget(struct jvgpu_process_s *self, const void *function);

#endif
