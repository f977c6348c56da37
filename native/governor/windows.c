#include <stddef.h>

#include "parts.h"

// Least and greatest length: short while somebody is tried, or short work comes and goes beside.
// source: measured, H200: windows of 10 ms leave 99.2 % of what one tenant alone gets, 20 ms 99.6 %.
#define QUANTUM_NS (10 * MS)
#define LONG_QUANTUM_NS (20 * MS)
// The next may start while this much of the last is left: its first launches take about as long to come. With twice
// as much the driver takes turns with them: it cost 0.22 ms a hand-over (measured, H200).
#define OVERLAP_NS (MS / 4)
// What is under way at a hand-over should be over after itself twice and this.
#define DRAIN_NS (2 * MS)
// And nobody waits longer for it, however long a page says that it takes.
#define MOST_DRAIN_NS (300 * MS)
// Who kept others waiting for longer than that a few times in a row is not waited for this long, and has no windows:
// what its page says is not what it does, or its launches are longer than any window.
#define NOT_WAITED_FOR_NS (10000 * MS)
// A holder with nothing to do for so long has given its window up.
#define YIELD_NS (MS / 2)
// A trial that is mostly empty after so long is over.
#define LEAST_TRIAL_NS (3 * MS)
#define MOST_EMPTY 0.6
// From the beginning of a window somebody looks so often, for so long, whether its holder has the device for itself.
#define CLEAR_LOOK_NS (MS * 2 / 5)
#define CLEAR_BY_NS (2 * MS)
// Between two looks where a window is to begin or to end.
#define HANDOVER_LOOK_NS (MS / 20)

// Has to keep out of a window of another's. Other work is let in beside a holder: it costs two switches and
// saves its owner the wait; the lag rule sees to it that it is not too much. While a runner is tried,
// whoever would spoil the figure is kept out, and while one measures, everybody.
bool jvgpu_windows_keep_out(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner)
{
  return governor->kind == JVGPU_WINDOW_MEASURE ||
         (governor->kind == JVGPU_WINDOW_TRIAL ? may_have_windows(runner) : jvgpu_trials_is_heavy(governor, runner));
}

// returns: of those for whom windows are worth it the one most behind; -1 when there are not two.
static int neediest_heavy(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count)
{
  int      best = -1;
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (jvgpu_trials_is_heavy(governor, &runners[i])) {
      const bool is_next = !runners[i].is_capped && (best < 0 || runners[i].virtual_ns < runners[best].virtual_ns);
      best = is_next ? (int)i : best;
      found += 1;
    }
  }
  return found >= 2 ? best : -1;
}

// A pressed runner of which nobody knows, or knows any more, whether it fills a window.
static int one_to_try(const jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  uint32_t pressed = 0;
  for (uint32_t i = 0; i < count; i++) {
    pressed += may_have_windows(&runners[i]);
  }
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    if (pressed >= 2 && may_have_windows(runner) && !runner->is_capped &&
        (runner->tried_ns == 0 || now_ns - runner->tried_ns > runner->patience_ns)) {
      return (int)i;
    }
  }
  return -1;
}

static void end_window(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, int last, uint64_t now_ns)
{
  // What was done in it was charged by guesses.
  governor->last = governor->kind == JVGPU_WINDOW_MEASURE ? -1 : last;
  governor->over_ns = now_ns;
  governor->over_flight_ns = last >= 0 ? runners[last].flight_ns : 0;
}

// Close the gates for a window of `index`: it begins when what others have under way is over.
static void prepare_window(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count, int index,
                           uint32_t kind, uint64_t now_ns)
{
  uint64_t flight_ns = 0;
  end_window(governor, runners, governor->holder != index ? governor->holder : -1, now_ns);
  governor->holder = -1;
  governor->next = index;
  governor->kind = kind;
  for (uint32_t i = 0; i < count; i++) {
    flight_ns += runners[i].flight_ns;
  }
  const uint64_t drain_ns = 2 * flight_ns + DRAIN_NS;
  governor->drain_by_ns = now_ns + (drain_ns < MOST_DRAIN_NS ? drain_ns : MOST_DRAIN_NS);
  if (kind == JVGPU_WINDOW_MEASURE) {
    // What is under way may be guesses too.
    governor->drain_by_ns = now_ns + MOST_DRAIN_NS / 3;
  }
}

static void begin_window(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint64_t now_ns)
{
  governor->holder = governor->next;
  governor->next = -1;
  governor->quantum_ns = governor->kind != JVGPU_WINDOW_OWN || governor->has_short_work ? QUANTUM_NS : LONG_QUANTUM_NS;
  governor->window_ns = now_ns;
  governor->window_given_ns = runners[governor->holder].flight_ns;
  governor->beside_ns = 0;
  governor->mixed_since_ns = 0;
  runners[governor->holder].windows += 1;
  if (governor->kind == JVGPU_WINDOW_MEASURE) {
    jvgpu_measure_note(&runners[governor->holder], now_ns);
  }
}

void jvgpu_windows_drop(jvgpu_governor_t *governor)
{
  governor->holder = -1;
  governor->next = -1;
  governor->last = -1;
}

// It has to keep out of the next window, which begins when its work is over.
static bool has_to_drain(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t index)
{
  return (int)index != governor->next && jvgpu_windows_keep_out(governor, &runners[index]);
}

// returns: what others, who have to keep out of the next window, still have under way.
static uint64_t left_of_others(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count)
{
  uint64_t left_ns = 0;
  for (uint32_t i = 0; i < count; i++) {
    left_ns += has_to_drain(governor, runners, i) ? runners[i].flight_ns : 0;
  }
  return left_ns;
}

// returns: of that, about how much is done of launches that are not over: nobody sees them half done.
static uint64_t done_of_others(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                               uint64_t now_ns)
{
  uint64_t done_ns = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (has_to_drain(governor, runners, i)) {
      const uint64_t since_ns = now_ns - runners[i].changed_ns;
      done_ns += since_ns < runners[i].flight_ns ? since_ns : runners[i].flight_ns;
    }
  }
  return done_ns;
}

static void note_overrun(const jvgpu_governor_t *governor, jvgpu_runner_t *runner, uint64_t now_ns)
{
  runner->overruns += 1;
  runner->overruns_in_a_row += 1;
  if (runner->overruns_in_a_row >= governor->most_overruns) {
    runner->overruns_in_a_row = 0;
    runner->waited_for_ns = now_ns + NOT_WAITED_FOR_NS;
  }
}

static bool is_other_under_way(const jvgpu_runner_t *runners, uint32_t count, int index)
{
  for (uint32_t i = 0; i < count; i++) {
    if ((int)i != index && runners[i].is_under_way) {
      return true;
    }
  }
  return false;
}

// Whether what is left of others' work is so little that the next may begin, or has taken too long.
static bool have_drained(const jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  const bool is_measure = governor->kind == JVGPU_WINDOW_MEASURE;
  const bool has_drained = is_measure ? !is_other_under_way(runners, count, governor->next)
                                      : left_of_others(governor, runners, count) <= OVERLAP_NS;
  if (!has_drained && now_ns < governor->drain_by_ns) {
    return false;
  }
  if (is_measure) {
    return true;
  }
  for (uint32_t i = 0; i < count; i++) {
    const bool is_other = has_to_drain(governor, runners, i);
    if (is_other && runners[i].flight_ns > OVERLAP_NS) {
      note_overrun(governor, &runners[i], now_ns);
    } else if (is_other) {
      runners[i].overruns_in_a_row = 0;
    }
  }
  return true;
}

// A trial of which the holder has filled little by now says what it was to say: the others stand meanwhile.
static bool is_told(const jvgpu_governor_t *governor, uint64_t now_ns)
{
  const uint64_t length_ns = now_ns - governor->window_ns;
  return governor->kind == JVGPU_WINDOW_TRIAL && !governor->is_trial_vague && length_ns >= LEAST_TRIAL_NS &&
         (double)governor->window_given_ns < (double)length_ns * MOST_EMPTY;
}

// By its length, or because its holder has nothing to do, or may not.
static bool is_window_over(jvgpu_governor_t *governor, const jvgpu_runner_t *holder, uint64_t now_ns)
{
  governor->was_given_up = !holder->wants && now_ns - holder->active_ns > YIELD_NS;
  return now_ns - governor->window_ns >= governor->quantum_ns || governor->was_given_up || holder->is_capped ||
         is_told(governor, now_ns) || (governor->kind == JVGPU_WINDOW_MEASURE && !holder->is_guess);
}

// What is charged in a window, and until it has drained.
static void note_window(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count, int index)
{
  for (uint32_t i = 0; i < count; i++) {
    uint64_t *sum_ns = (int)i == index ? &governor->window_given_ns : &governor->beside_ns;
    *sum_ns += runners[i].used_ns;
    *sum_ns -= runners[i].back_ns < *sum_ns ? runners[i].back_ns : *sum_ns;
  }
}

// Somebody else that wants windows, the neediest: while it waits, the last trial's work drains, and what is learned
// then decides.
static int another(const jvgpu_runner_t *runners, uint32_t count, int last)
{
  int best = -1;
  for (uint32_t i = 0; i < count; i++) {
    const bool may = (int)i != last && may_have_windows(&runners[i]) && !runners[i].is_capped;
    best = may && (best < 0 || runners[i].virtual_ns < runners[best].virtual_ns) ? (int)i : best;
  }
  return best;
}

// A window is over, or there was none.
static void choose(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  const int  last = governor->holder;
  const bool was_trial = last >= 0 && governor->kind == JVGPU_WINDOW_TRIAL;
  const int  to_measure = jvgpu_measure_next(governor, runners, count, now_ns);
  const bool is_known = jvgpu_trials_are_comparable(governor, now_ns);
  const int  to_try = is_known ? one_to_try(runners, count, now_ns) : -1;
  const int  heavy = is_known ? neediest_heavy(governor, runners, count) : -1;
  const int  other = was_trial ? another(runners, count, last) : -1;
  if (to_measure >= 0) {
    prepare_window(governor, runners, count, to_measure, JVGPU_WINDOW_MEASURE, now_ns);
  } else if (to_try >= 0 && to_try != last) {
    prepare_window(governor, runners, count, to_try, JVGPU_WINDOW_TRIAL, now_ns);
  } else if (other >= 0) {
    prepare_window(governor, runners, count, other, JVGPU_WINDOW_TRIAL, now_ns);
  } else if (heavy >= 0 && heavy == last) {
    // Still the neediest: it goes on, and nobody else has begun.
    governor->next = heavy;
    governor->kind = JVGPU_WINDOW_OWN;
    begin_window(governor, runners, now_ns);
  } else if (heavy >= 0) {
    prepare_window(governor, runners, count, heavy, JVGPU_WINDOW_OWN, now_ns);
  } else {
    end_window(governor, runners, last, now_ns);
    jvgpu_trials_learn_fill(governor, runners, now_ns);
    jvgpu_windows_drop(governor);
  }
}

// All that stood in its way has drained: is it still for the one it was meant for?
static void hand_over(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  jvgpu_trials_learn_fill(governor, runners, now_ns);
  if (governor->kind != JVGPU_WINDOW_TRIAL) {
    begin_window(governor, runners, now_ns);
    return;
  }
  const int to_try = one_to_try(runners, count, now_ns);
  const int heavy = neediest_heavy(governor, runners, count);
  if (to_try < 0 && heavy < 0) {
    jvgpu_windows_drop(governor);
    return;
  }
  const int chosen = to_try >= 0 ? to_try : heavy;
  if (chosen != governor->next && runners[governor->next].flight_ns > OVERLAP_NS) {
    prepare_window(governor, runners, count, chosen, to_try >= 0 ? JVGPU_WINDOW_TRIAL : JVGPU_WINDOW_OWN, now_ns);
    return;
  }
  governor->next = chosen;
  governor->kind = to_try >= 0 ? JVGPU_WINDOW_TRIAL : JVGPU_WINDOW_OWN;
  begin_window(governor, runners, now_ns);
}

// Whether somebody comes and goes.
static bool has_short_work(const jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  for (uint32_t i = 0; i < count; i++) {
    if (is_active(&runners[i], now_ns) && !runners[i].is_gang && runners[i].pressed <= IS_PRESSED) {
      return true;
    }
  }
  return false;
}

void jvgpu_windows_turn(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  governor->has_short_work = has_short_work(runners, count, now_ns);
  governor->are_full = jvgpu_trials_are_full(runners, count, now_ns);
  jvgpu_trials_note_windows(governor, runners, count, now_ns);
  if (governor->next >= 0) {
    note_window(governor, runners, count, governor->last);
    if (have_drained(governor, runners, count, now_ns)) {
      hand_over(governor, runners, count, now_ns);
    }
    return;
  }
  if (governor->holder < 0) {
    jvgpu_trials_note_mixed(governor, runners, count, now_ns);
  } else {
    note_window(governor, runners, count, governor->holder);
    if (!is_window_over(governor, &runners[governor->holder], now_ns)) {
      return;
    }
  }
  choose(governor, runners, count, now_ns);
}

// Who may have the device for itself: whose window it is, also while it drains; -1 = nobody. Of gangs one has it beside
// others.
static int owner_of(const jvgpu_governor_t *governor)
{
  return governor->is_trial_vague ? -1 : governor->next >= 0 ? governor->last : governor->holder;
}

// returns: whether everybody but `owner` who was at it lately is shut out.
static bool are_others_shut(const jvgpu_runner_t *runners, uint32_t count, int owner, uint64_t now_ns)
{
  for (uint32_t i = 0; i < count; i++) {
    if ((int)i != owner && is_active(&runners[i], now_ns) && runners[i].is_open) {
      return false;
    }
  }
  return true;
}

// A gate that was closed at this look may just have let a launch through, which shows at the next.
static bool is_clear(const jvgpu_runner_t *runners, uint32_t count, int owner, uint64_t now_ns)
{
  for (uint32_t i = 0; i < count; i++) {
    if ((int)i != owner && (runners[i].is_under_way || (is_active(&runners[i], now_ns) && !runners[i].was_shut))) {
      return false;
    }
  }
  return runners[owner].processes <= 1 && are_others_shut(runners, count, owner, now_ns);
}

void jvgpu_windows_note_clear(const jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count,
                              uint64_t now_ns)
{
  const int owner = owner_of(governor);
  for (uint32_t i = 0; i < count; i++) {
    const bool     is_owner = (int)i == owner && !runners[i].is_gang;
    const uint64_t since_ns = runners[i].clear_ns != 0 ? runners[i].clear_ns : now_ns;
    runners[i].clear_ns = is_owner && is_clear(runners, count, owner, now_ns) ? since_ns : 0;
  }
}

// returns: nanoseconds until somebody should see whether the holder has the device for itself.
static uint64_t until_clear_look(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                                 uint64_t now_ns)
{
  const bool is_looked_for = owner_of(governor) >= 0 && runners[governor->holder].clear_ns == 0 &&
                             now_ns - governor->window_ns < CLEAR_BY_NS &&
                             are_others_shut(runners, count, governor->holder, now_ns);
  return is_looked_for ? CLEAR_LOOK_NS : LONG_QUANTUM_NS;
}

uint64_t jvgpu_windows_pause(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                             uint64_t now_ns)
{
  if (governor->next >= 0) {
    // Half of the way: how long it takes is an estimate, and while nobody works the GPU waits for the look.
    const uint64_t left_ns =
        left_of_others(governor, runners, count) - done_of_others(governor, runners, count, now_ns);
    const uint64_t half_ns = left_ns > OVERLAP_NS ? (left_ns - OVERLAP_NS) / 2 : 0;
    return half_ns > HANDOVER_LOOK_NS ? half_ns : HANDOVER_LOOK_NS;
  }
  // Over by its length, or given up; not as long as the holder still has something under way.
  const jvgpu_runner_t *holder = &runners[governor->holder];
  const uint64_t        end_ns = governor->window_ns + governor->quantum_ns;
  const uint64_t        given_up_ns = (holder->wants ? now_ns + holder->flight_ns : holder->active_ns) + YIELD_NS;
  const uint64_t        told_ns = governor->window_ns + LEAST_TRIAL_NS;
  uint64_t              at_ns = given_up_ns < end_ns ? given_up_ns : end_ns;
  at_ns = governor->kind == JVGPU_WINDOW_TRIAL && told_ns > now_ns && told_ns < at_ns ? told_ns : at_ns;
  const uint64_t clear_ns = until_clear_look(governor, runners, count, now_ns);
  const uint64_t pause_ns = at_ns > now_ns + HANDOVER_LOOK_NS ? at_ns - now_ns : HANDOVER_LOOK_NS;
  return clear_ns < pause_ns ? clear_ns : pause_ns;
}
