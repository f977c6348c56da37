// Synchronisation: when the host has seen that everything is done, nothing is in flight any more. And the end of streams,
// after which none of ours may ask for them.

#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>

#include "hooks.h"
#include "pools.h"
#include "process.h"

// What the host waited for is done; whether that was all there was, the stream or context says, which
// is asked only where it costs nothing beside the wait. An event may lie before later launches.
static CUresult waited(CUresult result, CUstream stream, bool all)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (result == CUDA_SUCCESS && self != NULL) {
    jvgpu_meter_drained(self);
    jvgpu_pacer_drained(self, stream, all);
    jvgpu_pools_waited(self);
  }
  return result;
}

CUresult cuCtxSynchronize(void)
{
  return JVGPU_HAS_CU(cuCtxSynchronize) ? waited(jvgpu_real.cuCtxSynchronize(), NULL, true) : JVGPU_NO_SUCH_CU;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
  return JVGPU_HAS_CU(cuCtxSynchronize_v2) ? waited(jvgpu_real.cuCtxSynchronize_v2(ctx), NULL, true) : JVGPU_NO_SUCH_CU;
}

CUresult cuStreamSynchronize(CUstream stream)
{
  return JVGPU_HAS_CU(cuStreamSynchronize) ? waited(jvgpu_real.cuStreamSynchronize(stream), stream, false)
                                           : JVGPU_NO_SUCH_CU;
}

CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
  return JVGPU_HAS_CU(cuStreamSynchronize_ptsz) ? waited(jvgpu_real.cuStreamSynchronize_ptsz(stream), stream, false)
                                                : JVGPU_NO_SUCH_CU;
}

CUresult cuEventSynchronize(CUevent event)
{
  if (!JVGPU_HAS_CU(cuEventSynchronize)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuEventSynchronize(event);
  if (result == CUDA_SUCCESS && self != NULL) {
    jvgpu_meter_drained_event(self);
  }
  return result;
}

static void stream_gone(CUstream stream)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (self != NULL) {
    jvgpu_meter_stream_gone(self, stream);
  }
}

CUresult cuStreamDestroy(CUstream stream)
{
  if (!JVGPU_HAS_CU(cuStreamDestroy)) {
    return JVGPU_NO_SUCH_CU;
  }
  stream_gone(stream);
  return jvgpu_real.cuStreamDestroy(stream);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
  if (!JVGPU_HAS_CU(cuStreamDestroy_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  stream_gone(stream);
  return jvgpu_real.cuStreamDestroy_v2(stream);
}
