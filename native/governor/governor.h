// Governor: who may launch on one device, decided anew some thousand times a second.
//
// Pure arithmetic: no clock, no pages, no driver. The caller says what each *runner* (one tenant on this
// device, all its processes together) has used and has under way; it is told whose gates are open and when
// to come again.
//
// Each runner is *entitled* to its weighted max-min fair part: nobody to more than it would use, everybody
// to what it was promised, and what is left goes by weight to the highest priority that wants it. A share
// that was missed for three seconds in a row is asked for more loudly until it is met. Virtual time grows by use / entitlement; waiting is credit, idling is
// none. Three regimes of one rule:
//   open      nobody is ahead of the neediest by more than a lag: the driver's own sharing, no cost
//   mixed     who is further ahead stands at the gate; gaps go to whoever has work
//   windows   runners that fill the GPU alone take it in turns, drained at hand-over: no switching cost
// Which serves better is not guessed: a runner is given a window now and then, and what the GPU did in it is
// compared with what it does while they interleave.
// Where a claim has several devices (a *gang*), one process may wait on one of them for work on another: its
// gates are left open, or collectives would wait for each other. Only its ceilings are kept.
// A ceiling is a budget that grows with time; debts stay, savings are cut.
// source: shared/FACTS.md, "A rule that looks right" and "Exclusive windows"; docs/gpu-time.md.

#ifndef JVGPU_GOVERNOR_H
#define JVGPU_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#define JVGPU_MOST_RUNNERS 512u

enum {
  JVGPU_PRIORITY_LOW = 0,
  JVGPU_PRIORITY_NORMAL = 1,
  JVGPU_PRIORITY_HIGH = 2,
};

enum {
  JVGPU_WINDOW_OWN = 0,  // of a runner for whom windows are worth it
  JVGPU_WINDOW_TRIAL = 1,  // to see whether they are
  JVGPU_WINDOW_MEASURE = 2,  // to let it see what its launches take (measure.c)
};

typedef struct jvgpu_runner_s {
  // What the caller knows before each look.
  uint32_t weight_ppm;  // promised share, 1..1000000
  uint32_t ceiling_ppm;  // most it may use, 1..1000000
  uint32_t priority;  // JVGPU_PRIORITY_*: who comes first where more is left than was promised
  bool     is_raised;  // what it was guaranteed was missed again and again (guarantee.h)
  bool     is_gang;  // one of several devices of a claim
  bool     is_guess;  // it does not know what its launches take, and wants the device for itself to see it
  uint32_t at_work;  // its processes that used something, have something under way or stand: each has a context
  uint32_t blocked;  // threads that stand at the gate or at the bound
  uint64_t used_ns;  // GPU time charged since the last look
  uint64_t back_ns;  // or taken back: so much was charged too much before
  uint64_t flight_ns;  // of all that was charged, what is not known to be over

  // What the caller is told by each look.
  bool     is_open;
  bool     is_governed;  // is, or may soon be, held back
  uint64_t bound_ns;  // most that each of its processes may have under way
  uint32_t least;  // so many short launches each of them may always have under way
  uint64_t clear_ns;  // since when nobody else has had anything under way, in its window, 0 = somebody may have

  // Counters.
  uint64_t windows;  // that it was given
  uint64_t overruns;  // windows that were not drained in time
  uint64_t violations;  // seconds in which it wanted its promised share all the time and did not have it

  // The governor's own.
  bool     is_known;
  bool     wants;
  bool     is_under_way;  // something of it
  bool     was_shut;  // its gate was closed before the latest look
  bool     is_capped;  // over its ceiling
  bool     is_stuck;  // its gate is open and it gets nowhere
  uint32_t processes;  // that were at work lately
  uint32_t fewer;  // looks in a row at which fewer were
  uint64_t active_ns;  // when it last wanted something
  uint64_t changed_ns;  // when its figures last changed
  uint64_t last_flight_ns;
  uint64_t served_ns;  // when it last got anywhere, or could not
  double   virtual_ns;
  double   budget_ns;  // under its ceiling
  uint64_t long_ns;  // when a launch of its was longer than what may be saved of that, 0 = never
  uint32_t overruns_in_a_row;
  uint64_t waited_for_ns;  // from when on others wait again for what it has under way
  bool     is_not_waited_for;
  uint64_t stands_ns;  // since when it has wanted something at every look, 0 = it does not
  double   pressed;  // part of the time that it wants something, 0..1, lately
  double   waits;  // part of the time in which it stands, or has something under way that gets nowhere, 0..1, lately
  double   use;  // part of the GPU's time that it has, 0..1, lately
  double   entitled;  // part that it is entitled to, 0..1
  double   fill;  // part of a window that it fills, 0..1
  bool     was_heavy;  // its windows were worth it when that was last looked at
  double   window_total;  // part of its windows in which the GPU worked for anybody, 0..1
  uint32_t missed;  // violations in a row
  uint64_t second_ns;  // when the present second began
  uint64_t second_used_ns;  // what it was charged since
  bool     second_pressed;  // whether it always wanted something since
  uint64_t tried_ns;  // when that was last measured, 0 = never
  uint64_t patience_ns;  // until it is measured again
  uint64_t measured_ns;  // when it had the device last to see what its launches take, 0 = never
  uint64_t measure_patience_ns;  // until it may again
} jvgpu_runner_t;

typedef struct jvgpu_governor_s {
  uint64_t looked_ns;
  int      holder;  // index of the runner that has the window, -1 = none
  int      next;  // who gets it once the others have drained, -1 = nobody waits for that
  int      last;  // whose window it was that drains meanwhile, -1 = nobody's
  uint64_t over_ns;  // when it ended
  uint64_t over_flight_ns;  // what its holder had under way then
  uint64_t drain_by_ns;  // when that should have happened
  uint32_t most_overruns;  // in a row, after which nobody waits for a runner; set by start, may be changed then
  bool     is_trial_vague;  // one says little, as where ranks wait for each other; set by start, may be changed then
  uint64_t window_ns;  // when the present window began
  uint64_t quantum_ns;  // how long it may be
  bool     was_given_up;  // its holder had nothing to do any more
  bool     has_short_work;  // somebody comes and goes
  bool     are_full;  // all that always want something fill their windows
  uint64_t window_given_ns;  // what its holder had under way then, and was charged since
  uint64_t beside_ns;  // what others were charged since
  double   mixed_total;  // part of the time in which the GPU works while runners interleave, lately
  uint64_t mixed_since_ns;  // when they last began to, 0 = they do not
  uint64_t mixed_from_ns;  // from when on it is being measured
  uint64_t mixed_used_ns;  // what all were charged since
  uint64_t mixed_ns;  // when that figure was last true
  uint64_t mixed_every_ns;  // and for how long it counts
  double   windows_total;  // part of the time in which the GPU works while there are windows, lately; 0 = not known
  uint64_t windows_from_ns;  // from when on it is being measured, 0 = it is not
  uint64_t windows_used_ns;  // what all were charged since
  uint32_t kind;  // JVGPU_WINDOW_*, of the present or the next window
} jvgpu_governor_t;

void jvgpu_governor_start(jvgpu_governor_t *governor);

// Look once: take in what `runners` did since the last look, and decide.
// pre: now_ns does not go back; an index means the same runner as before, or one that is new and zeroed but
// for what the caller sets; count <= JVGPU_MOST_RUNNERS.
// returns: nanoseconds until the next look is due.
uint64_t jvgpu_governor_look(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns);

// The runner at `index` is gone, the last one takes its place. returns: the new count.
uint32_t jvgpu_governor_remove(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint32_t index);

#endif
