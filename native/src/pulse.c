#define _GNU_SOURCE
#include "pulse.h"

#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "loader.h"
#include "real.h"

// One session: some ten turns of two tenants.
#define PULSES 400
#define PULSE_NS 200000
#define AGAIN_NS UINT64_C(400000000)
// An older answer is no measurement any more.
#define FRESH_NS UINT64_C(1000000000)

// A stamp this much later than its pulse met a lost turn (measured, H200: 2.3 ms and more).
#define LOST_MS 0.5
// source: measured, H200: two always-busy contexts together get 0.905 of what one alone gets.
#define SWITCHING_LEAVES 0.905

typedef int (*create_thread_t)(unsigned long *, const void *, void *(*)(void *), void *);
typedef int (*detach_thread_t)(unsigned long);

// returns: the part of the span in which this context had the GPU. `stamps_ms` and `made_ms` are when
// each pulse was stamped by the GPU and recorded by the host; both rise; at least two.
// A pulse that is stamped much later after its forerunner than it was recorded after it met a lost
// turn, which began somewhere between the two: half an interval later on average. Where the host
// itself paused, both gaps are wide, and nothing was lost.
static double on_fraction_of(const float *stamps_ms, const double *made_ms, int count)
{
  double lost_ms = 0;
  for (int i = 1; i < count; i++) {
    const double gap_ms = (double)stamps_ms[i] - (double)stamps_ms[i - 1];
    const double host_gap_ms = made_ms[i] - made_ms[i - 1];
    if (gap_ms - host_gap_ms > LOST_MS) {
      lost_ms += gap_ms - host_gap_ms / 2;
    }
  }
  const double span_ms = (double)stamps_ms[count - 1] - (double)stamps_ms[0];
  return span_ms > 0 && lost_ms < span_ms ? 1.0 - lost_ms / span_ms : 1.0;
}

// Note an answer. Neighbours come and go: only small differences are smoothed.
static void answer(jvgpu_pulse_t *pulse, double seen)
{
  const double before = (double)__atomic_load_n(&pulse->fraction_ppm, __ATOMIC_RELAXED) / 1e6;
  const bool   differs = pulse->answered_ns == 0 || seen > before * 1.1 || seen < before * 0.9;
  const double smoothed = differs ? seen : before + (seen - before) / 4;
  __atomic_store_n(&pulse->fraction_ppm, (uint64_t)(smoothed * 1e6), __ATOMIC_RELAXED);
  // Release: whoever sees the time sees the figure.
  __atomic_store_n(&pulse->answered_ns, jvgpu_now_ns(), __ATOMIC_RELEASE);
}

// returns: whether the driver still answers.
static bool hold_session(jvgpu_pulse_t *pulse, CUstream stream, const CUevent *events)
{
  static float          stamps_ms[PULSES];
  static double         made_ms[PULSES];
  const struct timespec pause = {.tv_nsec = PULSE_NS - 60000};
  for (int i = 0; i < PULSES; i++) {
    made_ms[i] = (double)jvgpu_now_ns() / 1e6;
    if (jvgpu_real.cuEventRecord(events[i], stream) != CUDA_SUCCESS) {
      return false;
    }
    nanosleep(&pause, NULL);
  }
  for (CUresult result = CUDA_ERROR_NOT_READY; result == CUDA_ERROR_NOT_READY;) {
    nanosleep(&pause, NULL);
    result = jvgpu_real.cuEventQuery(events[PULSES - 1]);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
      return false;
    }
  }
  for (int i = 0; i < PULSES; i++) {
    if (jvgpu_real.cuEventElapsedTime(&stamps_ms[i], events[0], events[i]) != CUDA_SUCCESS) {
      return false;
    }
  }
  answer(pulse, on_fraction_of(stamps_ms, made_ms, PULSES));
  return true;
}

static void *run(void *argument)
{
  jvgpu_pulse_t *pulse = argument;
  static CUevent events[PULSES];
  CUstream       stream;
  int            mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  if (jvgpu_real.cuCtxSetCurrent(pulse->ctx) != CUDA_SUCCESS ||
      jvgpu_real.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS ||
      jvgpu_real.cuStreamCreate(&stream, 1 /* CU_STREAM_NON_BLOCKING */) != CUDA_SUCCESS) {
    return NULL;
  }
  for (int i = 0; i < PULSES; i++) {
    if (jvgpu_real.cuEventCreate(&events[i], 0) != CUDA_SUCCESS) {
      return NULL;
    }
  }
  for (uint32_t answered = 0;;) {
    const uint32_t asked = __atomic_load_n(&pulse->asked, __ATOMIC_ACQUIRE);
    if (asked == answered) {
      syscall(SYS_futex, &pulse->asked, FUTEX_WAIT_PRIVATE, asked, NULL, NULL, 0);
      continue;
    }
    if (!hold_session(pulse, stream, events)) {
      return NULL;
    }
    answered = asked;
  }
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
  }
}

jvgpu_turns_t jvgpu_pulse_turns(jvgpu_pulse_t *pulse, CUcontext ctx, uint32_t contenders, uint64_t since_ns)
{
  const uint64_t now = jvgpu_now_ns();
  if (pulse->started == 0) {
    start_thread(pulse, ctx);
  }
  if (now - pulse->asked_ns > AGAIN_NS) {
    pulse->asked_ns = now;
    __atomic_fetch_add(&pulse->asked, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &pulse->asked, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  }
  const uint64_t answered_ns = __atomic_load_n(&pulse->answered_ns, __ATOMIC_ACQUIRE);
  if (answered_ns == 0 || (now - answered_ns > FRESH_NS && answered_ns < since_ns)) {
    return (jvgpu_turns_t){.on_fraction = contenders > 1 ? SWITCHING_LEAVES / contenders : 1.0};
  }
  return (jvgpu_turns_t){.on_fraction = (double)__atomic_load_n(&pulse->fraction_ppm, __ATOMIC_RELAXED) / 1e6,
                         .is_measured = true};
}
