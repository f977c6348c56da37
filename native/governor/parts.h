// Parts: what the governor's files share (governor.h is its face).

#ifndef JVGPU_GOVERNOR_PARTS_H
#define JVGPU_GOVERNOR_PARTS_H

#include "governor.h"

#define MS UINT64_C(1000000)
// Between two trials of one runner, once its first few agree or not: twice as long each time that it does not
// fill its window.
#define PATIENCE_NS (1000 * MS)
#define FIRST_PATIENCE_NS (100 * MS)
// Who has wanted nothing for so long is no contender.
#define ACTIVE_NS (1000 * MS)
#define USE_NS (100.0 * MS)
// Nobody is further ahead of the neediest than this for each contender. source: governor_model.py, 2..8 ms.
#define LAG_NS (4.0 * MS)
#define IS_PRESSED 0.9
// What may be under way: enough that the GPU does not run dry, little enough that a closed gate bites.
#define MIXED_BOUND_NS (3 * MS)
// A gate that its ceiling closed opens again with this much in hand.
#define REOPEN_NS (1.0 * MS)
// What interleaving gives is believed no longer than that.
#define MIXED_EVERY_NS (30000 * MS)

static inline void smooth(double *figure, double seen, double part)
{
  *figure += (seen - *figure) * (part < 1.0 ? part : 1.0);
}

static inline bool is_active(const jvgpu_runner_t *runner, uint64_t now_ns)
{
  return runner->is_known && runner->active_ns != 0 && now_ns - runner->active_ns < ACTIVE_NS;
}

// Wants the GPU and may have it, as far as its ceiling goes, and gets somewhere when it may.
static inline bool is_eligible(const jvgpu_runner_t *runner)
{
  return runner->wants && !runner->is_capped && !runner->is_stuck;
}

static inline bool is_pressed(const jvgpu_runner_t *runner)
{
  return is_eligible(runner) && runner->pressed > IS_PRESSED;
}

// Whom windows are for: it has all its work here, and always some, if only its ceiling lets it.
static inline bool may_have_windows(const jvgpu_runner_t *runner)
{
  return runner->wants && !runner->is_stuck && !runner->is_not_waited_for && runner->pressed > IS_PRESSED &&
         !runner->is_gang;
}

// Set every runner's `entitled`.
void jvgpu_entitle(jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns);

// Trials: what windows gave, what interleaving gave, and for whom windows are worth it.
// returns: whether the GPU does more in a runner's windows than while all interleave, as was measured.
bool jvgpu_trials_is_heavy(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner);
// Take in what the last window showed. pre: it has drained.
void jvgpu_trials_learn_fill(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint64_t now_ns);
// Take in what interleaving gives. pre: nobody holds a window.
void jvgpu_trials_note_mixed(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                             uint64_t now_ns);
// Take in what all do while windows take turns.
void jvgpu_trials_note_windows(jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                               uint64_t now_ns);
// returns: whether all for whom windows are, or just were, fill theirs.
bool jvgpu_trials_are_full(const jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns);
// returns: whether it is known what interleaving gives, or need not be.
bool jvgpu_trials_are_comparable(const jvgpu_governor_t *governor, uint64_t now_ns);

// returns: the runner that is to have a window to see what its launches take, -1 = none.
int jvgpu_measure_next(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                       uint64_t now_ns);
// It has one.
void jvgpu_measure_note(jvgpu_runner_t *runner, uint64_t now_ns);

// Begin, end and hand over windows; note what interleaving gives while there are none.
void jvgpu_windows_turn(jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns);
// Say who has the device for itself. pre: gates are decided.
void jvgpu_windows_note_clear(const jvgpu_governor_t *governor, jvgpu_runner_t *runners, uint32_t count,
                              uint64_t now_ns);
// Nobody holds a window, or is to get one.
void jvgpu_windows_drop(jvgpu_governor_t *governor);
// returns: whether a runner has to keep out of the window that another holds or is to get.
bool jvgpu_windows_keep_out(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner);
// returns: nanoseconds in which neither a window's end nor the next one's beginning can be missed.
// pre: a runner holds a window, or is to get one.
uint64_t jvgpu_windows_pause(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                             uint64_t now_ns);

// returns: nanoseconds until anything can have to be decided, as far as that can be known. `active`: how many runners
// wanted something lately.
uint64_t jvgpu_pause(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count, uint32_t active,
                     uint64_t now_ns);

#endif
