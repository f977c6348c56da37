// Gangs: claims of several devices, governed together with all that share a device with them. A *rank* is what a
// claim does on one device; a *cohort* is a set of devices and all claims on them.
//
// Pure arithmetic, over governor.h. The ranks of a gang wait for each other (a collective ends on all devices or on
// none), so one decision is made for all its devices at once: its gates are opened and closed together. The whole
// cohort has one governor, in which a claim counts by the part of the devices that it has: one window at a
// time, and beside it whoever has no device in common with its holder, the neediest first. Without windows a
// claim stands while one that shares a device with it is further behind than a lag. Virtual time is one per claim, not per device, so
// there is always somebody who waits for nobody.
//
// Gates that close between two ranks' launches of the same collective leave one of them spinning for the other, which
// stands: who stands with nothing under way, while the rest of its gang gets nowhere, is let go one launch
// further until all have drained. What does not help within the drain's bound goes on beside the next window, as
// natively, and where it spins for longer the ranks that lag have their gates opened. Who gets nowhere with open gates
// may be waiting for a launch of its own that has no room: it is not held back for some seconds.

#ifndef JVGPU_GANG_H
#define JVGPU_GANG_H

#include "governor.h"

#define JVGPU_MOST_COHORT_DEVICES 64u
#define JVGPU_MOST_MEMBERS 256u

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

typedef struct jvgpu_member_s {
  // What the caller knows.
  uint64_t devices;  // a bit for each of the cohort's that it has; not 0
  uint32_t weight_ppm;  // promised share of each of them, 1..1000000
  uint32_t ceiling_ppm;  // most it may use of each, 1..1000000

  // What it is told: parts of each of its devices, 0..1.
  double use;
  double entitled;

  // Kept.
  bool     is_beside;  // works beside the window's holder, on other devices
  bool     stands_back;  // for one that is further behind
  uint64_t spun_since_ns;  // 0 = it does not spin at closed gates
  uint64_t free_until_ns;  // not held back until then
} jvgpu_member_t;

typedef struct jvgpu_cohort_s {
  jvgpu_governor_t governor;
  uint32_t         devices;  // 1..JVGPU_MOST_COHORT_DEVICES
  uint32_t         count;  // of members, at most JVGPU_MOST_MEMBERS
  jvgpu_runner_t  *runners;  // shape (count,); the caller sets priority
  jvgpu_member_t  *members;  // shape (count,)
  jvgpu_rank_t    *ranks;  // shape (count, devices); those of devices that a member lacks stay zeroed
  int              holder;  // at the last look
  uint64_t         window_ns;
} jvgpu_cohort_t;

// pre: the rest is set, and zeroed.
void jvgpu_cohort_start(jvgpu_cohort_t *cohort);

// Look once: take in what the ranks did since the last look, and decide.
// pre: as for jvgpu_governor_look.
// returns: nanoseconds until the next look is due.
uint64_t jvgpu_cohort_look(jvgpu_cohort_t *cohort, uint64_t now_ns);

#endif
