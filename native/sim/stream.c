// Streams: a queue is a moment in time until which it is busy.
//
// What is submitted takes effect at once, in the order of submission, and the stream is said to be busy for as
// long as the work would take. The legacy stream starts after all blocking streams and they after it.

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

static _Atomic uint64_t next_stream_id = 1;

static const CUstream handle_legacy = (CUstream)1;
static const CUstream handle_per_thread = (CUstream)2;

void sim_sleep_until(uint64_t deadline_ns)
{
  const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                    .tv_nsec = (long)(deadline_ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) {
  }
}

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
  stream->use = &sim_process.slot->uses[sim_process.board_of[context->device]];
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
      *stream = handle;
      return sim_ready();
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

static void raise_to(_Atomic uint64_t *moment, uint64_t value)
{
  uint64_t seen = atomic_load_explicit(moment, memory_order_relaxed);
  while (seen < value &&
         !atomic_compare_exchange_weak_explicit(moment, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
  }
}

uint64_t sim_stream_until(CUstream stream)
{
  uint64_t until = atomic_load_explicit(&stream->until_ns, memory_order_relaxed);
  if ((stream->flags & SIM_STREAM_NON_BLOCKING) == 0) {
    const uint64_t other = atomic_load_explicit(stream->is_legacy ? &stream->context->blocking_until_ns
                                                                  : &stream->context->legacy->until_ns,
                                                memory_order_relaxed);
    until = other > until ? other : until;
  }
  return until;
}

// Utilisation is kept per window of 134 ms: busy time submitted in the last full one.
static void count(sim_use_t *use, uint64_t now, uint64_t duration_ns)
{
  const uint64_t window = now >> SIM_WINDOW_SHIFT;
  const uint64_t seen = atomic_load_explicit(&use->window, memory_order_relaxed);
  if (seen != window) {
    const uint64_t busy = atomic_load_explicit(&use->busy_ns, memory_order_relaxed);
    const uint64_t before = atomic_exchange_explicit(&use->window_busy_ns, busy, memory_order_relaxed);
    atomic_store_explicit(&use->last_busy_ns, seen + 1 == window ? busy - before : 0, memory_order_relaxed);
    atomic_store_explicit(&use->window, window, memory_order_relaxed);
  }
  atomic_fetch_add_explicit(&use->busy_ns, duration_ns, memory_order_relaxed);
}

void sim_stream_hold(CUstream stream, uint64_t moment_ns)
{
  raise_to(&stream->until_ns, moment_ns);
  if (!stream->is_legacy && (stream->flags & SIM_STREAM_NON_BLOCKING) == 0) {
    raise_to(&stream->context->blocking_until_ns, moment_ns);
  }
}

void sim_submit(CUstream stream, uint64_t duration_ns)
{
  if (duration_ns == 0) {
    return;
  }
  const uint64_t now = sim_now_ns();
  const uint64_t until = sim_stream_until(stream);
  const uint64_t end = (until > now ? until : now) + duration_ns;
  sim_stream_hold(stream, end);
  count(stream->use, now, duration_ns);
}

void sim_submit_launch(CUstream stream, uint64_t duration_ns)
{
  // source: FACTS, H200: 1,021 launches fit into a stream's queue before the host blocks
  enum { QUEUE_LAUNCHES = 1021 };
  if (duration_ns == 0) {
    return;
  }
  sim_submit(stream, duration_ns);
  const uint64_t room_ns = QUEUE_LAUNCHES * duration_ns;
  const uint64_t until = atomic_load_explicit(&stream->until_ns, memory_order_relaxed);
  const uint64_t seen = atomic_load_explicit(&stream->unblocked_ns, memory_order_relaxed);
  if (until > room_ns && until - room_ns > seen) {
    if (until - room_ns > sim_now_ns()) {
      sim_sleep_until(until - room_ns);
    }
    atomic_store_explicit(&stream->unblocked_ns, sim_now_ns(), memory_order_relaxed);
  }
}

bool sim_stream_is_done(CUstream stream)
{
  return atomic_load(&stream->host_done) >= atomic_load(&stream->host_issued) &&
         sim_stream_until(stream) <= sim_now_ns();
}

void sim_stream_wait(CUstream stream)
{
  while (!sim_stream_is_done(stream)) {
    const uint64_t until = sim_stream_until(stream);
    const uint64_t now = sim_now_ns();
    // A host function still runs: its end is not known beforehand.
    sim_sleep_until(until > now ? until : now + 50000);
  }
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
    sim_stream_wait(stream);
    sim_pools_trim();
  }
  return result;
}

SIM_TWINS(cuStreamSynchronize, ptsz, (CUstream stream), synchronize(stream, face))
