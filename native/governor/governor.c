#include <stddef.h>

#include "parts.h"

// In a window less may be under way (parts.h): it is waited for at its end.
#define WINDOW_BOUND_NS (2 * MS)

// Who has wanted nothing for so long is idle, and keeps half a lag of its credit; who only pauses, this much.
#define IDLE_NS (4 * MS)
#define HORIZON_NS (50.0 * MS)
// An open gate and no progress for so long.
#define STUCK_NS (100 * MS)
// Over which time "lately" is; who has never paused for so long is as good as always at it.
#define PRESSED_NS (50.0 * MS)
#define NO_PAUSE_NS (40 * MS)
#define NO_PAUSE 0.95
// Who was worth windows before is as soon again.
#define KNOWN_NO_PAUSE_NS (10 * MS)

// A share of which so much was had is met: the driver itself loses a tenth of the time to switching.
#define MET 0.97
#define SECOND_NS (1000 * MS)

// Who waits for no more of the time than this has all that it can use: nobody has to be held back for it. It may be the
// one most behind all the same, by what its host keeps it from.
// source: measured, H200: four host-bound trainings .00 to .02, a short cell .22 and more. With more than this who is
// promised more than it can use would have less than that (test_governor).
#define MOST_WAITS 0.05

// Where all together could use less of the device than this, all can have it: nobody is held back. Four host-bound
// programs wait for each other's launches for a tenth of the time and want four fifths of it.
#define ENOUGH 1.0

// A turn of the driver's and the way to the next. source: measured, H200: 2.07 ms, and 2.48 from one to its own next but one.
#define TURN_NS (5 * MS / 2)

// Of a ceiling so much may be saved up.
#define SAVED_NS (15.0 * MS)
// So long it is remembered that a launch was longer than that.
#define LONG_FOR_NS (60000 * MS)

// Windows in a row that were not drained in time, after which nobody waits for a runner for a while.
#define MOST_OVERRUNS 3u

// Who paused for so many looks is not taken for gone: a bound that jumps up and down serves nobody.
#define FEWER_LOOKS 64u

void jvgpu_governor_start(jvgpu_governor_t *governor)
{
  *governor = (jvgpu_governor_t){.holder = -1, .next = -1, .last = -1, .most_overruns = MOST_OVERRUNS};
}

// --- taking in what happened --------------------------------------------------------------------------------

// Flight that has not changed for longer than it could take is none: nobody looked when it ended.
// The driver gives each process a turn, whosever it is.
static bool is_stale(const jvgpu_runner_t *runner, uint32_t processes, uint64_t now_ns)
{
  return now_ns - runner->changed_ns > runner->flight_ns * (processes + 1) + MS;
}

// Or how long it could take is a guess: not for as long as turns of all of them last.
static bool is_long_unchanged(const jvgpu_runner_t *runner, uint32_t processes, uint64_t now_ns)
{
  return now_ns - runner->changed_ns > TURN_NS * (processes + 2);
}

// Had it, in each second in which it always wanted something, what it was promised?
static void note_second(jvgpu_runner_t *runner, uint64_t now_ns)
{
  runner->second_used_ns += runner->used_ns;
  runner->second_pressed = runner->second_pressed && is_pressed(runner);
  if (now_ns - runner->second_ns < SECOND_NS) {
    return;
  }
  const double promised_ns = runner->weight_ppm / 1e6 * (double)(now_ns - runner->second_ns);
  // A whole second, not one in which nobody looked.
  const bool is_whole = runner->second_ns != 0 && now_ns - runner->second_ns < 2 * SECOND_NS;
  const bool is_missed = is_whole && runner->second_pressed && (double)runner->second_used_ns < promised_ns * MET;
  runner->violations += is_missed;
  runner->missed = is_missed ? runner->missed + 1 : 0;
  runner->second_ns = now_ns;
  runner->second_used_ns = 0;
  runner->second_pressed = true;
}

static void count_processes(jvgpu_runner_t *runner)
{
  runner->fewer = runner->at_work < runner->processes ? runner->fewer + 1 : 0;
  if (runner->at_work > runner->processes || runner->fewer > FEWER_LOOKS) {
    runner->processes = runner->at_work;
    runner->fewer = 0;
  }
}

// What is saved comes on top of the one launch that a ceiling lets go: of launches that are longer nothing is saved.
static double most_saved(jvgpu_runner_t *runner, double dt_ns, uint64_t now_ns)
{
  if ((double)runner->used_ns > dt_ns + (double)MIXED_BOUND_NS + SAVED_NS) {
    runner->long_ns = now_ns;
  }
  return runner->long_ns != 0 && now_ns - runner->long_ns < LONG_FOR_NS ? REOPEN_NS : SAVED_NS;
}

static void keep_to_ceiling(jvgpu_runner_t *runner, double dt_ns, uint64_t now_ns)
{
  const double ceiling = (double)runner->ceiling_ppm / 1e6;
  const double most_ns = most_saved(runner, dt_ns, now_ns);
  const double saved_ns = runner->budget_ns + ceiling * dt_ns;
  const double kept_ns = saved_ns > most_ns || runner->ceiling_ppm >= 1000000 ? most_ns : saved_ns;
  runner->budget_ns = kept_ns - (double)runner->used_ns + (double)runner->back_ns;
  runner->is_capped = runner->ceiling_ppm < 1000000 && runner->budget_ns < (runner->is_capped ? REOPEN_NS : 0.0);
}

static void take_in(jvgpu_runner_t *runner, double dt_ns, uint32_t processes, uint64_t now_ns)
{
  // One that is put with others is not new for that: what lay about unchanged before is as stale as it was.
  if (runner->changed_ns == 0 || runner->used_ns != 0 || runner->flight_ns != runner->last_flight_ns) {
    runner->changed_ns = now_ns;
  }
  // Waiting at an open gate, with nothing coming of it: stuck behind itself, or only said to wait. Nobody is
  // held back for its sake.
  if (!runner->is_known || runner->changed_ns == now_ns || !runner->is_open) {
    runner->served_ns = now_ns;
  }
  runner->is_stuck = now_ns - runner->served_ns > STUCK_NS;
  runner->is_not_waited_for = now_ns < runner->waited_for_ns;
  runner->last_flight_ns = runner->flight_ns;
  count_processes(runner);
  const bool is_flying = runner->flight_ns != 0 && !is_stale(runner, processes, now_ns);
  const bool stands = runner->blocked != 0 || is_flying;
  runner->is_under_way =
      is_flying || (runner->flight_ns != 0 && runner->is_guess && !is_long_unchanged(runner, processes, now_ns));
  runner->wants = stands || runner->used_ns != 0;
  if (runner->wants) {
    // Who comes back after a while is tried soon, whatever it did before.
    const bool is_back = runner->is_known && now_ns - runner->active_ns > ACTIVE_NS;
    runner->patience_ns = is_back ? FIRST_PATIENCE_NS : runner->patience_ns;
    runner->active_ns = now_ns;
  }
  if (dt_ns > 0) {
    const double used = (double)runner->used_ns < dt_ns ? (double)runner->used_ns / dt_ns : 1.0;
    smooth(&runner->pressed, stands ? 1.0 : used, dt_ns / PRESSED_NS);
    const bool waits = runner->blocked != 0 || (runner->flight_ns != 0 && runner->changed_ns != now_ns);
    smooth(&runner->waits, waits ? 1.0 : 0.0, dt_ns / PRESSED_NS);
    runner->stands_ns = !stands ? 0 : runner->stands_ns != 0 ? runner->stands_ns : now_ns;
    const uint64_t no_pause_ns = runner->was_heavy ? KNOWN_NO_PAUSE_NS : NO_PAUSE_NS;
    if (runner->stands_ns != 0 && now_ns - runner->stands_ns > no_pause_ns && runner->pressed < NO_PAUSE) {
      runner->pressed = NO_PAUSE;
    }
    smooth(&runner->use, (double)runner->used_ns / dt_ns, dt_ns / USE_NS);
  }

  note_second(runner, now_ns);

  keep_to_ceiling(runner, dt_ns, now_ns);
}

typedef struct crowd_s {
  uint32_t active;
  uint32_t processes;  // of those
  uint32_t eligible;
  bool     is_needed;  // somebody wants something and waits for it
  double   behind_ns;  // the neediest one's virtual time, of those
  double   par_ns;     // of those that always do; nobody else's credit reaches far back of it
  double   could_use;  // all that are active, together, in parts of the device
} crowd_t;

// What it would use if it never had to wait. Other than the part of a window that it fills this is no matter of what
// was queued before the window, and gates that are closed do not change it.
static double could_use(const jvgpu_runner_t *runner)
{
  return runner->use + runner->waits < 1.0 ? runner->use / (1.0 - runner->waits) : 1.0;
}

static crowd_t count_crowd(const jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  crowd_t crowd = {.active = 0};
  bool    has_par = false;
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    crowd.active += is_active(runner, now_ns);
    crowd.processes += is_active(runner, now_ns) ? runner->processes : 0;
    crowd.could_use += is_active(runner, now_ns) ? could_use(runner) : 0;
    if (!runner->is_known) {
      continue;
    }
    crowd.eligible += is_eligible(runner);
    if (is_eligible(runner) && runner->waits > MOST_WAITS) {
      crowd.behind_ns = !crowd.is_needed || runner->virtual_ns < crowd.behind_ns ? runner->virtual_ns : crowd.behind_ns;
      crowd.is_needed = true;
    }
    if (is_pressed(runner) && (!has_par || runner->virtual_ns < crowd.par_ns)) {
      crowd.par_ns = runner->virtual_ns;
      has_par = true;
    }
  }
  crowd.par_ns = has_par ? crowd.par_ns : crowd.behind_ns;
  return crowd;
}

static double lag_of(const crowd_t *crowd)
{
  return LAG_NS * crowd->active;
}

static void age(jvgpu_runner_t *runner, const crowd_t *crowd, uint64_t now_ns)
{
  if (!runner->is_known) {
    runner->is_known = true;
    runner->virtual_ns = crowd->par_ns;
    runner->patience_ns = FIRST_PATIENCE_NS;
    return;
  }
  runner->virtual_ns += ((double)runner->used_ns - (double)runner->back_ns) / runner->entitled;
  const bool   is_idle = !runner->wants && now_ns - runner->active_ns > IDLE_NS;
  const double least_ns = crowd->par_ns - (is_idle ? lag_of(crowd) / 2 : HORIZON_NS);
  if (!is_pressed(runner) && runner->virtual_ns < least_ns) {
    runner->virtual_ns = least_ns;
  }
}

// --- deciding -----------------------------------------------------------------------------------------------------

static bool may_launch(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner, int index, const crowd_t *crowd)
{
  if (runner->is_capped) {
    return false;
  }
  if (governor->holder == index || runner->is_gang) {
    return true;
  }
  if ((governor->holder >= 0 || governor->next >= 0) && jvgpu_windows_keep_out(governor, runner)) {
    return false;
  }
  return crowd->eligible < 2 || !crowd->is_needed || crowd->could_use < ENOUGH ||
         runner->virtual_ns - crowd->behind_ns <= lag_of(crowd);
}

// The bound is the claim's; its processes that are at work share it.
static void set_bound(jvgpu_runner_t *runner, uint64_t bound_ns)
{
  const uint32_t processes = runner->processes > 1 ? runner->processes : 1;
  runner->bound_ns = bound_ns / processes;
  runner->least = processes > 1 ? 1 : 2;
}

uint64_t jvgpu_governor_look(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  const double dt_ns = governor->looked_ns != 0 ? (double)(now_ns - governor->looked_ns) : 0.0;
  governor->looked_ns = now_ns;

  const uint32_t processes = count_crowd(runners, count, now_ns).processes;
  for (uint32_t i = 0; i < count; i++) {
    take_in(&runners[i], dt_ns, processes, now_ns);
  }
  crowd_t crowd = count_crowd(runners, count, now_ns);
  jvgpu_entitle(runners, count, now_ns);
  for (uint32_t i = 0; i < count; i++) {
    age(&runners[i], &crowd, now_ns);
  }
  crowd = count_crowd(runners, count, now_ns);
  jvgpu_windows_turn(governor, runners, count, now_ns);

  const bool is_shared = crowd.active >= 2;
  for (uint32_t i = 0; i < count; i++) {
    jvgpu_runner_t *runner = &runners[i];
    runner->is_governed = runner->ceiling_ppm < 1000000 || is_shared;
    set_bound(runner, governor->holder == (int)i ? WINDOW_BOUND_NS : MIXED_BOUND_NS);
    runner->was_shut = !runner->is_open;
    runner->is_open = may_launch(governor, runner, (int)i, &crowd);
  }
  jvgpu_windows_note_clear(governor, runners, count, now_ns);
  for (uint32_t i = 0; i < count; i++) {
    runners[i].used_ns = 0;
    runners[i].back_ns = 0;
  }
  return jvgpu_pause(governor, runners, count, crowd.active, now_ns);
}

uint32_t jvgpu_governor_remove(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint32_t index)
{
  const uint32_t last = count - 1;
  if (governor->holder == (int)index || governor->next == (int)index) {
    jvgpu_windows_drop(governor);
  }
  governor->holder = governor->holder == (int)last ? (int)index : governor->holder;
  governor->next = governor->next == (int)last ? (int)index : governor->next;
  governor->last = governor->last == (int)index ? -1 : governor->last == (int)last ? (int)index : governor->last;
  runners[index] = runners[last];
  runners[last] = (jvgpu_runner_t){.weight_ppm = 0};
  return last;
}
