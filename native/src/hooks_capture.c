// Capture: how many streams are between begin and end, so that the question "is this stream
// capturing?" costs nothing while the answer is no.

#define _GNU_SOURCE
#include <stddef.h>

#include "hooks.h"
#include "process.h"

static CUresult began(CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (result == CUDA_SUCCESS && self != NULL) {
    __atomic_fetch_add(&self->live_captures, 1, __ATOMIC_RELAXED);
  }
  return result;
}

// A capture also ends where the driver reports that it was invalidated; only a stream that was not
// capturing at all leaves the count as it is.
static CUresult ended(CUresult result, bool was_capturing)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (was_capturing && self != NULL && __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) != 0) {
    __atomic_fetch_sub(&self->live_captures, 1, __ATOMIC_RELAXED);
  }
  return result;
}

static bool is_capturing(CUresult (*real)(CUstream, int *), CUstream stream)
{
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  return real != NULL && real(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult cuStreamBeginCapture(CUstream stream)
{
  return JVGPU_HAS_CU(cuStreamBeginCapture) ? began(jvgpu_real.cuStreamBeginCapture(stream)) : JVGPU_NO_SUCH_CU;
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
  return JVGPU_HAS_CU(cuStreamBeginCapture_ptsz) ? began(jvgpu_real.cuStreamBeginCapture_ptsz(stream))
                                                 : JVGPU_NO_SUCH_CU;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
  return JVGPU_HAS_CU(cuStreamBeginCapture_v2) ? began(jvgpu_real.cuStreamBeginCapture_v2(stream, mode))
                                               : JVGPU_NO_SUCH_CU;
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
  return JVGPU_HAS_CU(cuStreamBeginCapture_v2_ptsz) ? began(jvgpu_real.cuStreamBeginCapture_v2_ptsz(stream, mode))
                                                    : JVGPU_NO_SUCH_CU;
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const void *edges,
                                     size_t count, int mode)
{
  if (!JVGPU_HAS_CU(cuStreamBeginCaptureToGraph)) {
    return JVGPU_NO_SUCH_CU;
  }
  return began(jvgpu_real.cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                          const void *edges, size_t count, int mode)
{
  if (!JVGPU_HAS_CU(cuStreamBeginCaptureToGraph_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  return began(jvgpu_real.cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, edges, count, mode));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
  if (!JVGPU_HAS_CU(cuStreamEndCapture)) {
    return JVGPU_NO_SUCH_CU;
  }
  const bool was_capturing = is_capturing(jvgpu_real.cuStreamIsCapturing, stream);
  return ended(jvgpu_real.cuStreamEndCapture(stream, graph), was_capturing);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
  if (!JVGPU_HAS_CU(cuStreamEndCapture_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const bool was_capturing = is_capturing(jvgpu_real.cuStreamIsCapturing_ptsz, stream);
  return ended(jvgpu_real.cuStreamEndCapture_ptsz(stream, graph), was_capturing);
}

// --- captures for graphics clients: they too are alive until they are ended ---------------------------------------

CUresult cuStreamBeginCaptureToCig(CUstream stream, void *params)
{
  return JVGPU_HAS_CU(cuStreamBeginCaptureToCig) ? began(jvgpu_real.cuStreamBeginCaptureToCig(stream, params))
                                                 : JVGPU_NO_SUCH_CU;
}

CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params)
{
  return JVGPU_HAS_CU(cuStreamBeginCaptureToCig_ptsz) ? began(jvgpu_real.cuStreamBeginCaptureToCig_ptsz(stream, params))
                                                      : JVGPU_NO_SUCH_CU;
}

CUresult cuStreamEndCaptureToCig(CUstream stream)
{
  if (!JVGPU_HAS_CU(cuStreamEndCaptureToCig)) {
    return JVGPU_NO_SUCH_CU;
  }
  const bool was_capturing = is_capturing(jvgpu_real.cuStreamIsCapturing, stream);
  return ended(jvgpu_real.cuStreamEndCaptureToCig(stream), was_capturing);
}

CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream)
{
  if (!JVGPU_HAS_CU(cuStreamEndCaptureToCig_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const bool was_capturing = is_capturing(jvgpu_real.cuStreamIsCapturing_ptsz, stream);
  return ended(jvgpu_real.cuStreamEndCaptureToCig_ptsz(stream), was_capturing);
}
