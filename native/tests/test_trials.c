// What interleaving gives and what windows give, as the governor measures both by turns.

#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "parts.h"

#define LOOK_NS (10 * MS)
#define TENANTS 2u

static jvgpu_governor_t governor;
static jvgpu_runner_t   runners[TENANTS];
static uint64_t         now_ns;

static void start(void)
{
  governor = (jvgpu_governor_t){.holder = -1, .next = -1, .last = -1};
  now_ns = 1000 * MS;
  for (uint32_t i = 0; i < TENANTS; i++) {
    // Both have had their trial.
    runners[i] = (jvgpu_runner_t){.wants = true, .pressed = 1.0, .tried_ns = now_ns};
  }
}

// All together use `part` of the GPU for `length_ns`, with windows or without.
static void go_on(double part, uint64_t length_ns, bool has_windows)
{
  governor.holder = has_windows ? 0 : -1;
  governor.mixed_since_ns = has_windows ? 0 : governor.mixed_since_ns;
  for (uint64_t end_ns = now_ns + length_ns; now_ns < end_ns;) {
    now_ns += LOOK_NS;
    for (uint32_t i = 0; i < TENANTS; i++) {
      runners[i].used_ns = (uint64_t)(part * (double)LOOK_NS / TENANTS);
    }
    jvgpu_trials_note_windows(&governor, runners, TENANTS, now_ns);
    if (!has_windows) {
      jvgpu_trials_note_mixed(&governor, runners, TENANTS, now_ns);
    }
  }
}

// returns: seconds with windows until interleaving has to be measured again.
static double seconds_until_next(double windows)
{
  const uint64_t from_ns = now_ns;
  while (jvgpu_trials_are_comparable(&governor, now_ns)) {
    go_on(windows, LOOK_NS, true);
  }
  return (double)(now_ns - from_ns) / 1e9;
}

static bool is_near(double figure, double expected, double most_off)
{
  return figure > expected - most_off && figure < expected + most_off;
}

// Catches a bug where a program that had just begun made interleaving look poor, and that was believed for half a minute.
static void looks_again(void)
{
  start();
  go_on(0.5, 200 * MS, false);
  CHECK("what interleaving gives is measured", is_near(governor.mixed_total, 0.5, 0.01));
  CHECK("the first figure counts for a second", is_near(seconds_until_next(0.8), 1.0, 0.1));
  go_on(0.87, 200 * MS, false);
  CHECK("the next one takes its place where windows gave less", is_near(governor.mixed_total, 0.87, 0.01));
  CHECK("and counts for two", is_near(seconds_until_next(0.8), 2.0, 0.1));
  for (int i = 0; i < 5; i++) {
    go_on(0.87, 200 * MS, false);
    seconds_until_next(0.8);
  }
  go_on(0.87, 200 * MS, false);
  CHECK("at last each counts for half a minute", is_near(seconds_until_next(0.8), 30.0, 0.5));
  runners[1].tried_ns = 0;
  go_on(0.6, 200 * MS, false);
  runners[1].tried_ns = now_ns;
  CHECK("and for a second again when somebody new has come", is_near(seconds_until_next(0.8), 1.0, 0.1));
}

static void windows_stay(void)
{
  start();
  go_on(0.5, 200 * MS, false);
  seconds_until_next(0.92);
  go_on(0.8, 200 * MS, false);
  CHECK("windows that gave more together than interleaving stay", is_near(governor.mixed_total, 0.5, 0.01));
  seconds_until_next(0.7);
  go_on(0.8, 200 * MS, false);
  CHECK("until they give less", is_near(governor.mixed_total, 0.8, 0.01));
}

static void more_than_all_is_no_measure(void)
{
  start();
  go_on(1.6, 200 * MS, false);
  CHECK("what would be more than all of the time is taken for what the driver's turns leave",
        is_near(governor.mixed_total, 0.9, 0.01));
}

// Catches a bug where one in a hundred of a cell's launches took as long as without windows: interleaving was measured
// after 1, 2, 4 and 8 s.
static void short_work_is_spared(void)
{
  start();
  governor.has_short_work = true;
  go_on(0.5, 200 * MS, false);
  CHECK("beside short work what interleaving gives is measured twice a minute", seconds_until_next(0.8) > 29.0);
}

int main(void)
{
  looks_again();
  windows_stay();
  more_than_all_is_no_measure();
  short_work_is_spared();
  RESULT();
}
