// What the pacer's files share (pacer.h is its face).

#ifndef JVGPU_PACER_PARTS_H
#define JVGPU_PACER_PARTS_H

#include "flight.h"
#include "held.h"
#include "own.h"
#include "pacer.h"
#include "process.h"
#include "standing.h"

struct jvgpu_pacer_s {
  jvgpu_lock_t     lock;
  jvgpu_process_t *self;
  int              device;
  CUcontext        ctx;  // the fences are this context's
  bool             failed;
  jvgpu_flight_t   flight;
  CUevent          events[JVGPU_MOST_FENCES];
  uint64_t         local_since_ns;  // 0 = a governor is there
  uint64_t         local_busy_ns;   // the tenant's use at that time
  jvgpu_standing_t standing;
  jvgpu_held_t     held;
  jvgpu_own_t      own;
  uint64_t         launched_ns;  // charged for what is, or was, under way, by durations
  uint64_t         unseen_ns;    // since when no fence will say that what is under way is over, 0 = one will
  uint32_t         launched;     // launches of which the flight is kept
};

static inline jvgpu_use_t *pacer_use(const jvgpu_pacer_t *pacer)
{
  return jvgpu_process_use(pacer->self, pacer->device);
}

static inline const jvgpu_control_t *pacer_control(const jvgpu_pacer_t *pacer)
{
  return __atomic_load_n(&pacer->self->control, __ATOMIC_ACQUIRE);
}

static inline const jvgpu_control_device_t *pacer_limits(const jvgpu_pacer_t *pacer)
{
  return jvgpu_process_limits(pacer->self, pacer->device);
}

static inline bool pacer_is_quiet(const jvgpu_pacer_t *pacer)
{
  return __atomic_load_n(&pacer->self->live_captures, __ATOMIC_RELAXED) != 0;
}

static inline bool pacer_is_closed(const jvgpu_control_device_t *limits)
{
  return __atomic_load_n(&limits->gate, __ATOMIC_ACQUIRE) == JVGPU_GATE_CLOSED;
}

// Fences (fences.c): what is known to be over, and what that says. pre: the lock is held.
// returns: whether what is under way can be kept account of: the fences are this context's.
bool jvgpu_fences_prepare(jvgpu_pacer_t *pacer);
void jvgpu_fences_look(jvgpu_pacer_t *pacer);
// Somebody waits for room, and no fence will say when there is some: after a while what is under way is taken for over.
void jvgpu_fences_give_up(jvgpu_pacer_t *pacer, uint64_t now_ns);
// Set one behind all that was launched at `place`.
void jvgpu_fences_set(jvgpu_pacer_t *pacer, uint32_t place, CUstream stream, const jvgpu_stream_calls_t *calls);
// Tell the agent what is over.
void jvgpu_fences_publish(jvgpu_pacer_t *pacer);

#endif
