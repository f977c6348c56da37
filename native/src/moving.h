// Moving: what a process held and did in pages it has left, carried into those it has.
//
// After a restart of the agent a process gets new pages while its other threads are at work in the old
// ones. Nothing stops them: what they add to or take from the old slot afterwards is carried over too,
// so that old and new together are right at every moment, and the new slot alone as soon as it is
// quiet. The old slot is not cleared: processes that have not moved yet go on counting it.
//
// Pure: no driver, no clock, no lock. The caller holds the process's attach lock.

#ifndef JVGPU_MOVING_H
#define JVGPU_MOVING_H

#include "jvgpu/pages.h"

// How many restarts of the agent a call that is in the driver may outlive.
#define JVGPU_MOST_LEFT 4u

// A slot that was left, and what of it stands in the process's present slot.
typedef struct jvgpu_left_s {
  const jvgpu_control_t *control;  // NULL = none
  jvgpu_slot_t          *slot;
  uint64_t               left_ns;  // CLOCK_MONOTONIC
  jvgpu_use_t            carried[JVGPU_MAX_DEVICES];
} jvgpu_left_t;

// Add to the slot `to` of `control`'s claim by how much `left` has changed since the last time.
// Devices are told by UUID; what was held on one that is not in the new claim is not carried.
// threads: the callers take turns; others may write both slots meanwhile, by adding.
void jvgpu_carry(jvgpu_left_t *left, const jvgpu_control_t *control, jvgpu_slot_t *to);

#endif
