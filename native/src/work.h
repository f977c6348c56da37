// Work: what every hook of something that takes GPU time does before and after it.

#ifndef JVGPU_WORK_H
#define JVGPU_WORK_H

#include <stddef.h>

#include "attach.h"
#include "devices.h"
#include "meter.h"
#include "pacer.h"
#include "process.h"
#include "real.h"

// A launch costs some tens of nanoseconds, and what is handed over in memory from one function to the next, written word
// by word and read in larger pieces, would be a good part of them: the path is one function as far as the meter.
#define JVGPU_HOT static inline __attribute__((always_inline))

// Launches between two looks at the agent's heartbeat: milliseconds apart at the fastest.
#define JVGPU_LOOK_EVERY 4096u

// The driver's functions for a stream handle as the caller means it.
#define JVGPU_LEGACY (&(const jvgpu_stream_calls_t){jvgpu_real.cuEventRecord, jvgpu_real.cuStreamIsCapturing})
#define JVGPU_PER_THREAD \
  (&(const jvgpu_stream_calls_t){jvgpu_real.cuEventRecord_ptsz, jvgpu_real.cuStreamIsCapturing_ptsz})

// Wait for leave, charge, begin a sample if one is due. Does nothing where the stream is capturing: what is
// done there becomes part of a graph, neither counted nor charged nor sampled.
JVGPU_HOT jvgpu_launch_t jvgpu_work_begin(const jvgpu_work_t *work, CUstream stream, const jvgpu_stream_calls_t *calls)
{
  jvgpu_process_t     *self = jvgpu_tenant();
  const jvgpu_launch_t none = {.meter = NULL};
  if (self == NULL || jvgpu_is_captured(self, stream, calls->is_capturing)) {
    return none;
  }
  const int device = jvgpu_current_device(self);
  if (device == JVGPU_NO_DEVICE) {
    return none;
  }
  if (jvgpu_tick(self, JVGPU_LOOK_EVERY)) {
    jvgpu_attach_renew(self);
  }
  // Before anything is charged: a launch that waits has had nothing yet.
  const jvgpu_control_t *control = __atomic_load_n(&self->control, __ATOMIC_ACQUIRE);
  jvgpu_pacer_t         *pacer =
      jvgpu_pacer_is_needed(&control->devices[device]) ? jvgpu_pacer_admit(self, device, stream, calls) : NULL;
  jvgpu_launch_t launch = {.pacer = pacer};
  jvgpu_meter_begin(self, device, work, stream, calls, &launch);
  return launch;
}

// returns: `result`, the driver's answer.
JVGPU_HOT CUresult jvgpu_work_end(jvgpu_launch_t launch, CUstream stream, const jvgpu_stream_calls_t *calls,
                                  CUresult result)
{
  if (launch.meter != NULL) {
    jvgpu_meter_end(launch.meter, launch.sample, stream, calls, result);
  }
  if (launch.pacer != NULL && result == CUDA_SUCCESS) {
    jvgpu_pacer_launched(launch.pacer, stream, calls, launch.charged_ns);
  }
  return result;
}

#endif
