// Stream capture: work becomes graph nodes instead of being done.
//
// source: CUDA Driver API 13.0, cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode: what is refused, and
// which captures a refused call spoils.

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "graph.h"

_Atomic int sim_captures;

static sim_capture_t *captures;  // alive ones, under sim_lock
static uint64_t       next_capture_id = 1;

static pid_t this_thread(void)
{
  return (pid_t)syscall(SYS_gettid);
}

bool sim_capture_is_alive(const sim_capture_t *capture, uint64_t capture_id)
{
  for (const sim_capture_t *each = captures; each != NULL; each = each->next) {
    if (each == capture) {
      return each->capture_id == capture_id;
    }
  }
  return false;
}

// context: whose captures count; NULL: all
static CUresult check_unsafe(CUcontext context)
{
  CUresult result = CUDA_SUCCESS;
  if (atomic_load_explicit(&sim_captures, memory_order_relaxed) == 0 ||
      sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_SUCCESS;
  }
  const pid_t self = this_thread();
  pthread_mutex_lock(&sim_lock);
  for (sim_capture_t *each = captures; each != NULL; each = each->next) {
    if (context != NULL && each->origin->context != context) {
      continue;
    }
    const bool is_own = each->thread == self && each->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool is_global =
        each->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (is_own || is_global) {
      each->is_spoilt = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

CUresult sim_capture_check_unsafe(void)
{
  return check_unsafe(NULL);
}

// source: a driver 580.159.04 (benchmarks/results/calls-2026-11-30-nvidia-h200.json): refused in every mode
CUresult sim_capture_check_context(CUcontext context)
{
  CUresult result = CUDA_SUCCESS;
  if (atomic_load_explicit(&sim_captures, memory_order_relaxed) == 0) {
    return CUDA_SUCCESS;
  }
  pthread_mutex_lock(&sim_lock);
  for (sim_capture_t *each = captures; each != NULL; each = each->next) {
    if (each->origin->context == context) {
      each->is_spoilt = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

CUresult sim_capture_refuse(CUstream stream)
{
  if (!sim_is_capturing(stream)) {
    return CUDA_SUCCESS;
  }
  pthread_mutex_lock(&sim_lock);
  sim_capture_t *capture = atomic_load(&stream->capture);
  if (capture != NULL) {
    capture->is_spoilt = true;
  }
  pthread_mutex_unlock(&sim_lock);
  return capture == NULL ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult sim_capture_check_implicit(CUstream stream)
{
  CUresult result = CUDA_SUCCESS;
  if (!stream->is_legacy) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  for (sim_capture_t *each = captures; each != NULL; each = each->next) {
    if (each->origin->context == stream->context && (each->origin->flags & SIM_STREAM_NON_BLOCKING) == 0) {
      each->is_spoilt = true;
      result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

// source: the same driver: refused beside captures that are not relaxed, even on streams that do not block
CUresult sim_capture_check_legacy_wait(CUstream stream)
{
  if (!stream->is_legacy || atomic_load_explicit(&sim_captures, memory_order_relaxed) == 0) {
    return CUDA_SUCCESS;
  }
  const CUresult implicit = sim_capture_check_implicit(stream);
  return implicit != CUDA_SUCCESS ? implicit : check_unsafe(stream->context);
}

// pre: sim_lock held
static bool set_tail(CUstream stream, const CUgraphNode *nodes, size_t count)
{
  CUgraphNode *tail = malloc((count + 1) * sizeof *tail);
  if (tail == NULL) {
    return false;
  }
  if (count > 0) {
    memcpy(tail, nodes, count * sizeof *tail);
  }
  free(stream->tail);
  stream->tail = tail;
  stream->tail_count = count;
  return true;
}

static bool extend_tail(CUstream stream, const CUgraphNode *nodes, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    size_t at = 0;
    while (at < stream->tail_count && stream->tail[at] != nodes[i]) {
      at++;
    }
    if (at < stream->tail_count) {
      continue;
    }
    CUgraphNode *longer = realloc(stream->tail, (stream->tail_count + 1) * sizeof *longer);
    if (longer == NULL) {
      return false;
    }
    stream->tail = longer;
    stream->tail[stream->tail_count++] = nodes[i];
  }
  return true;
}

CUresult sim_capture_join(CUstream stream, sim_capture_t *capture, const CUgraphNode *nodes, size_t count)
{
  sim_capture_t *current = atomic_load(&stream->capture);
  if (stream->is_legacy) {
    capture->is_spoilt = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (current != NULL && current != capture) {
    current->is_spoilt = true;
    capture->is_spoilt = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (current == NULL) {
    set_tail(stream, NULL, 0);
    atomic_store(&stream->capture, capture);
  }
  return extend_tail(stream, nodes, count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_capture_add(CUstream stream, const sim_work_t *work)
{
  pthread_mutex_lock(&sim_lock);
  CUresult       result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  sim_capture_t *capture = atomic_load(&stream->capture);
  if (capture != NULL && !capture->is_spoilt) {
    CUgraphNode node = sim_graph_add(capture->graph, stream->tail, stream->tail_count, work);
    result = node != NULL && set_tail(stream, &node, 1) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

CUresult sim_capture_allocate(CUstream stream, CUdeviceptr *dptr, size_t bytes)
{
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_graph_memory_new(stream->context->device, bytes);
  pthread_mutex_unlock(&sim_lock);
  if (range == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .of.address = range->start};
  const CUresult   result = sim_capture_add(stream, &work);
  if (result == CUDA_SUCCESS) {
    *dptr = work.of.address;
  }
  return result;
}

static CUresult begin(CUstream handle, CUgraph graph, const CUgraphNode *nodes, size_t count, CUstreamCaptureMode mode,
                      sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (count > 0 && nodes == NULL)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->is_legacy) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  pthread_mutex_lock(&sim_lock);
  sim_capture_t *capture = calloc(1, sizeof *capture);
  if (atomic_load(&stream->capture) != NULL) {
    result = CUDA_ERROR_ILLEGAL_STATE;
  } else if (capture == NULL || !set_tail(stream, nodes, count) ||
             (graph == NULL && (graph = sim_graph_new()) == NULL)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) {
    *capture = (sim_capture_t){.graph = graph,
                               .origin = stream,
                               .mode = mode,
                               .thread = this_thread(),
                               .capture_id = next_capture_id++,
                               .next = captures};
    captures = capture;
    atomic_fetch_add(&sim_captures, 1);
    atomic_store(&stream->capture, capture);
  } else {
    free(capture);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_TWINS(cuStreamBeginCapture, ptsz, (CUstream stream),
          begin(stream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL, face))
SIM_TWINS(cuStreamBeginCapture_v2, ptsz, (CUstream stream, CUstreamCaptureMode mode),
          begin(stream, NULL, NULL, 0, mode, face))
SIM_TWINS(cuStreamBeginCaptureToGraph, ptsz,
          (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,
           CUstreamCaptureMode mode),
          graph == NULL ? CUDA_ERROR_INVALID_VALUE : ((void)edges, begin(stream, graph, nodes, count, mode, face)))

// Every stream of the capture forgets it. Streams of one capture lie in one context.
// pre: sim_lock held
static void dissolve(sim_capture_t *capture)
{
  for (CUstream stream = capture->origin->context->streams; stream != NULL; stream = stream->next) {
    if (atomic_load(&stream->capture) == capture) {
      free(stream->tail);
      stream->tail = NULL;
      stream->tail_count = 0;
      atomic_store(&stream->capture, NULL);
    }
  }
  sim_capture_t **place = &captures;
  while (*place != capture) {
    place = &(*place)->next;
  }
  *place = capture->next;
  atomic_fetch_sub(&sim_captures, 1);
  free(capture);
}

// returns: true when all work of the other streams leads to the origin
static bool is_joined(const sim_capture_t *capture)
{
  for (CUstream stream = capture->origin->context->streams; stream != NULL; stream = stream->next) {
    if (stream == capture->origin || atomic_load(&stream->capture) != capture) {
      continue;
    }
    for (size_t i = 0; i < stream->tail_count; i++) {
      if (!sim_graph_reaches(capture->graph, capture->origin->tail, capture->origin->tail_count, stream->tail[i])) {
        return false;
      }
    }
  }
  return true;
}

static CUresult end(CUstream handle, CUgraph *graph, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || graph == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  *graph = NULL;
  pthread_mutex_lock(&sim_lock);
  sim_capture_t *capture = atomic_load(&stream->capture);
  if (capture == NULL) {
    result = CUDA_ERROR_ILLEGAL_STATE;
  } else if (capture->origin != stream) {
    capture->is_spoilt = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  } else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread()) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  } else {
    CUgraph captured = capture->graph;
    if (capture->is_spoilt) {
      result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!is_joined(capture)) {
      result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    dissolve(capture);
    if (result == CUDA_SUCCESS) {
      *graph = captured;
    } else {
      sim_graph_free(captured);
    }
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_TWINS(cuStreamEndCapture, ptsz, (CUstream stream, CUgraph *graph), end(stream, graph, face))

void sim_capture_abandon(CUstream stream)
{
  if (!sim_is_capturing(stream)) {
    return;
  }
  pthread_mutex_lock(&sim_lock);
  sim_capture_t *capture = atomic_load(&stream->capture);
  if (capture != NULL && capture->origin == stream) {
    sim_graph_free(capture->graph);
    dissolve(capture);
  } else if (capture != NULL) {
    capture->is_spoilt = true;
    atomic_store(&stream->capture, NULL);
  }
  pthread_mutex_unlock(&sim_lock);
}

// A mode that does not exist is taken, as by the real driver; here it works like the thread-local one.
SIM_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
  if (mode == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUstreamCaptureMode before = sim_thread.capture_mode;
  sim_thread.capture_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}
