#define _GNU_SOURCE
#include "pulse.h"

#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "loader.h"
#include "real.h"

// Between two pulses: at first, and once a watch has become long and longer, when a little more or less matters no more.
// No turn of others' is shorter than the last.
#define PULSE_NS 200000
#define LATER_PULSE_NS 400000
#define LATER 100u
#define LATEST_PULSE_NS 1000000
#define LATEST 2500u
#define HOST_WAY_NS 60000
// As many are under way at once: the first of those that wait for our turn tells how long it was lost.
#define UNDER_WAY 128u
// Two turns lost lie at least one of our own apart: as many seconds of them as below.
#define MOST_LOST 4096u
// A watch that is not over after so long is given up: a queue of many seconds, or a launch that never ends. Launches of
// two seconds beside three others are over.
#define LIMIT_NS UINT64_C(12000000000)

// A stamp this much later than its pulse met a lost turn: a switch there and back alone costs more.
// source: measured, H200: 0.2 ms and more for the shortest turn of others', 2.3 for a whole one.
#define LOST_MS 0.15
// The first pulse came so soon after the sample's first event that no turn was lost in between.
#define LATE_MS 0.3

typedef int (*create_thread_t)(unsigned long *, const void *, void *(*)(void *), void *);
typedef int (*detach_thread_t)(unsigned long);

// One that is recorded: between which moments of the host's clock.
typedef struct {
  CUevent event;
  double  from_ms;
  double  to_ms;
} beat_t;

typedef struct {
  CUstream stream;
  CUevent  base;  // stamps count from here
  beat_t   beats[UNDER_WAY];
  uint32_t made;
  uint32_t done;
  // The latest that is done.
  double stamp_ms;
  double from_ms;
  // Turns lost, in the stamps' time.
  uint32_t lost;
  double   lost_from_ms[MOST_LOST];
  double   lost_to_ms[MOST_LOST];
} session_t;

static double now_ms(void)
{
  return (double)jvgpu_now_ns() / 1e6;
}

static bool record(session_t *session)
{
  beat_t *beat = &session->beats[session->made % UNDER_WAY];
  beat->from_ms = now_ms();
  if (jvgpu_real.cuEventRecord(beat->event, session->stream) != CUDA_SUCCESS) {
    return false;
  }
  beat->to_ms = now_ms();
  session->made += 1;
  return true;
}

// A pulse that is stamped much later after its forerunner than it was recorded after it met a lost
// turn, which began somewhere between the two: half an interval later on average. Where the host
// itself paused, both gaps are wide, and nothing was lost.
static void take_in(session_t *session, const beat_t *beat, double stamp_ms)
{
  const double gap_ms = stamp_ms - session->stamp_ms;
  const double host_gap_ms = beat->to_ms - session->from_ms;
  if (gap_ms - host_gap_ms > LOST_MS && session->lost < MOST_LOST) {
    session->lost_from_ms[session->lost] = session->stamp_ms + host_gap_ms / 2;
    session->lost_to_ms[session->lost] = stamp_ms;
    session->lost += 1;
  }
  session->stamp_ms = stamp_ms;
  session->from_ms = beat->from_ms;
  session->done += 1;
}

// returns: whether the driver still answers.
static bool take_in_done(session_t *session)
{
  while (session->done < session->made) {
    const beat_t  *beat = &session->beats[session->done % UNDER_WAY];
    const CUresult result = jvgpu_real.cuEventQuery(beat->event);
    float          stamp_ms = 0;
    if (result == CUDA_ERROR_NOT_READY) {
      return true;
    }
    if (result != CUDA_SUCCESS ||
        jvgpu_real.cuEventElapsedTime(&stamp_ms, session->base, beat->event) != CUDA_SUCCESS) {
      return false;
    }
    take_in(session, beat, (double)stamp_ms);
  }
  return true;
}

static double lost_between(const session_t *session, double begun_ms, double ended_ms)
{
  double sum_ms = 0;
  for (uint32_t i = 0; i < session->lost; i++) {
    const double from_ms = session->lost_from_ms[i] > begun_ms ? session->lost_from_ms[i] : begun_ms;
    const double to_ms = session->lost_to_ms[i] < ended_ms ? session->lost_to_ms[i] : ended_ms;
    sum_ms += to_ms > from_ms ? to_ms - from_ms : 0;
  }
  return sum_ms;
}

static long pulse_ns(const session_t *session)
{
  return session->made < LATER ? PULSE_NS : session->made < LATEST ? LATER_PULSE_NS : LATEST_PULSE_NS;
}

// Pulses until one is stamped that was recorded after the sample was over.
// returns: whether the driver still answers. *is_over: the sample is, and so is the last pulse.
static bool beat_until_over(session_t *session, const jvgpu_pulse_t *pulse, bool *is_over)
{
  const uint64_t begun_ns = jvgpu_now_ns();
  uint32_t       wanted = UINT32_MAX;  // pulses, the last of which comes after the sample
  *is_over = false;
  while (jvgpu_now_ns() - begun_ns < LIMIT_NS) {
    if (session->made < wanted && session->made - session->done < UNDER_WAY && !record(session)) {
      return false;
    }
    const struct timespec pause = {.tv_nsec = pulse_ns(session) - HOST_WAY_NS};
    nanosleep(&pause, NULL);
    if (!take_in_done(session)) {
      return false;
    }
    if (session->done >= wanted) {
      *is_over = true;
      return true;
    }
    if (wanted == UINT32_MAX && __atomic_load_n(&pulse->closed, __ATOMIC_ACQUIRE) == pulse->asked) {
      const CUresult result = jvgpu_real.cuEventQuery(pulse->ended);
      if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        return false;
      }
      wanted = result == CUDA_SUCCESS ? session->made + 1 : UINT32_MAX;
    }
  }
  return true;
}

// returns: whether the driver still answers.
static bool hold_session(jvgpu_pulse_t *pulse, session_t *session)
{
  float begun_ms, ended_ms, first_ms;
  bool  is_over;
  // What an earlier watch left under way comes to its end first: the stream is in order.
  session->made = session->done = session->lost = 0;
  session->stamp_ms = 0;
  session->from_ms = now_ms();
  pulse->has_seen = false;
  if (jvgpu_real.cuEventRecord(session->base, session->stream) != CUDA_SUCCESS ||
      !beat_until_over(session, pulse, &is_over)) {
    return false;
  }
  if (!is_over || jvgpu_real.cuEventElapsedTime(&begun_ms, session->base, pulse->begun) != CUDA_SUCCESS ||
      jvgpu_real.cuEventElapsedTime(&ended_ms, session->base, pulse->ended) != CUDA_SUCCESS ||
      jvgpu_real.cuEventElapsedTime(&first_ms, pulse->begun, session->base) != CUDA_SUCCESS) {
    return true;
  }
  pulse->lost_ns = lost_between(session, (double)begun_ms, (double)ended_ms) * 1e6;
  pulse->has_seen = (double)first_ms < LATE_MS && session->lost < MOST_LOST;
  return true;
}

// The driver has a few queues to the GPU for all streams of a priority, and what shares one waits in it behind the others:
// of the highest priority, which is clamped to what the device has, few programs have streams.
static bool make_stream(CUstream *stream)
{
  enum { NON_BLOCKING = 1, HIGHEST = -1000 };
  return jvgpu_real.cuStreamCreateWithPriority != NULL
             ? jvgpu_real.cuStreamCreateWithPriority(stream, NON_BLOCKING, HIGHEST) == CUDA_SUCCESS
             : jvgpu_real.cuStreamCreate(stream, NON_BLOCKING) == CUDA_SUCCESS;
}

static bool prepare(const jvgpu_pulse_t *pulse, session_t *session)
{
  int  mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  bool is_ready = jvgpu_real.cuCtxSetCurrent(pulse->ctx) == CUDA_SUCCESS &&
                  jvgpu_real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS &&
                  make_stream(&session->stream) && jvgpu_real.cuEventCreate(&session->base, 0) == CUDA_SUCCESS;
  for (uint32_t i = 0; is_ready && i < UNDER_WAY; i++) {
    is_ready = jvgpu_real.cuEventCreate(&session->beats[i].event, 0) == CUDA_SUCCESS;
  }
  return is_ready;
}

static void *run(void *argument)
{
  jvgpu_pulse_t *pulse = argument;
  session_t      session = {.stream = NULL};
  bool           answers = prepare(pulse, &session);
  for (uint32_t answered = 0; answers;) {
    const uint32_t asked = __atomic_load_n(&pulse->asked, __ATOMIC_ACQUIRE);
    if (asked == answered) {
      syscall(SYS_futex, &pulse->asked, FUTEX_WAIT_PRIVATE, asked, NULL, NULL, 0);
      continue;
    }
    answers = hold_session(pulse, &session);
    answered = asked;
    if (answers) {
      // Release: whoever sees the number sees the answer.
      __atomic_store_n(&pulse->answered, answered, __ATOMIC_RELEASE);
    }
  }
  __atomic_store_n(&pulse->is_gone, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void start_thread(jvgpu_pulse_t *pulse, CUcontext ctx)
{
  // By look-up: these names became younger than our floor when glibc 2.34 moved them.
  const jvgpu_dl_t *dl = jvgpu_dl();
  create_thread_t   create = dl->sym == NULL ? NULL : (create_thread_t)dl->sym(RTLD_DEFAULT, "pthread_create");
  detach_thread_t   detach = dl->sym == NULL ? NULL : (detach_thread_t)dl->sym(RTLD_DEFAULT, "pthread_detach");
  unsigned long     thread;
  pulse->started = 1;
  pulse->ctx = ctx;
  if (create != NULL && detach != NULL && create(&thread, NULL, run, pulse) == 0) {
    detach(thread);
  } else {
    pulse->is_gone = 1;
  }
}

uint32_t jvgpu_pulse_watch(jvgpu_pulse_t *pulse, CUcontext ctx, CUevent begun, CUevent ended)
{
  if (pulse->started == 0) {
    start_thread(pulse, ctx);
  }
  if (__atomic_load_n(&pulse->is_gone, __ATOMIC_ACQUIRE) != 0 ||
      __atomic_load_n(&pulse->answered, __ATOMIC_ACQUIRE) != pulse->asked) {
    return 0;
  }
  pulse->begun = begun;
  pulse->ended = ended;
  // A number is never 0, nor the one before.
  const uint32_t watch = pulse->asked == UINT32_MAX ? 1 : pulse->asked + 1;
  // Release: whoever sees the number sees the events.
  __atomic_store_n(&pulse->asked, watch, __ATOMIC_RELEASE);
  syscall(SYS_futex, &pulse->asked, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  return watch;
}

void jvgpu_pulse_close(jvgpu_pulse_t *pulse, uint32_t watch)
{
  if (watch != 0 && watch == pulse->asked) {
    // Release: whoever sees it closed sees the event recorded.
    __atomic_store_n(&pulse->closed, watch, __ATOMIC_RELEASE);
  }
}

jvgpu_watched_t jvgpu_pulse_answer(const jvgpu_pulse_t *pulse, uint32_t watch, double *lost_ns)
{
  *lost_ns = 0;
  if (watch == 0 || watch != pulse->asked || __atomic_load_n(&pulse->is_gone, __ATOMIC_ACQUIRE) != 0) {
    return JVGPU_WATCHED_NOT;
  }
  if (__atomic_load_n(&pulse->answered, __ATOMIC_ACQUIRE) != watch) {
    return JVGPU_WATCHED_NOT_YET;
  }
  // Of what was not seen whole nothing is taken off.
  *lost_ns = pulse->has_seen ? pulse->lost_ns : 0;
  return pulse->has_seen ? JVGPU_WATCHED_WHOLE : JVGPU_WATCHED_NOT;
}
