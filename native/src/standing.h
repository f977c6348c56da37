// Standing: how threads of a process wait at one device's gate, bound or ceiling, so that thousands cost what a few do.
//
// Some of them *look*: they come back as soon as something can have changed. The others lie down until one that goes
// wakes the next, or the gate opens; whatever becomes of those, nobody lies for longer than is set.
// threads: all functions may be called by any number at once. But for that time zeroed memory is nobody standing.

#ifndef JVGPU_STANDING_H
#define JVGPU_STANDING_H

#include <stdint.h>

typedef struct jvgpu_standing_s {
  uint32_t standing;  // threads
  uint32_t looking;  // of those
  uint32_t turn;  // a futex word: changes when one has gone
  uint64_t most_lying_ns;  // set before anybody stands
} jvgpu_standing_t;

// Stand there from now on, until jvgpu_standing_end.
void jvgpu_standing_begin(jvgpu_standing_t *standing);

// returns: what to give to jvgpu_standing_wait. Before it is looked whether one may go: who goes meanwhile is seen.
uint32_t jvgpu_standing_turn(const jvgpu_standing_t *standing);

// Wait for room: `look_ns`, or lie down where enough others look.
void jvgpu_standing_wait(jvgpu_standing_t *standing, uint32_t turn, long look_ns);

// Wait until `gate`, a futex word in a page, is not closed, for no longer than `look_ns`, or lie down until then where
// another looks.
void jvgpu_standing_wait_at_gate(jvgpu_standing_t *standing, const uint32_t *gate, long look_ns);

// Go, and wake the next: of those who wait for room, and of all processes' at the gate.
void jvgpu_standing_end(jvgpu_standing_t *standing, const uint32_t *gate);

#endif
