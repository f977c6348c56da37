// What both tests of the sampler take of a driver: events are stamps in milliseconds, and nobody pulses. Each plays the
// clocks itself: it records and asks in its own way.

#ifndef JVGPU_SAMPLER_DRIVER_H
#define JVGPU_SAMPLER_DRIVER_H

#include <stddef.h>

#include "cuda_abi.h"
#include "real.h"
#include "sampler.h"

jvgpu_real_t jvgpu_real;

static double stamps_ms[2 * JVGPU_MOST_SAMPLES];
static size_t events;

static CUresult current(CUcontext *ctx)
{
  *ctx = (CUcontext)&events;
  return CUDA_SUCCESS;
}

static CUresult create(CUevent *event, unsigned int flags)
{
  (void)flags;
  *event = (CUevent)&stamps_ms[events++];
  return CUDA_SUCCESS;
}

static CUresult elapsed(float *ms, CUevent from, CUevent to)
{
  *ms = (float)(*(double *)to - *(double *)from);
  return CUDA_SUCCESS;
}

uint32_t jvgpu_pulse_watch(jvgpu_pulse_t *pulse, CUcontext ctx, CUevent begun, CUevent ended)
{
  (void)pulse, (void)ctx, (void)begun, (void)ended;
  return 0;
}

void jvgpu_pulse_close(jvgpu_pulse_t *pulse, uint32_t watch)
{
  (void)pulse, (void)watch;
}

jvgpu_watched_t jvgpu_pulse_answer(const jvgpu_pulse_t *pulse, uint32_t watch, double *lost_ns)
{
  (void)pulse, (void)watch;
  *lost_ns = 0;
  return JVGPU_WATCHED_NOT;
}

static void driver_plays(CUresult (*is_done)(CUevent event), CUresult (*ask_stream)(CUstream stream))
{
  jvgpu_real.cuCtxGetCurrent = current;
  jvgpu_real.cuEventCreate = create;
  jvgpu_real.cuEventQuery = is_done;
  jvgpu_real.cuEventElapsedTime = elapsed;
  jvgpu_real.cuStreamQuery = ask_stream;
}

#endif
