// Held: how long a process can have had the GPU for at most.
//
// Work that is over was done while the process could have work done: since the gate was opened, until all that was
// launched by then was over. Whatever is believed of its launches, all together took no longer than that. Many streams, or
// arguments that change durations, are charged by figures that can be several times too much; where tenants take turns in
// windows the bound is nearly the truth, while they interleave it holds as well, and says less.
// Pure arithmetic: no clock, no lock of its own.

#ifndef JVGPU_HELD_H
#define JVGPU_HELD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct jvgpu_held_s {
  uint64_t looked_ns;  // the latest look, 0 = there was none, or what is over is not known
  uint64_t charged_ns;  // to this process by then, for what was over
  uint64_t slack_ns;  // time that was held and not charged, lately
  bool     is_idle;  // the gate was closed then, and all was over
} jvgpu_held_t;

// Look once. `charged_ns`: charged for all launches, by durations; `under_way_ns`: of it, for what is not over. `is_idle`:
// the gate is closed and all is over.
// returns: how much of what was charged since the last look cannot have been had, nanoseconds.
uint64_t jvgpu_held_look(jvgpu_held_t *held, uint64_t now_ns, uint64_t charged_ns, uint64_t under_way_ns, bool is_idle);
// A launch is made of which nobody will see whether it is over: begin anew.
void jvgpu_held_forget(jvgpu_held_t *held);

#endif
