// Pulse: how long this context was without the GPU while one launch was on it.
//
// A helper thread records timing events on a stream of its own, some a millisecond. While the context
// has its turn each is stamped at once; while others have theirs none is. The holes between stamps are
// the lost turns, and those between a sample's two events are taken off what lies between them. Needed only
// for launches about as long as a turn or longer, of which most samples are cut. Relaxed capture mode, a
// non-blocking stream: nothing of the program's is ordered by it. The thread starts with the first such
// launch beside a neighbour, and rests while nobody asks.

#ifndef JVGPU_PULSE_H
#define JVGPU_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"

typedef struct jvgpu_pulse_s {
  uint32_t  started;   // the thread was made, or could not be
  uint32_t  is_gone;   // nobody answers any more
  uint32_t  asked;     // a futex word: the number of the latest watch
  uint32_t  answered;  // the number of the latest that is over
  CUcontext ctx;
  CUevent   begun;  // of the watch `asked`
  CUevent   ended;
  uint32_t  closed;    // the number of the latest watch whose second event is recorded
  double    lost_ns;   // of the watch `answered`
  bool      has_seen;  // it saw all of the time between the two events
} jvgpu_pulse_t;

typedef enum jvgpu_watched_e {
  JVGPU_WATCHED_NOT = 0,  // nobody looked, or not from the beginning to the end
  JVGPU_WATCHED_NOT_YET,
  JVGPU_WATCHED_WHOLE
} jvgpu_watched_t;

// Watch the time between two events, the first of which was recorded just now, until the second, once it is recorded
// (`jvgpu_pulse_close`), is done. It ends by itself where that never happens.
// returns: the number of the watch; 0 where another goes on or nobody can look.
// pre: the sampler's lock is held.
uint32_t jvgpu_pulse_watch(jvgpu_pulse_t *pulse, CUcontext ctx, CUevent begun, CUevent ended);

// The second event is recorded, or never will be.
void jvgpu_pulse_close(jvgpu_pulse_t *pulse, uint32_t watch);

// returns: how a watch stands. *lost_ns: of the time between its events, what the context was without the GPU,
// within half a pulse's interval (0.1 ms) for each turn lost; only where it was watched whole.
// pre: the sampler's lock is held.
jvgpu_watched_t jvgpu_pulse_answer(const jvgpu_pulse_t *pulse, uint32_t watch, double *lost_ns);

#endif
