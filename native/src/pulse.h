// Pulse: what part of the time this context has the GPU while it wants it.
//
// A helper thread records timing events on a stream of its own, a few a millisecond. While the context
// has its turn each is stamped at once; while others have theirs none is. The holes between stamps
// are the lost turns. Needed only for launches longer than a turn, which every sample finds cut.
// Relaxed capture mode, a non-blocking stream: nothing of the program's is ordered by it. The thread
// starts with the first such launch beside a neighbour, and rests while nobody asks.

#ifndef JVGPU_PULSE_H
#define JVGPU_PULSE_H

#include <stdint.h>

#include "cuda_abi.h"
#include "shapes.h"

typedef struct jvgpu_pulse_s {
  uint32_t  started;      // the thread was made, or could not be
  uint32_t  asked;        // a futex word: grows with each question
  uint64_t  fraction_ppm; // the last answer, smoothed
  uint64_t  answered_ns;  // when the last session ended, 0 = never
  uint64_t  asked_ns;     // when the last session was asked for
  CUcontext ctx;
} jvgpu_pulse_t;

// returns: the latest fraction; before there is one, an even split among `contenders` less what
// switching costs, as an assumption. An answer counts for a second, and for work made before it (`since_ns`,
// CLOCK_MONOTONIC) however long that takes. Asks for a session when the last is some time ago.
// pre: the sampler's lock is held.
jvgpu_turns_t jvgpu_pulse_turns(jvgpu_pulse_t *pulse, CUcontext ctx, uint32_t contenders, uint64_t since_ns);

#endif
