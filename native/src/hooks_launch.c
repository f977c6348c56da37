// Launches: counted, and nothing else yet. With no capture alive a launch costs two loads and an
// atomic add; while one lives, launches on capturing streams become graph nodes and are not counted.

#define _GNU_SOURCE
#include <stddef.h>

#include "attach.h"
#include "devices.h"
#include "hooks.h"

// Launches between two looks at the agent's heartbeat: milliseconds apart at the fastest.
#define LOOK_EVERY 4096u

typedef CUresult (*is_capturing_t)(CUstream, int *);

static bool is_captured(const jvgpu_process_t *self, CUstream stream, is_capturing_t is_capturing)
{
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  return __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) != 0 && is_capturing != NULL &&
         (is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE);
}

static inline void count_launch(CUstream stream, is_capturing_t is_capturing)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (self == NULL || is_captured(self, stream, is_capturing)) {
    return;
  }
  const int device = jvgpu_current_device(self);
  if (device == JVGPU_NO_DEVICE) {
    return;
  }
  // Relaxed: a figure, ordered with nothing.
  jvgpu_slot_t *slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE);
  __atomic_fetch_add(&slot->devices[device].launches, 1, __ATOMIC_RELAXED);
  if (jvgpu_tick(self, LOOK_EVERY)) {
    jvgpu_attach_renew(self);
  }
}

// The stream in a CUlaunchConfig: after seven unsigned ints, aligned.
// source: CUDA Driver API 13.0, CUlaunchConfig; checked by tests/abi_check.c.
static CUstream stream_of(const void *config)
{
  const struct {
    unsigned int dimensions[7];
    CUstream     stream;
  } *launch = config;
  return launch == NULL ? NULL : launch->stream;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                        void **extra)
{
  if (!JVGPU_HAS_CU(cuLaunchKernel)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream, jvgpu_real.cuStreamIsCapturing);
  return jvgpu_real.cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                             unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                             void **extra)
{
  if (!JVGPU_HAS_CU(cuLaunchKernel_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream, jvgpu_real.cuStreamIsCapturing_ptsz);
  return jvgpu_real.cuLaunchKernel_ptsz(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

CUresult cuLaunchKernelEx(const void *config, CUfunction f, void **params, void **extra)
{
  if (!JVGPU_HAS_CU(cuLaunchKernelEx)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream_of(config), jvgpu_real.cuStreamIsCapturing);
  return jvgpu_real.cuLaunchKernelEx(config, f, params, extra);
}

CUresult cuLaunchKernelEx_ptsz(const void *config, CUfunction f, void **params, void **extra)
{
  if (!JVGPU_HAS_CU(cuLaunchKernelEx_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream_of(config), jvgpu_real.cuStreamIsCapturing_ptsz);
  return jvgpu_real.cuLaunchKernelEx_ptsz(config, f, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                   void **params)
{
  if (!JVGPU_HAS_CU(cuLaunchCooperativeKernel)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream, jvgpu_real.cuStreamIsCapturing);
  return jvgpu_real.cuLaunchCooperativeKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                                        CUstream stream, void **params)
{
  if (!JVGPU_HAS_CU(cuLaunchCooperativeKernel_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream, jvgpu_real.cuStreamIsCapturing_ptsz);
  return jvgpu_real.cuLaunchCooperativeKernel_ptsz(f, gx, gy, gz, bx, by, bz, shared, stream, params);
}

CUresult cuLaunchCooperativeKernelMultiDevice(void *list, unsigned int devices, unsigned int flags)
{
  if (!JVGPU_HAS_CU(cuLaunchCooperativeKernelMultiDevice)) {
    return JVGPU_NO_SUCH_CU;
  }
  // One call, a launch on each device of the list; counted once, where it was made.
  count_launch(NULL, NULL);
  return jvgpu_real.cuLaunchCooperativeKernelMultiDevice(list, devices, flags);
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuGraphLaunch)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream, jvgpu_real.cuStreamIsCapturing);
  return jvgpu_real.cuGraphLaunch(graph, stream);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuGraphLaunch_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream, jvgpu_real.cuStreamIsCapturing_ptsz);
  return jvgpu_real.cuGraphLaunch_ptsz(graph, stream);
}

// --- the launches of CUDA 3 -------------------------------------------------------------------------------

CUresult cuLaunch(CUfunction f)
{
  if (!JVGPU_HAS_CU(cuLaunch)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(NULL, jvgpu_real.cuStreamIsCapturing);
  return jvgpu_real.cuLaunch(f);
}

CUresult cuLaunchGrid(CUfunction f, int width, int height)
{
  if (!JVGPU_HAS_CU(cuLaunchGrid)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(NULL, jvgpu_real.cuStreamIsCapturing);
  return jvgpu_real.cuLaunchGrid(f, width, height);
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuLaunchGridAsync)) {
    return JVGPU_NO_SUCH_CU;
  }
  count_launch(stream, jvgpu_real.cuStreamIsCapturing);
  return jvgpu_real.cuLaunchGridAsync(f, width, height, stream);
}
