// Guarantee: least part of a device's time that a tenant has in each second in which it wants that much.
//
// Pure arithmetic, beside governor.h: the caller passes what was used since the last look, and whether the tenant
// wanted the device meanwhile and might have had it; it is told how loudly to ask the governor. A share is what the
// governor aims at in the long run; a guarantee is held against each second by itself, also of who comes and goes.
//
// A second is a *violation* when the tenant had less than its guarantee, and would have used that much if it had
// never had to wait. Would have: a loop that waits for its work slows down with it, so of the time that it did not
// wait it has to have had the guaranteed part. After three violations in a row its priority is a class higher, and it
// asks for more than its due, until a second is none.

#ifndef JVGPU_GUARANTEE_H
#define JVGPU_GUARANTEE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct jvgpu_guarantee_s {
  uint32_t least_ppm;  // of the device's time, 0..1000000; 0 = nothing is guaranteed, nothing is counted
  uint64_t violations;
  uint32_t in_a_row;  // of those, up to the last second
  bool     is_raised;

  // Its own.
  uint64_t begun_ns;  // when the present second began, 0 = none has
  uint64_t looked_ns;
  uint64_t used_ns;  // in it
  uint64_t wanted_ns;  // of it, in which the tenant wanted the device
} jvgpu_guarantee_t;

// Guarantee another part from now on; the present second is not judged. What was counted stays.
void jvgpu_guarantee_set(jvgpu_guarantee_t *guarantee, uint32_t least_ppm);

// Take in what happened since the last call.
// `used_ns`: GPU time that the tenant was charged; more than a second holds belongs to the next.
// `stands`: whether it has had work waiting or under way since then, all the time as far as is known, and only others
// kept it from the device. Where not, it has had what it wanted.
// pre: now_ns does not go back, and is not 0.
void jvgpu_guarantee_note(jvgpu_guarantee_t *guarantee, uint64_t used_ns, bool stands, uint64_t now_ns);

// returns: the priority that counts for a tenant of this one, JVGPU_PRIORITY_*.
uint32_t jvgpu_guarantee_priority(const jvgpu_guarantee_t *guarantee, uint32_t priority);

#endif
