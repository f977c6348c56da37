// Streams: making, naming, destroying, and waiting for them. How long they are busy: timeline.c.

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "graph.h"

static _Atomic uint64_t next_stream_id = 1;

static const CUstream handle_legacy = (CUstream)1;
static const CUstream handle_per_thread = (CUstream)2;

CUstream sim_stream_new(CUcontext context, uint32_t flags, int priority)
{
  CUstream stream = calloc(1, sizeof *stream);
  if (stream == NULL) {
    return NULL;
  }
  stream->magic = SIM_STREAM_MAGIC;
  stream->flags = flags;
  stream->priority = priority;
  stream->context = context;
  stream->stream_id = atomic_fetch_add(&next_stream_id, 1);
  return stream;
}

// The thread's own stream in the current context, made on first use.
static CUstream per_thread(CUcontext context)
{
  CUstream stream = sim_thread.own_stream;
  if (stream != NULL && stream->context == context && stream->magic == SIM_STREAM_MAGIC) {
    return stream;
  }
  const pid_t self = (pid_t)syscall(SYS_gettid);
  pthread_mutex_lock(&sim_lock);
  for (stream = context->streams; stream != NULL && stream->thread != self; stream = stream->next) {
  }
  if (stream == NULL && (stream = sim_stream_new(context, 0, 0)) != NULL) {
    stream->is_internal = true;
    stream->thread = self;
    stream->next = context->streams;
    context->streams = stream;
  }
  pthread_mutex_unlock(&sim_lock);
  sim_thread.own_stream = stream;
  return stream;
}

CUresult sim_stream_of(CUstream handle, sim_face_t face, CUstream *stream)
{
  if ((uintptr_t)handle > 2) {
    if (handle->magic == SIM_STREAM_MAGIC) {
      const CUresult ready = sim_ready();
      *stream = handle;
      return ready != CUDA_SUCCESS ? ready : sim_context_check(handle->context);
    }
    return handle->magic == SIM_DEAD_MAGIC && !sim_context_is_alive(handle->context) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                                                     : CUDA_ERROR_INVALID_HANDLE;
  }
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  const bool own = handle == handle_per_thread || (handle != handle_legacy && face == SIM_PER_THREAD);
  *stream = own ? per_thread(context) : context->legacy;
  return *stream == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void sim_streams_drop(CUcontext context)
{
  context->legacy->magic = SIM_DEAD_MAGIC;
  for (CUstream stream = context->streams; stream != NULL; stream = stream->next) {
    stream->magic = SIM_DEAD_MAGIC;
  }
  context->streams = NULL;
}

SIM_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (out == NULL || flags > SIM_STREAM_NON_BLOCKING) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUstream stream = sim_stream_new(context, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
  if (stream == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_lock(&sim_lock);
  stream->next = context->streams;
  context->streams = stream;
  pthread_mutex_unlock(&sim_lock);
  *out = stream;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
  return cuStreamCreateWithPriority(stream, flags, 0);
}

// Returns at once, also while the stream works: the work goes on. The entry itself is kept, because events may
// still point at it.
SIM_API CUresult cuStreamDestroy_v2(CUstream stream)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if ((uintptr_t)stream <= 2 || stream->magic != SIM_STREAM_MAGIC || stream->is_internal) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  sim_capture_abandon(stream);
  pthread_mutex_lock(&sim_lock);
  CUstream *place = &stream->context->streams;
  while (*place != NULL && *place != stream) {
    place = &(*place)->next;
  }
  if (*place == stream) {
    *place = stream->next;
  }
  stream->magic = SIM_DEAD_MAGIC;
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamDestroy(CUstream stream)
{
  return cuStreamDestroy_v2(stream);
}

static CUresult query(CUstream handle, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS) {
    result = sim_capture_refuse(stream);
  }
  if (result == CUDA_SUCCESS && !sim_stream_is_done(stream)) {
    result = CUDA_ERROR_NOT_READY;
  }
  return result;
}

SIM_TWINS(cuStreamQuery, ptsz, (CUstream stream), query(stream, face))

static CUresult synchronize(CUstream handle, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS) {
    result = sim_capture_refuse(stream);
  }
  if (result == CUDA_SUCCESS) {
    result = sim_capture_check_legacy_wait(stream);
  }
  if (result == CUDA_SUCCESS) {
    sim_stream_wait(stream);
    sim_pools_trim();
  }
  return result;
}

SIM_TWINS(cuStreamSynchronize, ptsz, (CUstream stream), synchronize(stream, face))
