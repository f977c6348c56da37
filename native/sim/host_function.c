// Host functions: one thread per process calls them, each when its stream has come that far.

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "driver.h"
#include "graph.h"

typedef struct sim_call_s {
  uint64_t           position;  // of the stream's context
  CUstream           stream;    // NULL: waits for nothing but the calls before it
  CUhostFn           function;
  void              *user_data;
  struct sim_call_s *next;
} sim_call_t;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t  changed;
  bool            has_thread;
  sim_call_t     *first;  // in the order of submission
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void wait_for_change(uint64_t moment_ns)
{
  const uint64_t        until_ns = sim_monotonic_of(moment_ns);
  const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
  pthread_cond_timedwait(&calls.changed, &calls.lock, &until);
}

// The first call whose stream has come that far and has no earlier one.
// returns: its place; NULL when there is none, and `eta_ns` is when to look again
static sim_call_t **find_due(uint64_t *eta_ns)
{
  *eta_ns = UINT64_MAX;
  for (sim_call_t **place = &calls.first; *place != NULL; place = &(*place)->next) {
    sim_call_t *earlier = calls.first;
    uint64_t    eta;
    if ((*place)->stream == NULL) {
      if (earlier == *place) {
        return place;
      }
      continue;
    }
    while (earlier != *place && earlier->stream != (*place)->stream) {
      earlier = earlier->next;
    }
    if (earlier != *place) {
      continue;
    }
    if (sim_position_is_reached((*place)->stream->context, (*place)->position, &eta)) {
      return place;
    }
    *eta_ns = eta < *eta_ns ? eta : *eta_ns;
  }
  return NULL;
}

static void *serve(void *unused)
{
  (void)unused;
  pthread_mutex_lock(&calls.lock);
  for (;;) {
    uint64_t     eta_ns;
    sim_call_t **place = find_due(&eta_ns);
    if (place != NULL) {
      sim_call_t *call = *place;
      *place = call->next;
      pthread_mutex_unlock(&calls.lock);
      call->function(call->user_data);
      if (call->stream != NULL) {
        atomic_fetch_add(&call->stream->host_done, 1);
      }
      free(call);
      pthread_mutex_lock(&calls.lock);
    } else if (calls.first == NULL) {
      pthread_cond_wait(&calls.changed, &calls.lock);
    } else {
      wait_for_change(eta_ns);
    }
  }
  return NULL;
}

// pre: calls.lock held
static bool start_thread(void)
{
  pthread_condattr_t attributes;
  pthread_t          thread;
  sigset_t           all;
  sigset_t           before;
  if (calls.has_thread) {
    return true;
  }
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&calls.changed, &attributes);
  // The host's signals are for its own threads.
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  calls.has_thread = pthread_create(&thread, NULL, serve, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (calls.has_thread) {
    pthread_detach(thread);
  }
  return calls.has_thread;
}

static CUresult submit(const sim_call_t *wanted)
{
  sim_call_t *call = malloc(sizeof *call);
  if (call == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *call = *wanted;
  pthread_mutex_lock(&calls.lock);
  if (!start_thread()) {
    pthread_mutex_unlock(&calls.lock);
    free(call);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  sim_call_t **place = &calls.first;
  while (*place != NULL) {
    place = &(*place)->next;
  }
  call->next = *place;
  *place = call;
  if (call->stream != NULL) {
    atomic_fetch_add(&call->stream->host_issued, 1);
  }
  pthread_cond_signal(&calls.changed);
  pthread_mutex_unlock(&calls.lock);
  return CUDA_SUCCESS;
}

CUresult sim_stream_run_host(CUstream stream, CUhostFn function, void *user_data)
{
  return submit(&(sim_call_t){
      .position = sim_stream_position(stream), .stream = stream, .function = function, .user_data = user_data});
}

CUresult sim_host_run_later(CUhostFn function, void *user_data)
{
  return submit(&(sim_call_t){.function = function, .user_data = user_data});
}

static CUresult launch(CUstream handle, CUhostFn function, void *user_data, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || function == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_HOST, .of.host = {.fn = function, .userData = user_data}};
  return sim_stream_do(stream, &work);
}

SIM_TWINS(cuLaunchHostFunc, ptsz, (CUstream stream, CUhostFn function, void *user_data),
          launch(stream, function, user_data, face))

// cuStreamAddCallback's function has other parameters: this carries them.
typedef struct sim_callback_s {
  CUstreamCallback function;
  CUstream         handle;
  void            *user_data;
} sim_callback_t;

static void call_back(void *argument)
{
  sim_callback_t *callback = argument;
  callback->function(callback->handle, CUDA_SUCCESS, callback->user_data);
  free(callback);
}

static CUresult add_callback(CUstream handle, CUstreamCallback function, void *user_data, unsigned int flags,
                             sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS) {
    result = sim_capture_refuse(stream);
  }
  if (result != CUDA_SUCCESS || function == NULL || flags != 0) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  sim_callback_t *callback = malloc(sizeof *callback);
  if (callback == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *callback = (sim_callback_t){.function = function, .handle = handle, .user_data = user_data};
  result = sim_stream_run_host(stream, call_back, callback);
  if (result != CUDA_SUCCESS) {
    free(callback);
  }
  return result;
}

SIM_TWINS(cuStreamAddCallback, ptsz, (CUstream stream, CUstreamCallback function, void *user_data, unsigned int flags),
          add_callback(stream, function, user_data, flags, face))
