// Events: a position of a stream. When the device was there is known once it has been.

#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "graph.h"

bool sim_is_event(CUevent event)
{
  return event != NULL && event->magic == SIM_EVENT_MAGIC;
}

static bool is_captured(CUevent event)
{
  return event->capture != NULL && sim_capture_is_alive(event->capture, event->capture_id);
}

CUresult sim_event_new(CUevent *out, unsigned int flags)
{
  CUevent event = calloc(1, sizeof *event);
  if (event == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  event->magic = SIM_EVENT_MAGIC;
  event->flags = flags;
  *out = event;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (out == NULL || flags > 7 || ((flags & INTERPROCESS) != 0 && (flags & DISABLE_TIMING) == 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return sim_event_new(out, flags);
}

// pre: the context's domain locked
static void unlink_unsettled(CUevent event)
{
  CUevent *place = event->context == NULL ? NULL : &event->context->unsettled;
  while (place != NULL && *place != NULL && *place != event) {
    place = &(*place)->next;
  }
  if (place != NULL && *place == event) {
    *place = event->next;
  }
}

static void forget(CUevent event)
{
  if (event->context == NULL) {
    return;
  }
  sim_domain_t *domain = sim_domain(event->context);
  sim_domain_lock(domain);
  unlink_unsettled(event);
  sim_domain_unlock(domain);
}

void sim_events_add(CUcontext context, CUevent event, uint64_t position, uint64_t end)
{
  event->position = position;
  event->end = end;
  if (context->lane == SIM_LANES) {
    event->moment_ns = sim_now_ns();  // more contexts than the board has places for: their work takes no time
    return;
  }
  event->next = context->unsettled;
  context->unsettled = event;
  uint64_t *wanted = &sim_domain(context)->histories[context->lane].wanted;
  *wanted = position < *wanted ? position : *wanted;
}

void sim_events_settle(CUcontext context)
{
  if (context->lane == SIM_LANES) {
    return;
  }
  sim_domain_t *domain = sim_domain(context);
  uint64_t      wanted = UINT64_MAX;
  for (CUevent *place = &context->unsettled; *place != NULL;) {
    CUevent event = *place;
    if (sim_turns_moment(domain, context->lane, event->position, &event->moment_ns)) {
      *place = event->next;
    } else {
      wanted = event->position < wanted ? event->position : wanted;
      place = &event->next;
    }
  }
  domain->histories[context->lane].wanted = wanted;
}

void sim_events_cut(CUcontext context, uint64_t now_ns)
{
  for (; context->unsettled != NULL; context->unsettled = context->unsettled->next) {
    context->unsettled->moment_ns = now_ns;
  }
}

static CUresult destroy(CUevent event)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (!sim_is_event(event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  forget(event);
  sim_event_page_drop(event);
  event->magic = SIM_DEAD_MAGIC;
  free(event->tail);
  free(event);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuEventDestroy_v2(CUevent event)
{
  return destroy(event);
}

SIM_API CUresult cuEventDestroy(CUevent event)
{
  return destroy(event);
}

// source: measured on an H200, docs/simulated-board.md
enum {
  TIMING_NS = 1280,       // a timing event occupies its stream
  TIMING_HOST_NS = 800,   // and the host
  PLAIN_HOST_NS = 240,
  QUERY_HOST_NS = 150
};

CUresult sim_event_record(CUevent event, CUstream stream)
{
  const bool has_timing = (event->flags & DISABLE_TIMING) == 0;
  if (!sim_thread.unit.is_open) {
    sim_host_pay(has_timing ? TIMING_HOST_NS : PLAIN_HOST_NS);
  }
  forget(event);
  event->capture = NULL;
  event->stream = stream;
  event->context = stream->context;
  event->host_ticket = atomic_load(&stream->host_issued);
  event->moment_ns = 0;
  if (has_timing) {
    sim_submit_timing(stream, TIMING_NS, event);
  } else {
    event->position = event->end = sim_stream_position(stream);
  }
  event->is_recorded = true;
  sim_event_page_record(event);
  return CUDA_SUCCESS;
}

// pre: sim_lock held
static CUresult record_in_capture(CUevent event, CUstream stream)
{
  CUgraphNode *tail = malloc((stream->tail_count + 1) * sizeof *tail);
  if (tail == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (stream->tail_count > 0) {
    memcpy(tail, stream->tail, stream->tail_count * sizeof *tail);
  }
  free(event->tail);
  event->tail = tail;
  event->tail_count = stream->tail_count;
  event->capture = atomic_load(&stream->capture);
  event->capture_id = event->capture->capture_id;
  event->is_recorded = true;
  return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream handle, unsigned int flags, sim_face_t face)
{
  enum { EXTERNAL = 1 };
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (!sim_is_event(event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (sim_is_capturing(stream) && (flags & EXTERNAL) == 0) {
    pthread_mutex_lock(&sim_lock);
    result = record_in_capture(event, stream);
    pthread_mutex_unlock(&sim_lock);
    return result;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .of.event = event};
  return sim_stream_do(stream, &work);
}

SIM_TWINS(cuEventRecord, ptsz, (CUevent event, CUstream stream), record(event, stream, 0, face))
SIM_TWINS(cuEventRecordWithFlags, ptsz, (CUevent event, CUstream stream, unsigned int flags),
          flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(event, stream, flags, face))

static bool is_done(CUevent event)
{
  if (event->page != NULL && !sim_event_page_is_done(event->page, NULL)) {
    return false;
  }
  return !event->is_recorded || (atomic_load(&event->stream->host_done) >= event->host_ticket &&
                                 sim_position_is_reached(event->context, event->end, NULL));
}

static CUresult check_usable(CUevent event)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (!sim_is_event(event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return is_captured(event) ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

SIM_API CUresult cuEventQuery(CUevent event)
{
  CUresult result = check_usable(event);
  if (result == CUDA_SUCCESS) {
    result = sim_capture_check_unsafe();
  }
  if (result == CUDA_SUCCESS && (event->flags & DISABLE_TIMING) == 0) {
    sim_host_catch_up();  // whoever asks for the moment of something may compare it with a clock
  }
  if (result == CUDA_SUCCESS && event->capture == NULL && !is_done(event)) {
    result = CUDA_ERROR_NOT_READY;
  }
  return result;
}

SIM_API CUresult cuEventSynchronize(CUevent event)
{
  const CUresult result = check_usable(event);
  if (result != CUDA_SUCCESS || event->capture != NULL) {
    return result;
  }
  sim_host_pay(QUERY_HOST_NS);
  if (event->page != NULL) {
    sim_event_page_wait(event->page);
  }
  while (!is_done(event)) {
    sim_position_wait(event->context, event->end);
    if (atomic_load(&event->stream->host_done) < event->host_ticket) {
      sim_sleep_until(sim_now_ns() + 50000);  // a host function still runs: its end is not known beforehand
    }
  }
  sim_pools_trim();
  return CUDA_SUCCESS;
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
  CUresult result = check_usable(start);
  if (result == CUDA_SUCCESS) {
    result = check_usable(end);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (milliseconds == NULL || ((start->flags | end->flags) & DISABLE_TIMING) != 0 || !start->is_recorded ||
      !end->is_recorded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!is_done(start) || !is_done(end)) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = (float)((double)(int64_t)(end->moment_ns - start->moment_ns) / 1e6);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
  return elapsed(milliseconds, start, end);
}

SIM_API CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
  return elapsed(milliseconds, start, end);
}

CUresult sim_event_wait(CUevent event, CUstream stream)
{
  uint64_t eta_ns;
  if (event->page != NULL && !sim_event_page_is_done(event->page, &eta_ns)) {
    sim_stream_hold_until(stream, eta_ns);
  }
  if (!event->is_recorded || event->capture != NULL) {
    return CUDA_SUCCESS;
  }
  if (event->context == stream->context) {
    sim_stream_hold(stream, event->end);
  } else if (!sim_position_is_reached(event->context, event->end, &eta_ns)) {
    // Another context's time: as far ahead as it looks now.
    sim_stream_hold_until(stream, eta_ns);
  }
  return CUDA_SUCCESS;
}

static CUresult wait(CUstream handle, CUevent event, unsigned int flags, sim_face_t face)
{
  enum { EXTERNAL = 1 };
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (!sim_is_event(event) || flags > EXTERNAL) {
    return sim_is_event(event) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  if (is_captured(event)) {
    pthread_mutex_lock(&sim_lock);
    result = sim_capture_join(stream, event->capture, event->tail, event->tail_count);
    pthread_mutex_unlock(&sim_lock);
    return result;
  }
  if (sim_is_capturing(stream) && (flags & EXTERNAL) == 0) {
    // A capture cannot depend on work outside of it.
    sim_capture_refuse(stream);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .of.event = event};
  return sim_stream_do(stream, &work);
}

SIM_TWINS(cuStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned int flags),
          wait(stream, event, flags, face))
