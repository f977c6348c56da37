// Moments in shared pages: who wrote one that is yet to come, or that cannot be, is as good as gone.
//
// catches a bug where a governor or an agent with such a last sign of life was believed to live for as long as it took
// to come. The pages are the agent's as this test writes them; of the driver there is nothing.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach.h"
#include "check.h"
#include "clock.h"
#include "loader.h"
#include "pacer.h"
#include "process.h"

#define SECOND_NS UINT64_C(1000000000)
// Who is not let through in that time stands: at the gate of a governor that looks, and at one that is believed for half
// a second longer than one second to come.
#define HELD_NS (SECOND_NS / 5)
#define PATIENCE_NS SECOND_NS

static jvgpu_control_t  control;
static jvgpu_process_t *self;
static uint32_t         launched;

const jvgpu_dl_t *jvgpu_dl(void)
{
  static const jvgpu_dl_t none;
  return &none;
}

// --- the two readers -----------------------------------------------------------------------------------------------

static void *launch_once(void *unused)
{
  static const jvgpu_stream_calls_t calls;
  (void)jvgpu_pacer_admit(self, 0, NULL, &calls);
  __atomic_store_n(&launched, 1, __ATOMIC_RELEASE);
  return unused;
}

// A moment, and how far from it.
typedef struct {
  const char *sentence;
  bool        is_from_now;
  int64_t     later_ns;
} moment_t;

static uint64_t at(const moment_t *moment)
{
  return (moment->is_from_now ? jvgpu_now_ns() : 0) + (uint64_t)moment->later_ns;
}

// returns: whether a closed gate holds a launch back where the governor's last look was then, and still is where
// `is_kept_up`.
static bool is_held_back(const moment_t *moment, bool is_kept_up)
{
  pthread_t      thread;
  const uint64_t begun_ns = jvgpu_now_ns();
  const uint64_t longest_ns = is_kept_up ? HELD_NS : PATIENCE_NS;
  launched = 0;
  __atomic_store_n(&control.governor_ns, at(moment), __ATOMIC_RELAXED);
  __atomic_store_n(&control.devices[0].gate, JVGPU_GATE_CLOSED, __ATOMIC_RELEASE);
  if (pthread_create(&thread, NULL, launch_once, NULL) != 0) {
    abort();
  }
  while (__atomic_load_n(&launched, __ATOMIC_ACQUIRE) == 0 && jvgpu_now_ns() - begun_ns < longest_ns) {
    if (is_kept_up) {
      __atomic_store_n(&control.governor_ns, at(moment), __ATOMIC_RELAXED);
    }
    usleep(1000);
  }
  const bool is_held = __atomic_load_n(&launched, __ATOMIC_ACQUIRE) == 0;
  __atomic_store_n(&control.devices[0].gate, JVGPU_GATE_OPEN, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  return is_held;
}

// returns: whether another agent is looked for where this one's last sign of life was then.
static bool is_another_sought(const moment_t *moment)
{
  __atomic_store_n(&control.heartbeat_ns, at(moment), __ATOMIC_RELAXED);
  self->retry_ns = 0;
  jvgpu_attach_renew(self);
  return self->retry_ns != 0;
}

// --- what they make of it ------------------------------------------------------------------------------------------

static void check(bool holds, const char *what, const moment_t *moment)
{
  char sentence[128];
  snprintf(sentence, sizeof sentence, "%s %s", what, moment->sentence);
  CHECK(sentence, holds);
}

static void a_moment_just_gone_by_is_a_sign_of_life(void)
{
  static const moment_t moments[] = {
      {"now", true, 0},
      {"a tenth of a second ago", true, -(int64_t)SECOND_NS / 10},
  };
  for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
    check(is_held_back(&moments[i], true), "a governor holds launches back that looked", &moments[i]);
    check(!is_another_sought(&moments[i]), "no agent is sought beside one that lived", &moments[i]);
  }
}

static void no_other_is(void)
{
  static const moment_t moments[] = {
      {"a second from now", true, (int64_t)SECOND_NS},
      {"an hour from now", true, INT64_C(3600) * (int64_t)SECOND_NS},
      {"at the last moment with a sign", false, INT64_MAX},
      {"at the last moment", false, -1},
      {"half a second before the last", false, -(int64_t)SECOND_NS / 2},
      {"at the first that is negative", false, INT64_MIN},
      {"never", false, 0},
      {"when the machine was started", false, 1},
  };
  for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
    check(!is_held_back(&moments[i], false), "no governor holds launches back that looked", &moments[i]);
    check(is_another_sought(&moments[i]), "an agent is sought beside one that lived", &moments[i]);
  }
}

int main(void)
{
  alarm(300);
  jvgpu_usage_t *usage = calloc(1, sizeof *usage);
  self = jvgpu_process();
  if (usage == NULL || self == NULL) {
    return 1;
  }
  control = (jvgpu_control_t){.slot_count = 1, .device_count = 1, .devices = {{.ceiling_ppm = 1000000}}};
  self->control = &control;
  self->usage = usage;
  self->slot = &usage->slots[0];
  self->state = JVGPU_ATTACHED;
  a_moment_just_gone_by_is_a_sign_of_life();
  no_other_is();
  free(usage);
  RESULT();
}
