// Measure: a short window for who does not know what its launches take.
//
// Among dozens of streams no event tells what one launch takes, and what a program is charged by goes by guesses, which
// can be wrong by factors, both ways: who is charged a hundredth is the neediest for ever. While it has the device for
// itself the clock tells it (own.h in native/src). So it asks (`is_guess`), and gets a window whatever else is going on, in
// which everybody else is shut out and has nothing under way. It takes what others would have had meanwhile, and who is
// charged rightly from then on gives that back by its share; who always asks gets one in sixteen seconds.

#include "parts.h"

#define LEAST_PATIENCE_NS (50 * MS)
#define MOST_PATIENCE_NS (16000 * MS)
// Who has not launched for so long is at something else.
#define AT_IT_NS (5 * MS)

static bool is_at_it(const jvgpu_runner_t *runner, uint64_t now_ns)
{
  return runner->active_ns != 0 && now_ns - runner->active_ns < AT_IT_NS;
}

static bool may_be_measured(const jvgpu_runner_t *runner, uint64_t now_ns)
{
  return runner->is_guess && runner->is_known && !runner->is_gang && !runner->is_capped && !runner->is_stuck &&
         runner->processes <= 1 && is_at_it(runner, now_ns) &&
         (runner->measured_ns == 0 || now_ns - runner->measured_ns > runner->measure_patience_ns);
}

int jvgpu_measure_next(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  int      found = -1;
  uint32_t active = 0;
  for (uint32_t i = 0; i < count; i++) {
    const bool is_there = is_active(&runners[i], now_ns);
    active += is_there;
    if (governor->is_trial_vague || (is_there && (runners[i].is_gang || runners[i].is_not_waited_for))) {
      return -1;  // it works beside every window
    }
    found = found < 0 && may_be_measured(&runners[i], now_ns) ? (int)i : found;
  }
  return active >= 2 ? found : -1;
}

void jvgpu_measure_note(jvgpu_runner_t *runner, uint64_t now_ns)
{
  const uint64_t longer_ns = 2 * runner->measure_patience_ns;
  runner->measured_ns = now_ns;
  runner->measure_patience_ns = longer_ns < LEAST_PATIENCE_NS  ? LEAST_PATIENCE_NS
                                : longer_ns < MOST_PATIENCE_NS ? longer_ns
                                                               : MOST_PATIENCE_NS;
}
