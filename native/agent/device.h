// One device's claims, as the governor's thread steers them: it reads their usage pages, asks the governor, writes
// their gates.
// threads: the steering's lock is held.
//
// A device is *at rest* when nobody wants anything of it, and nobody is held back. Then the thread only asks, every
// 80 ms, whether anybody launched, and looks when it has: a share is not in others' hands
// then, so there is nothing to give back sooner. While anybody works there, the governor says when to come again.

#ifndef JVGPU_STEERED_DEVICE_H
#define JVGPU_STEERED_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "governor.h"
#include "records.h"
#include "steered.h"

// Other devices that rest are asked in the same waking, if their turn is so near.
#define JVGPU_JOIN_NS UINT64_C(40000000)

struct jvgpu_watched_s;

typedef struct jvgpu_steered_device_s {
  jvgpu_governor_t         governor;
  jvgpu_runner_t          *runners;
  jvgpu_steered_runner_t **steered;  // same order
  struct jvgpu_watched_s  *watched;  // same order, where `is_signed`
  uint32_t                 count;
  uint64_t                 due_ns;
  uint64_t                 looked_ns;
  bool                     is_calm;    // nobody wanted anything at the last look, or was held back
  bool                     is_signed;  // the signatures are from before that look
  int                      holder;  // as last recorded
  bool                     is_grouped;  // governed together with others (gangs.h), not by itself
} jvgpu_steered_device_t;

void jvgpu_steered_device_start(jvgpu_steered_device_t *device);
// It was governed together with others, and is by itself again. pre: nothing that was learnt there is left.
void jvgpu_steered_device_restart(jvgpu_steered_device_t *device);
// Let all go. Nothing is left to free.
void jvgpu_steered_device_end(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns);

// Take in what all claims did since the last look.
void jvgpu_steered_device_read(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns);
// Look, or only ask whether anybody launched. Says in `due_ns` when to come again.
// returns: whether somebody began to do something where nobody did.
bool jvgpu_steered_device_look(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns);

// Steer one more, that goes by `number`. returns: false when memory is short or there are too many.
bool jvgpu_steered_device_add(jvgpu_steered_device_t *device, struct jvgpu_tenant_s *tenant, uint32_t index,
                              uint32_t priority, uint32_t number);
// Let the one at `place` go; the last one takes its place.
void jvgpu_steered_device_remove(jvgpu_steered_device_t *device, uint32_t place, jvgpu_records_t *records,
                                 uint64_t at_ns);

#endif
