#include "parts.h"

// So much better than interleaving windows have to be; beside short work they may be a little worse: it waits for one
// turn in them, and else for one of each of the others.
#define GAIN 1.01
#define SHORT_WORK_GAIN 0.94
// Windows that are so full need no comparison any more: interleaving was never seen to give as much. So those that
// always want the GPU are not asked to interleave now and then, and have windows at once when they come back.
// source: measured, H200: always-busy tenants get 90 % while they interleave.
#define FULL 0.97
// A window with this much of others' work in it says nothing about its holder.
#define MOST_BESIDE 0.05
// What interleaving gives is measured anew after so long, twice as long each time (who has just begun may show little of
// what it does later), for so long.
#define MIXED_FIRST_NS (1000 * MS)
#define MIXED_FOR_NS (100 * MS)
#define MIXED_SETTLED_NS (50 * MS)
// More than all of the time is charged too much: durations are seen wrong while tenants interleave, not in windows. Then
// what the driver's turns usually leave is believed.
// source: measured, H200 (FULL).
#define IMPOSSIBLE 1.05
#define MIXED_USUAL 0.9
// So long what all do with windows is summed up.
#define WINDOWS_FOR_NS (500 * MS)
// Who has windows keeps them until they are so much worse than they have to be: who loses them for one bad window
// spoils those of the others, beside which it then works.
#define STAYS 0.96
// Windows that are so much worse than they have to be are no matter of chance.
#define FAR 0.92
#define MOST_PATIENCE_NS (16000 * MS)

// returns: how full windows have to be.
static double least_total(const jvgpu_governor_t *governor)
{
  return governor->mixed_total * (governor->has_short_work ? SHORT_WORK_GAIN : GAIN);
}

// Short work waits for several turns while all interleave: not every few seconds.
static uint64_t mixed_every(const jvgpu_governor_t *governor)
{
  return governor->has_short_work ? MIXED_EVERY_NS : governor->mixed_every_ns;
}

// The GPU does more in its windows than while all interleave, as was measured.
bool jvgpu_trials_is_heavy(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner)
{
  const double least = least_total(governor) * (runner->was_heavy ? STAYS : 1.0);
  return may_have_windows(runner) && runner->tried_ns != 0 &&
         (governor->are_full || (governor->mixed_ns != 0 && runner->window_total > least));
}

// What disturbs a window, a host that was kept from launching, makes it look emptier, never fuller: more is
// believed at once, less only when it is seen again and again.
static void learn(double *figure, double seen)
{
  smooth(figure, seen, seen > *figure ? 1.0 : 0.25);
}

// What the last window showed, now that it has drained: how much of it the holder filled, and what was done in it,
// the hand-over included. Before that nobody can say: of a launch under way it is not known how much is done. What is
// still left of it is done at the next one's cost, as was what it found. The holder does not lack what draining took
// beyond the work itself.
void jvgpu_trials_learn_fill(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint64_t now_ns)
{
  if (governor->last < 0) {
    return;
  }
  jvgpu_runner_t *holder = &runners[governor->last];
  const double    length_ns = (double)(now_ns - governor->window_ns);
  const double    beside_ns = (double)governor->beside_ns;
  governor->last = -1;
  // Who went away in the midst of it may just have ended; a trial tells who pauses that often.
  const bool says_nothing = governor->was_given_up || beside_ns > length_ns * MOST_BESIDE;
  if (length_ns < MS || (says_nothing && governor->kind != JVGPU_WINDOW_TRIAL)) {
    return;
  }
  const double drain_ns = (double)(now_ns - governor->over_ns);
  const double last_ns = (double)governor->over_flight_ns;
  const double late_ns = drain_ns > last_ns ? drain_ns - last_ns : 0.0;
  const double given_ns = (double)governor->window_given_ns;
  const double own_ns = given_ns < length_ns ? given_ns : length_ns;
  const double fill = own_ns / (length_ns - late_ns);
  learn(&holder->fill, fill < 1.0 ? fill : 1.0);
  learn(&holder->window_total, (own_ns + beside_ns) / length_ns);
  holder->tried_ns = now_ns;
  const bool     is_far = !governor->is_trial_vague && holder->window_total < least_total(governor) * FAR;
  const uint64_t longer_ns = holder->patience_ns * (is_far ? 4 : 2);
  holder->was_heavy = jvgpu_trials_is_heavy(governor, holder);
  holder->patience_ns = holder->was_heavy ? PATIENCE_NS : longer_ns < MOST_PATIENCE_NS ? longer_ns : MOST_PATIENCE_NS;
}

// While nobody holds a window and two or more could use one: what does the GPU do? Summed up over some time,
// once what is under way has settled: then as much is charged as is done.
void jvgpu_trials_note_mixed(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  uint64_t used_ns = 0;
  uint32_t pressed = 0;
  bool     is_capped = false;
  bool     is_new = governor->mixed_ns == 0;
  for (uint32_t i = 0; i < count; i++) {
    used_ns += runners[i].used_ns;
    is_new = is_new || (may_have_windows(&runners[i]) && runners[i].tried_ns == 0);
    pressed += may_have_windows(&runners[i]);
    is_capped = is_capped || (may_have_windows(&runners[i]) && runners[i].is_capped);
  }
  // With somebody held back by a ceiling the GPU does less than it could.
  if (pressed < 2 || is_capped) {
    governor->mixed_since_ns = 0;
    return;
  }
  if (governor->mixed_since_ns == 0) {
    governor->mixed_since_ns = now_ns;
  }
  if (now_ns - governor->mixed_since_ns < MIXED_SETTLED_NS) {
    governor->mixed_from_ns = now_ns;
    governor->mixed_used_ns = 0;
    return;
  }
  governor->mixed_used_ns += used_ns;
  const uint64_t length_ns = now_ns - governor->mixed_from_ns;
  if (length_ns < MIXED_FOR_NS) {
    return;
  }
  const double   charged = (double)governor->mixed_used_ns / (double)length_ns;
  const double   seen = charged < IMPOSSIBLE ? charged : MIXED_USUAL;
  const bool     is_old = governor->mixed_ns == 0 || now_ns - governor->mixed_ns > mixed_every(governor);
  const uint64_t longer_ns = is_new ? MIXED_FIRST_NS : governor->mixed_every_ns * (is_old ? 2 : 1);
  governor->mixed_every_ns = longer_ns < MIXED_EVERY_NS ? longer_ns : MIXED_EVERY_NS;
  // A window tells of its holder alone, others fill its gaps. What they were chosen by stays as long as all together did
  // more with them.
  if (!is_old || governor->windows_total < seen * GAIN) {
    smooth(&governor->mixed_total, seen < 1.0 ? seen : 1.0, is_old ? 1.0 : 0.5);
    governor->windows_total = 0;
  }
  governor->mixed_ns = now_ns;
  governor->mixed_from_ns = now_ns;
  governor->mixed_used_ns = 0;
}

void jvgpu_trials_note_windows(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                               uint64_t now_ns)
{
  if (governor->holder < 0 && governor->next < 0) {
    governor->windows_from_ns = 0;
    return;
  }
  if (governor->windows_from_ns == 0) {
    governor->windows_from_ns = now_ns;
    governor->windows_used_ns = 0;
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    governor->windows_used_ns += runners[i].used_ns;
  }
  const uint64_t length_ns = now_ns - governor->windows_from_ns;
  if (length_ns >= WINDOWS_FOR_NS) {
    governor->windows_total = (double)governor->windows_used_ns / (double)length_ns;
    governor->windows_from_ns = 0;
  }
}

// Whether all for whom windows are, or just were, fill theirs; a ceiling leaves gaps that others fill.
bool jvgpu_trials_are_full(const jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    const bool            is_full = runner->tried_ns != 0 && runner->window_total >= FULL;
    const bool            counts = runner->tried_ns == 0 ? may_have_windows(runner) : is_active(runner, now_ns);
    if (counts && (!is_full || runner->ceiling_ppm < 1000000)) {
      return false;
    }
  }
  return true;
}

// Before anything is compared it has to be known what interleaving gives.
bool jvgpu_trials_are_comparable(const jvgpu_governor_t *governor, uint64_t now_ns)
{
  return governor->are_full || (governor->mixed_ns != 0 && now_ns - governor->mixed_ns < mixed_every(governor));
}
