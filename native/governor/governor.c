#include "governor.h"

#include <stddef.h>

#define MS UINT64_C(1000000)

// Nobody is further ahead of the neediest than this for each contender. source: governor_model.py, 2..8 ms.
#define LAG_NS (4.0 * MS)
// What may be under way: enough that the GPU does not run dry, little enough that a closed gate bites.
#define MIXED_BOUND_NS (3 * MS)
#define WINDOW_BOUND_NS (2 * MS)
// source: measured, H200: windows of 10 ms leave 99.2 % of what one tenant alone gets, 20 ms 99.6 %.
#define QUANTUM_NS (10 * MS)
// The next may start while this much of the last is left: its first launches take about as long to come.
#define OVERLAP_NS (MS / 4)
// What is under way at a hand-over should be over after itself twice and this.
#define DRAIN_NS (2 * MS)
// A holder with nothing to do for so long has given its window up.
#define YIELD_NS (MS / 2)

// An open gate and no progress for so long.
#define STUCK_NS (100 * MS)
// Who has wanted nothing for so long is no contender.
#define ACTIVE_NS (1000 * MS)
// Over which time "lately" is.
#define PRESSED_NS (50.0 * MS)
#define USE_NS (100.0 * MS)
#define IS_PRESSED 0.9
// So much better than interleaving windows have to be.
#define GAIN 1.01
// What interleaving gives is measured anew after so long, for so long.
#define MIXED_EVERY_NS (8000 * MS)
#define MIXED_FOR_NS (150 * MS)
#define MIXED_SETTLED_NS (50 * MS)
// Between two trials of one runner: twice as long each time that it does not fill its window.
#define PATIENCE_NS (1000 * MS)
#define MOST_PATIENCE_NS (16000 * MS)

// Of a ceiling so much may be saved up; it opens again with this much in hand.
#define SAVED_NS (10.0 * MS)
#define REOPEN_NS (1.0 * MS)

#define LOOK_NS (MS / 2)
#define HANDOVER_LOOK_NS (MS / 10)
#define IDLE_LOOK_NS (5 * MS)

void jvgpu_governor_start(jvgpu_governor_t *governor)
{
  *governor = (jvgpu_governor_t){.holder = -1, .next = -1};
}

// --- taking in what happened --------------------------------------------------------------------------------

// Flight that has not changed for longer than it could take is none: nobody looked when it ended.
static bool is_stale(const jvgpu_runner_t *runner, uint32_t contenders, uint64_t now_ns)
{
  return now_ns - runner->changed_ns > runner->flight_ns * (contenders + 1) + MS;
}

static void smooth(double *figure, double seen, double part)
{
  *figure += (seen - *figure) * (part < 1.0 ? part : 1.0);
}

static void take_in(jvgpu_runner_t *runner, double dt_ns, uint32_t contenders, uint64_t now_ns)
{
  if (!runner->is_known || runner->used_ns != 0 || runner->flight_ns != runner->last_flight_ns) {
    runner->changed_ns = now_ns;
  }
  // Waiting at an open gate, with nothing coming of it: stuck behind itself, or only said to wait. Nobody is
  // held back for its sake.
  if (!runner->is_known || runner->changed_ns == now_ns || !runner->is_open) {
    runner->served_ns = now_ns;
  }
  runner->is_stuck = now_ns - runner->served_ns > STUCK_NS;
  runner->last_flight_ns = runner->flight_ns;
  const bool stands = runner->blocked != 0 || (runner->flight_ns != 0 && !is_stale(runner, contenders, now_ns));
  runner->wants = stands || runner->used_ns != 0;
  if (runner->wants) {
    runner->active_ns = now_ns;
  }
  if (dt_ns > 0) {
    const double used = (double)runner->used_ns < dt_ns ? (double)runner->used_ns / dt_ns : 1.0;
    smooth(&runner->pressed, stands ? 1.0 : used, dt_ns / PRESSED_NS);
    smooth(&runner->use, (double)runner->used_ns / dt_ns, dt_ns / USE_NS);
  }

  const double ceiling = (double)runner->ceiling_ppm / 1e6;
  runner->budget_ns += ceiling * dt_ns - (double)runner->used_ns;
  runner->budget_ns = runner->budget_ns > SAVED_NS ? SAVED_NS : runner->budget_ns;
  runner->is_capped = runner->ceiling_ppm < 1000000 && runner->budget_ns < (runner->is_capped ? REOPEN_NS : 0.0);
}

static bool is_active(const jvgpu_runner_t *runner, uint64_t now_ns)
{
  return runner->is_known && runner->active_ns != 0 && now_ns - runner->active_ns < ACTIVE_NS;
}

// Wants the GPU and may have it, as far as its ceiling goes, and gets somewhere when it may.
static bool is_eligible(const jvgpu_runner_t *runner)
{
  return runner->wants && !runner->is_capped && !runner->is_stuck;
}

static bool is_pressed(const jvgpu_runner_t *runner)
{
  return is_eligible(runner) && runner->pressed > IS_PRESSED;
}

typedef struct crowd_s {
  uint32_t active;
  uint32_t eligible;
  double   behind_ns;  // the neediest one's virtual time, of those that want something
  double   par_ns;     // of those that always do; nobody else's credit reaches far back of it
} crowd_t;

static crowd_t count_crowd(const jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  crowd_t crowd = {.active = 0};
  bool    has_par = false;
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    crowd.active += is_active(runner, now_ns);
    if (!runner->is_known) {
      continue;
    }
    if (is_eligible(runner)) {
      crowd.behind_ns =
          crowd.eligible == 0 || runner->virtual_ns < crowd.behind_ns ? runner->virtual_ns : crowd.behind_ns;
      crowd.eligible += 1;
    }
    if (is_pressed(runner) && (!has_par || runner->virtual_ns < crowd.par_ns)) {
      crowd.par_ns = runner->virtual_ns;
      has_par = true;
    }
  }
  crowd.par_ns = has_par ? crowd.par_ns : crowd.behind_ns;
  return crowd;
}

// --- entitlements --------------------------------------------------------------------------------------------------

// What it would use if it never had to wait. Who always wants something: what it filled of a window, if
// that was measured. Else by its own rhythm: of the time that it did not wait, it had the GPU for this part.
static double want_of(const jvgpu_runner_t *runner)
{
  if (runner->pressed > IS_PRESSED) {
    return runner->tried_ns != 0 ? runner->fill : 1.0;
  }
  const double waits = runner->pressed > runner->use ? runner->pressed - runner->use : 0.0;
  const double want = runner->use / (1.0 - waits);
  return want < 1.0 ? want : 1.0;
}

// Weighted max-min fairness by filling: who wants less than its part leaves the rest to the others.
// source: Bertsekas & Gallager, Data Networks (1992), 6.5.2.
static void entitle(jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  double left = 1.0, weight_ppm = 0;
  for (uint32_t i = 0; i < count; i++) {
    runners[i].entitled = -1.0;
    weight_ppm += is_active(&runners[i], now_ns) ? runners[i].weight_ppm : 0;
  }
  const double all_ppm = weight_ppm;
  for (bool is_settled = false; !is_settled && weight_ppm > 0;) {
    is_settled = true;
    for (uint32_t i = 0; i < count; i++) {
      jvgpu_runner_t *runner = &runners[i];
      const double    want = want_of(runner);
      if (is_active(runner, now_ns) && runner->entitled < 0 && want <= left * runner->weight_ppm / weight_ppm) {
        runner->entitled = want;
        left -= want;
        weight_ppm -= runner->weight_ppm;
        is_settled = weight_ppm <= 0;
        break;
      }
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    jvgpu_runner_t *runner = &runners[i];
    const double    promised = all_ppm > 0 ? runner->weight_ppm / all_ppm : 1.0;
    runner->entitled =
        runner->entitled < 0 && weight_ppm > 0 ? left * runner->weight_ppm / weight_ppm : runner->entitled;
    // Who comes and goes may want all of its share at any time.
    runner->entitled = runner->pressed <= IS_PRESSED && runner->entitled < promised ? promised : runner->entitled;
    runner->entitled = runner->entitled < 0.001 ? 0.001 : runner->entitled;
  }
}

static double lag_of(const crowd_t *crowd)
{
  return LAG_NS * crowd->active;
}

static void age(jvgpu_runner_t *runner, const crowd_t *crowd)
{
  if (!runner->is_known) {
    runner->is_known = true;
    runner->virtual_ns = crowd->par_ns;
    runner->patience_ns = PATIENCE_NS;
    return;
  }
  runner->virtual_ns += (double)runner->used_ns / runner->entitled;
  const double least_ns = crowd->par_ns - lag_of(crowd) / 2;
  if (!is_pressed(runner) && runner->virtual_ns < least_ns) {
    runner->virtual_ns = least_ns;
  }
}

// --- windows ---------------------------------------------------------------------------------------------------

// The GPU does more in its windows than while all interleave, as was measured.
static bool is_heavy(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner)
{
  return is_pressed(runner) && runner->tried_ns != 0 && runner->window_total > governor->mixed_total * GAIN;
}

// Has to keep out of a window of another's. Other work is let in beside a holder: it costs two switches and
// saves its owner the wait; the lag rule sees to it that it is not too much. While a runner is tried,
// whoever would spoil the figure is kept out.
static bool is_kept_out(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner)
{
  return governor->is_trial ? is_pressed(runner) : is_heavy(governor, runner);
}

// returns: of those for whom windows are worth it the one most behind; -1 when there are not two.
static int neediest_heavy(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count)
{
  int      best = -1;
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (is_heavy(governor, &runners[i])) {
      best = best < 0 || runners[i].virtual_ns < runners[best].virtual_ns ? (int)i : best;
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
    pressed += is_pressed(&runners[i]);
  }
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    if (pressed >= 2 && is_pressed(runner) &&
        (runner->tried_ns == 0 || now_ns - runner->tried_ns > runner->patience_ns)) {
      return (int)i;
    }
  }
  return -1;
}

// Close the gates for a window of `index`: it begins when what others have under way is over.
static void prepare_window(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count, int index,
                           bool is_trial, uint64_t now_ns)
{
  uint64_t flight_ns = 0;
  governor->holder = -1;
  governor->next = index;
  governor->is_trial = is_trial;
  for (uint32_t i = 0; i < count; i++) {
    flight_ns += runners[i].flight_ns;
  }
  governor->drain_by_ns = now_ns + 2 * flight_ns + DRAIN_NS;
}

static void begin_window(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint64_t now_ns)
{
  governor->holder = governor->next;
  governor->next = -1;
  governor->window_ns = now_ns;
  governor->window_given_ns = runners[governor->holder].flight_ns;
  governor->beside_ns = 0;
  governor->mixed_since_ns = 0;
  runners[governor->holder].windows += 1;
}

static void drop_window(jvgpu_governor_t *governor)
{
  governor->holder = -1;
  governor->next = -1;
}

// What the window showed: how much of it the holder filled.
static void learn_fill(const jvgpu_governor_t *governor, jvgpu_runner_t *holder, uint64_t now_ns)
{
  const double length_ns = (double)(now_ns - governor->window_ns);
  const double used_ns = (double)governor->window_given_ns - (double)holder->flight_ns;
  if (length_ns < QUANTUM_NS / 2.0) {
    return;  // too short to say
  }
  const double own = used_ns > length_ns ? 1.0 : used_ns < 0 ? 0.0 : used_ns / length_ns;
  const double all = own + (double)governor->beside_ns / length_ns;
  const double part = holder->tried_ns == 0 || governor->is_trial ? 1.0 : 0.25;
  smooth(&holder->fill, own, part);
  smooth(&holder->window_total, all, part);
  holder->tried_ns = now_ns;
  const uint64_t doubled_ns = holder->patience_ns * 2 < MOST_PATIENCE_NS ? holder->patience_ns * 2 : MOST_PATIENCE_NS;
  holder->patience_ns = is_heavy(governor, holder) ? PATIENCE_NS : doubled_ns;
}

// Whether what is left of others' work is so little that the next may begin, or has taken too long.
static bool have_drained(const jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  uint64_t left_ns = 0;
  for (uint32_t i = 0; i < count; i++) {
    left_ns += (int)i != governor->next && is_kept_out(governor, &runners[i]) ? runners[i].flight_ns : 0;
  }
  if (left_ns <= OVERLAP_NS) {
    return true;
  }
  if (now_ns < governor->drain_by_ns) {
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    runners[i].overruns += (int)i != governor->next && runners[i].flight_ns > OVERLAP_NS;
  }
  return true;
}

// By its length, or because its holder has nothing to do, or may not.
static bool is_window_over(const jvgpu_governor_t *governor, const jvgpu_runner_t *holder, uint64_t now_ns)
{
  const bool has_yielded = !holder->wants && now_ns - holder->active_ns > YIELD_NS;
  return now_ns - governor->window_ns >= QUANTUM_NS || has_yielded || holder->is_capped;
}

static void turn_windows(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  if (governor->next >= 0) {
    if (have_drained(governor, runners, count, now_ns)) {
      begin_window(governor, runners, now_ns);
    }
    return;
  }
  if (governor->holder >= 0) {
    jvgpu_runner_t *holder = &runners[governor->holder];
    governor->window_given_ns += holder->used_ns;
    for (uint32_t i = 0; i < count; i++) {
      governor->beside_ns += (int)i != governor->holder ? runners[i].used_ns : 0;
    }
    if (!is_window_over(governor, holder, now_ns)) {
      return;
    }
    learn_fill(governor, holder, now_ns);
  }
  const int last = governor->holder;
  // Before anything is compared it has to be known what interleaving gives.
  const bool is_mixed_known = governor->mixed_ns != 0 && now_ns - governor->mixed_ns < MIXED_EVERY_NS;
  const int  to_try = is_mixed_known ? one_to_try(runners, count, now_ns) : -1;
  const int  heavy = is_mixed_known ? neediest_heavy(governor, runners, count) : -1;
  if (to_try >= 0) {
    prepare_window(governor, runners, count, to_try, true, now_ns);
  } else if (heavy >= 0 && heavy == last) {
    // Still the neediest: it goes on, and nobody else has begun.
    governor->next = heavy;
    governor->is_trial = false;
    begin_window(governor, runners, now_ns);
  } else if (heavy >= 0) {
    prepare_window(governor, runners, count, heavy, false, now_ns);
  } else {
    drop_window(governor);
  }
}

// While nobody holds a window: what does the GPU do?
static void note_mixed(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count, double dt_ns,
                       uint64_t now_ns)
{
  double used_ns = 0;
  for (uint32_t i = 0; i < count; i++) {
    used_ns += (double)runners[i].used_ns;
  }
  if (governor->mixed_since_ns == 0) {
    governor->mixed_since_ns = now_ns;
  }
  const uint64_t since_ns = now_ns - governor->mixed_since_ns;
  if (since_ns < MIXED_SETTLED_NS || dt_ns <= 0) {
    return;
  }
  const bool   is_first = governor->mixed_ns == 0 && since_ns < MIXED_SETTLED_NS + 2 * (uint64_t)dt_ns;
  const double total = used_ns < dt_ns ? used_ns / dt_ns : 1.0;
  smooth(&governor->mixed_total, total, is_first ? 1.0 : dt_ns / USE_NS);
  if (since_ns >= MIXED_FOR_NS) {
    governor->mixed_ns = now_ns;
  }
}

// --- deciding -----------------------------------------------------------------------------------------------------

static bool may_launch(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner, int index, const crowd_t *crowd)
{
  if (runner->is_capped) {
    return false;
  }
  if (governor->holder == index) {
    return true;
  }
  if ((governor->holder >= 0 || governor->next >= 0) && is_kept_out(governor, runner)) {
    return false;
  }
  return crowd->eligible < 2 || runner->virtual_ns - crowd->behind_ns <= lag_of(crowd);
}

uint64_t jvgpu_governor_look(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  const double dt_ns = governor->looked_ns != 0 ? (double)(now_ns - governor->looked_ns) : 0.0;
  governor->looked_ns = now_ns;

  const uint32_t before = count_crowd(runners, count, now_ns).active;
  bool           has_ceiling = false;
  for (uint32_t i = 0; i < count; i++) {
    take_in(&runners[i], dt_ns, before, now_ns);
    has_ceiling = has_ceiling || (runners[i].wants && runners[i].ceiling_ppm < 1000000);
  }
  crowd_t crowd = count_crowd(runners, count, now_ns);
  entitle(runners, count, now_ns);
  for (uint32_t i = 0; i < count; i++) {
    age(&runners[i], &crowd);
  }
  if (governor->holder < 0 && governor->next < 0) {
    note_mixed(governor, runners, count, dt_ns, now_ns);
  }
  crowd = count_crowd(runners, count, now_ns);
  turn_windows(governor, runners, count, now_ns);

  const bool is_shared = crowd.active >= 2;
  for (uint32_t i = 0; i < count; i++) {
    jvgpu_runner_t *runner = &runners[i];
    runner->is_governed = runner->ceiling_ppm < 1000000 || is_shared;
    runner->bound_ns = governor->holder == (int)i ? WINDOW_BOUND_NS : MIXED_BOUND_NS;
    runner->is_open = may_launch(governor, runner, (int)i, &crowd);
    runner->used_ns = 0;
  }
  if (governor->next >= 0) {
    return HANDOVER_LOOK_NS;
  }
  return is_shared || has_ceiling ? LOOK_NS : IDLE_LOOK_NS;
}

uint32_t jvgpu_governor_remove(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint32_t index)
{
  const uint32_t last = count - 1;
  if (governor->holder == (int)index || governor->next == (int)index) {
    drop_window(governor);
  }
  governor->holder = governor->holder == (int)last ? (int)index : governor->holder;
  governor->next = governor->next == (int)last ? (int)index : governor->next;
  runners[index] = runners[last];
  runners[last] = (jvgpu_runner_t){.weight_ppm = 0};
  return last;
}
