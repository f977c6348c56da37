// Launches: counted, charged with GPU time, now and then sampled (meter.h). While a capture lives,
// launches on capturing streams become graph nodes: neither counted nor charged nor sampled.

#define _GNU_SOURCE
#include <stddef.h>

#include "graph_memory.h"
#include "hooks.h"
#include "work.h"

JVGPU_HOT jvgpu_work_t work_of(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                               unsigned int by, unsigned int bz, unsigned int shared)
{
  return (jvgpu_work_t){.key = jvgpu_shape_key(f, ((uint64_t)gx << 32) | gy, ((uint64_t)gz << 32) | bx,
                                               ((uint64_t)by << 48) ^ ((uint64_t)bz << 32) ^ shared),
                        .f = f,
                        .blocks = (uint64_t)gx * gy * gz,
                        .threads = bx * by * bz,
                        .shared = shared};
}

// Nothing is known of what it launches.
static jvgpu_work_t work_unseen(const void *what, uint64_t how)
{
  return (jvgpu_work_t){.key = jvgpu_shape_key(what, how, 0, 0)};
}

// CUlaunchConfig, up to what is read.
// source: CUDA Driver API 13.0, CUlaunchConfig; checked by tests/abi_check_cuda.c.
typedef struct launch_config_s {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared;
  CUstream     stream;
} launch_config_t;

static jvgpu_work_t work_of_config(const launch_config_t *config, CUfunction f)
{
  return work_of(f, config->grid[0], config->grid[1], config->grid[2], config->block[0], config->block[1],
                 config->block[2], config->shared);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                        void **extra)
{
  if (!JVGPU_HAS_CU(cuLaunchKernel)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_of(f, gx, gy, gz, bx, by, bz, shared);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_LEGACY);
  return jvgpu_work_end(launch, stream, JVGPU_LEGACY,
                        jvgpu_real.cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra));
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                             unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                             void **extra)
{
  if (!JVGPU_HAS_CU(cuLaunchKernel_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_of(f, gx, gy, gz, bx, by, bz, shared);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(launch, stream, JVGPU_PER_THREAD,
                        jvgpu_real.cuLaunchKernel_ptsz(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra));
}

CUresult cuLaunchKernelEx(const void *config, CUfunction f, void **params, void **extra)
{
  if (!JVGPU_HAS_CU(cuLaunchKernelEx)) {
    return JVGPU_NO_SUCH_CU;
  }
  if (config == NULL) {
    return jvgpu_real.cuLaunchKernelEx(config, f, params, extra);
  }
  const CUstream       stream = ((const launch_config_t *)config)->stream;
  const jvgpu_work_t   work = work_of_config(config, f);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_LEGACY);
  return jvgpu_work_end(launch, stream, JVGPU_LEGACY, jvgpu_real.cuLaunchKernelEx(config, f, params, extra));
}

CUresult cuLaunchKernelEx_ptsz(const void *config, CUfunction f, void **params, void **extra)
{
  if (!JVGPU_HAS_CU(cuLaunchKernelEx_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  if (config == NULL) {
    return jvgpu_real.cuLaunchKernelEx_ptsz(config, f, params, extra);
  }
  const CUstream       stream = ((const launch_config_t *)config)->stream;
  const jvgpu_work_t   work = work_of_config(config, f);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(launch, stream, JVGPU_PER_THREAD, jvgpu_real.cuLaunchKernelEx_ptsz(config, f, params, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                   void **params)
{
  if (!JVGPU_HAS_CU(cuLaunchCooperativeKernel)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_of(f, gx, gy, gz, bx, by, bz, shared);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_LEGACY);
  return jvgpu_work_end(launch, stream, JVGPU_LEGACY,
                        jvgpu_real.cuLaunchCooperativeKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                                        CUstream stream, void **params)
{
  if (!JVGPU_HAS_CU(cuLaunchCooperativeKernel_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_of(f, gx, gy, gz, bx, by, bz, shared);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(launch, stream, JVGPU_PER_THREAD,
                        jvgpu_real.cuLaunchCooperativeKernel_ptsz(f, gx, gy, gz, bx, by, bz, shared, stream, params));
}

CUresult cuLaunchCooperativeKernelMultiDevice(void *list, unsigned int devices, unsigned int flags)
{
  if (!JVGPU_HAS_CU(cuLaunchCooperativeKernelMultiDevice)) {
    return JVGPU_NO_SUCH_CU;
  }
  // One call, a launch on each device of the list; counted once, where it was made.
  const jvgpu_work_t   work = work_unseen(&jvgpu_real, devices);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, NULL, JVGPU_LEGACY);
  return jvgpu_work_end(launch, NULL, JVGPU_LEGACY,
                        jvgpu_real.cuLaunchCooperativeKernelMultiDevice(list, devices, flags));
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuGraphLaunch)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_unseen(graph, 0);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_LEGACY);
  return jvgpu_work_end(
      launch, stream, JVGPU_LEGACY,
      jvgpu_graph_memory_launch(jvgpu_real.cuGraphLaunch, graph, stream, jvgpu_real.cuStreamIsCapturing));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuGraphLaunch_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_unseen(graph, 0);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(
      launch, stream, JVGPU_PER_THREAD,
      jvgpu_graph_memory_launch(jvgpu_real.cuGraphLaunch_ptsz, graph, stream, jvgpu_real.cuStreamIsCapturing_ptsz));
}

// --- the launches of CUDA 3 -------------------------------------------------------------------------------

CUresult cuLaunch(CUfunction f)
{
  if (!JVGPU_HAS_CU(cuLaunch)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_unseen(f, 1);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, NULL, JVGPU_LEGACY);
  return jvgpu_work_end(launch, NULL, JVGPU_LEGACY, jvgpu_real.cuLaunch(f));
}

CUresult cuLaunchGrid(CUfunction f, int width, int height)
{
  if (!JVGPU_HAS_CU(cuLaunchGrid)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_unseen(f, ((uint64_t)(unsigned int)width << 32) | (unsigned int)height);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, NULL, JVGPU_LEGACY);
  return jvgpu_work_end(launch, NULL, JVGPU_LEGACY, jvgpu_real.cuLaunchGrid(f, width, height));
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuLaunchGridAsync)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_work_t   work = work_unseen(f, ((uint64_t)(unsigned int)width << 32) | (unsigned int)height);
  const jvgpu_launch_t launch = jvgpu_work_begin(&work, stream, JVGPU_LEGACY);
  return jvgpu_work_end(launch, stream, JVGPU_LEGACY, jvgpu_real.cuLaunchGridAsync(f, width, height, stream));
}
