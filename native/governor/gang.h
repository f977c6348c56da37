// Gangs: claims that all have the same several devices, governed as one: a rank is what a gang does on one device.
//
// Pure arithmetic, over governor.h. The ranks of a gang wait for each other (a collective ends on all devices or on
// none), so one decision is made for all devices at once: a gang's gates are opened and closed together. Gates
// that close between two ranks' launches of the same collective leave one of them spinning for the other, which
// stands: who stands with nothing under way, while the rest of its gang gets nowhere, is let go one launch
// further until all have drained. What does not help within the drain's bound goes on beside the next gang, as
// natively.
// Not for gangs whose devices overlap only in part, nor for devices that others have besides. The agent does not
// use it yet: it leaves gangs' gates open (governor.h).

#ifndef JVGPU_GANG_H
#define JVGPU_GANG_H

#include "governor.h"

#define JVGPU_MOST_RANKS 16u

typedef struct jvgpu_rank_s {
  // What the caller knows before each look, as of a runner.
  uint32_t at_work;
  uint32_t blocked;
  uint64_t used_ns;
  uint64_t flight_ns;

  // What the caller is told by each look.
  bool     is_open;
  uint64_t bound_ns;
  uint32_t least;

  // Kept.
  uint64_t last_flight_ns;
  uint64_t changed_ns;  // when it last used something, or its flight changed
} jvgpu_rank_t;

// Look once at all gangs of a set of devices.
// `ranks`: shape (count, devices), rows in the runners' order; of each runner the caller sets weight, ceiling and
// priority, this sets the rest.
// pre: as for jvgpu_governor_look; 1 <= devices <= JVGPU_MOST_RANKS; a new runner's ranks are zeroed.
// returns: nanoseconds until the next look is due.
uint64_t jvgpu_gangs_look(jvgpu_governor_t *governor, jvgpu_runner_t *runners, jvgpu_rank_t *ranks, uint32_t count,
                          uint32_t devices, uint64_t now_ns);

#endif
