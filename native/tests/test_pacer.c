// A thread that stands at a gate, at the bound or over a ceiling, and is cancelled there, or has other pages meanwhile.
//
// The pages are the agent's as this test writes them; of the driver there are a context and events that never pass.

#define _GNU_SOURCE
#include "pacer.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "loader.h"
#include "process.h"
#include "real.h"

#define ROUNDS 20
#define BEAT_US 20000u
#define UNDER_WAY_NS UINT64_C(1000000)

static jvgpu_control_t  control;
static jvgpu_control_t  next;  // of an agent that comes after
static jvgpu_usage_t   *usage;
static jvgpu_process_t *self;
static pthread_mutex_t  beat_lock = PTHREAD_MUTEX_INITIALIZER;
static bool             is_governor_lost;  // under that lock
static bool             is_over;

// --- a driver that never ends what is launched, in whose calls a thread can be cancelled ---------------------------

static CUresult current(CUcontext *ctx)
{
  *ctx = (CUcontext)usage;
  return CUDA_SUCCESS;
}

static CUresult create(CUevent *event, unsigned int flags)
{
  (void)flags;
  *event = (CUevent)usage;
  return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
  (void)event;
  (void)stream;
  return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
  (void)event;
  pthread_testcancel();
  return CUDA_ERROR_NOT_READY;
}

static const jvgpu_stream_calls_t calls = {.record = record};

const jvgpu_dl_t *jvgpu_dl(void)
{
  static const jvgpu_dl_t none;
  return &none;
}

// --- signs of life ---------------------------------------------------------------------------------------------------

static void beat(jvgpu_control_t *page)
{
  const uint64_t now_ns = jvgpu_now_ns();
  __atomic_store_n(&page->heartbeat_ns, now_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&page->governor_ns, is_governor_lost ? 0 : now_ns, __ATOMIC_RELAXED);
}

static void *beat_until_over(void *unused)
{
  while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
    pthread_mutex_lock(&beat_lock);
    beat(&control);
    beat(&next);
    pthread_mutex_unlock(&beat_lock);
    usleep(BEAT_US);
  }
  return unused;
}

static void lose_governor(bool is_lost)
{
  pthread_mutex_lock(&beat_lock);
  is_governor_lost = is_lost;
  beat(&control);
  pthread_mutex_unlock(&beat_lock);
}

// --- ways to stand, and to let go ----------------------------------------------------------------------------------

static void let_go(void)
{
  lose_governor(false);
  __atomic_store_n(&control.devices[0].flight_bound_ns, 10 * UNDER_WAY_NS, __ATOMIC_RELAXED);
  __atomic_store_n(&control.devices[0].ceiling_ppm, 1000000, __ATOMIC_RELAXED);
  __atomic_store_n(&control.devices[0].gate, JVGPU_GATE_OPEN, __ATOMIC_RELEASE);
}

static void launch_one(void)
{
  jvgpu_pacer_t *pacer = jvgpu_pacer_admit(self, 0, NULL, &calls);
  if (pacer == NULL) {
    abort();
  }
  jvgpu_pacer_launched(pacer, NULL, &calls, UNDER_WAY_NS);
}

static void at_a_gate(void)
{
  __atomic_store_n(&control.devices[0].gate, JVGPU_GATE_CLOSED, __ATOMIC_RELEASE);
}

static void at_a_gate_with_work_under_way(void)
{
  launch_one();
  at_a_gate();
}

static void at_the_bound(void)
{
  launch_one();
  __atomic_store_n(&control.devices[0].flight_bound_ns, UNDER_WAY_NS / 2, __ATOMIC_RELAXED);
}

static void over_a_ceiling_without_a_governor(void)
{
  __atomic_store_n(&control.devices[0].ceiling_ppm, 1, __ATOMIC_RELAXED);
  lose_governor(true);
}

// --- who stands ----------------------------------------------------------------------------------------------------

static uint32_t blocked(void)
{
  return __atomic_load_n(&self->slot->devices[0].blocked, __ATOMIC_RELAXED);
}

// Uses the GPU all the time: over any ceiling.
static void *launch_until_cancelled(void *unused)
{
  for (;;) {
    jvgpu_pacer_admit(self, 0, NULL, &calls);
    __atomic_fetch_add(&self->slot->devices[0].busy_ns, UNDER_WAY_NS, __ATOMIC_RELAXED);
    pthread_testcancel();
  }
  return unused;
}

// returns: in how many rounds somebody still counts as standing after the thread's end.
static uint32_t left_standing(void (*stand)(void))
{
  uint32_t left = 0;
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t thread;
    let_go();
    jvgpu_pacer_drained(self, NULL, true);
    stand();
    if (pthread_create(&thread, NULL, launch_until_cancelled, NULL) != 0) {
      abort();
    }
    while (blocked() == 0) {
      sched_yield();
    }
    pthread_cancel(thread);
    let_go();
    pthread_join(thread, NULL);
    left += blocked() != 0;
    __atomic_store_n(&self->slot->devices[0].blocked, 0, __ATOMIC_RELAXED);
  }
  return left;
}

static void who_is_cancelled_stands_no_longer(void)
{
  CHECK("at a gate", left_standing(at_a_gate) == 0);
  CHECK("at a gate, with work under way", left_standing(at_a_gate_with_work_under_way) == 0);
  CHECK("at the bound", left_standing(at_the_bound) == 0);
  CHECK("over a ceiling that nobody governs", left_standing(over_a_ceiling_without_a_governor) == 0);
}

// --- other pages ---------------------------------------------------------------------------------------------------

static void *launch_once(void *has_launched)
{
  jvgpu_pacer_admit(self, 0, NULL, &calls);
  __atomic_store_n((uint32_t *)has_launched, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void who_stands_is_seen_to_by_the_next_agent(void)
{
  const jvgpu_slot_t *old = self->slot;
  uint32_t            has_launched = 0;
  pthread_t           thread;
  let_go();
  at_a_gate();
  next.devices[0] = control.devices[0];
  if (pthread_create(&thread, NULL, launch_once, &has_launched) != 0) {
    abort();
  }
  while (blocked() == 0) {
    sched_yield();
  }
  __atomic_store_n(&self->control, &next, __ATOMIC_RELAXED);
  __atomic_store_n(&self->slot, &usage->slots[1], __ATOMIC_SEQ_CST);
  while (blocked() == 0 && __atomic_load_n(&has_launched, __ATOMIC_ACQUIRE) == 0) {
    sched_yield();
  }
  CHECK("it stands in the new pages, at their gate", blocked() == 1);
  while (__atomic_load_n(&old->devices[0].blocked, __ATOMIC_RELAXED) != 0) {
    sched_yield();
  }
  __atomic_store_n(&next.devices[0].gate, JVGPU_GATE_OPEN, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  CHECK("and no longer once that is open", blocked() == 0);
}

// --- room that no fence will tell of -------------------------------------------------------------------------------

static bool passes_within(uint64_t most_ns)
{
  uint32_t       has_launched = 0;
  const uint64_t begun_ns = jvgpu_now_ns();
  pthread_t      thread;
  if (pthread_create(&thread, NULL, launch_once, &has_launched) != 0) {
    abort();
  }
  while (__atomic_load_n(&has_launched, __ATOMIC_ACQUIRE) == 0 && jvgpu_now_ns() - begun_ns < most_ns) {
    usleep(1000);
  }
  const bool has_passed = __atomic_load_n(&has_launched, __ATOMIC_ACQUIRE) != 0;
  let_go();
  jvgpu_pacer_drained(self, NULL, true);
  pthread_join(thread, NULL);
  return has_passed;
}

static void launch_a_little_on(uintptr_t streams)
{
  for (uintptr_t stream = 1; stream <= streams; stream++) {
    jvgpu_pacer_t *pacer = jvgpu_pacer_admit(self, 0, (CUstream)(stream << 4), &calls);
    jvgpu_pacer_launched(pacer, (CUstream)(stream << 4), &calls, UNDER_WAY_NS / 100);
  }
}

static void nobody_waits_for_long_for_what_nobody_will_tell(void)
{
  let_go();
  launch_a_little_on(20);
  __atomic_store_n(&control.devices[0].flight_bound_ns, UNDER_WAY_NS / 10, __ATOMIC_RELAXED);
  CHECK("what no fence follows is taken for over after a while", passes_within(UINT64_C(5000000000)));
  launch_a_little_on(20);
  at_the_bound();
  CHECK("not while a fence says that something is under way", !passes_within(UINT64_C(300000000)));
  launch_a_little_on(20);
  __atomic_store_n(&control.devices[0].flight_bound_ns, UNDER_WAY_NS / 10, __ATOMIC_RELAXED);
  at_a_gate();
  CHECK("nor at a gate", !passes_within(UINT64_C(300000000)));
}

int main(void)
{
  // Who is cancelled with a lock held leaves it held.
  alarm(120);
  usage = calloc(2, sizeof *usage);
  self = jvgpu_process();
  if (usage == NULL || self == NULL) {
    return 1;
  }
  jvgpu_real.cuCtxGetCurrent = current;
  jvgpu_real.cuEventCreate = create;
  jvgpu_real.cuEventQuery = query;
  next = control = (jvgpu_control_t){.slot_count = 1, .device_count = 1};
  self->control = &control;
  self->usage = usage;
  self->slot = &usage->slots[0];
  self->state = JVGPU_ATTACHED;
  pthread_t heart;
  if (pthread_create(&heart, NULL, beat_until_over, NULL) != 0) {
    return 1;
  }
  nobody_waits_for_long_for_what_nobody_will_tell();
  who_is_cancelled_stands_no_longer();
  who_stands_is_seen_to_by_the_next_agent();
  __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
  pthread_join(heart, NULL);
  RESULT();
}
