// Waiting: how long this process's work in flight goes without the GPU it asks for.
//
// In flight is everything from the first launch after the host saw all done to the next such moment. Whatever of that
// time it has not had the GPU for it has waited. A few words without a lock: of two threads at once either answer will do.

#ifndef JVGPU_WAITING_H
#define JVGPU_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "jvgpu/pages.h"

typedef struct jvgpu_waiting_s {
  uint64_t begun_ns;  // 0 = nothing is in flight
  uint64_t busy_ns;  // GPU time charged when it began
  uint64_t noted_ns;  // what has been noted as waiting so far
} jvgpu_waiting_t;

// returns: the moment at which what is in flight began, 0 = nothing is. threads: any, as everything here.
static inline uint64_t jvgpu_waiting_since(const jvgpu_waiting_t *waiting)
{
  return __atomic_load_n(&waiting->begun_ns, __ATOMIC_RELAXED);
}

// As the next, where nothing was in flight. returns: true.
bool jvgpu_waiting_begin_now(jvgpu_waiting_t *waiting, uint64_t busy_ns);
// Something is in flight from now on. `busy_ns`: GPU time charged before it. returns: whether nothing was. A load and a
// branch where something was.
static inline bool jvgpu_waiting_begin(jvgpu_waiting_t *waiting, uint64_t busy_ns)
{
  return __builtin_expect(jvgpu_waiting_since(waiting) == 0, 0) && jvgpu_waiting_begin_now(waiting, busy_ns);
}

// The host has seen that all is done. returns: when it began, for `jvgpu_waiting_note`; 0 = nothing was in flight.
static inline uint64_t jvgpu_waiting_end(jvgpu_waiting_t *waiting)
{
  return __atomic_exchange_n(&waiting->begun_ns, 0, __ATOMIC_RELAXED);
}

// Note in `use` what has waited so far of what is in flight since `begun_ns`.
void jvgpu_waiting_note(jvgpu_waiting_t *waiting, jvgpu_use_t *use, uint64_t begun_ns);

// A program that never waits for its work: look, at a sample, whether it is still in flight.
// `before_ns`: GPU time charged before the launch about to be made. returns: whether the stream has nothing to do.
// pre: no capture is alive.
bool jvgpu_waiting_look(jvgpu_waiting_t *waiting, jvgpu_use_t *use, CUstream stream, uint64_t before_ns);

#endif
