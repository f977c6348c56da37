// What a stream says about its capture, and how its dependencies are changed by hand.

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "graph.h"

// All edges are plain ones. cuda-bindings copies them without a look whether there are any.
enum { PLAIN_EDGES = 1024 };
static const CUgraphEdgeData plain_edges[PLAIN_EDGES];

typedef struct sim_capture_answer_s {
  CUstreamCaptureStatus status;
  uint64_t              capture_id;
  CUgraph               graph;
  const CUgraphNode    *tail;
  size_t                tail_count;
} sim_capture_answer_t;

static CUresult ask(CUstream handle, sim_face_t face, sim_capture_answer_t *answer)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  *answer = (sim_capture_answer_t){.status = CU_STREAM_CAPTURE_STATUS_NONE};
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (atomic_load_explicit(&sim_captures, memory_order_relaxed) == 0) {
    return CUDA_SUCCESS;
  }
  result = sim_capture_check_implicit(stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_capture_t *capture = atomic_load(&stream->capture);
  if (capture != NULL) {
    *answer = (sim_capture_answer_t){.status = capture->is_spoilt ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE,
                                     .capture_id = capture->capture_id,
                                     .graph = capture->graph,
                                     .tail = stream->tail,
                                     .tail_count = stream->tail_count};
  }
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status, sim_face_t face)
{
  sim_capture_answer_t answer;
  const CUresult       result = ask(stream, face, &answer);
  if (status == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *status = answer.status;
  return result;
}

SIM_TWINS(cuStreamIsCapturing, ptsz, (CUstream stream, CUstreamCaptureStatus *status),
          is_capturing(stream, status, face))

static CUresult info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                     const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count, sim_face_t face)
{
  sim_capture_answer_t answer;
  const CUresult       result = ask(stream, face, &answer);
  if (result != CUDA_SUCCESS || status == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  *status = answer.status;
  if (answer.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return CUDA_SUCCESS;
  }
  if (id != NULL) {
    *id = answer.capture_id;
  }
  if (graph != NULL) {
    *graph = answer.graph;
  }
  if (nodes != NULL) {
    *nodes = answer.tail;
  }
  if (edges != NULL) {
    *edges = answer.tail_count <= PLAIN_EDGES ? plain_edges : NULL;
  }
  if (count != NULL) {
    *count = answer.tail_count;
  }
  return CUDA_SUCCESS;
}

SIM_TWINS(cuStreamGetCaptureInfo, ptsz, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
          info(stream, status, id, NULL, NULL, NULL, NULL, face))
SIM_TWINS(cuStreamGetCaptureInfo_v2, ptsz,
          (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
           size_t *count),
          info(stream, status, id, graph, nodes, NULL, count, face))
SIM_TWINS(cuStreamGetCaptureInfo_v3, ptsz,
          (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
           const CUgraphEdgeData **edges, size_t *count),
          info(stream, status, id, graph, nodes, edges, count, face))

static CUresult update(CUstream handle, const CUgraphNode *nodes, size_t count, unsigned int flags, sim_face_t face)
{
  enum { ADD = 0, SET = 1 };
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || flags > SET || (count > 0 && nodes == NULL)) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  sim_capture_t *capture = atomic_load(&stream->capture);
  if (capture == NULL) {
    result = CUDA_ERROR_ILLEGAL_STATE;
  } else {
    if (flags == SET) {
      stream->tail_count = 0;
    }
    result = sim_capture_join(stream, capture, nodes, count);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_TWINS(cuStreamUpdateCaptureDependencies, ptsz,
          (CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags),
          update(stream, nodes, count, flags, face))
SIM_TWINS(cuStreamUpdateCaptureDependencies_v2, ptsz,
          (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, unsigned int flags),
          ((void)edges, update(stream, nodes, count, flags, face)))
