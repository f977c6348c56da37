// Own: how long launches kept the GPU while the process had it for itself.
//
// In a window in which nobody else has anything under way, and while something of its own always is, all the time that goes
// by is its GPU time, whatever its launches are and however many streams they go over. So a stretch of it is a sample that
// no turn of others' is in; what is over by fences says of how many launches. It ends where about as many were made in it,
// and no more was under way at either end than was over in it: streams end together, and of a deep queue first next to none
// and then all would seem to be done. With a pause in it, it bounds what was had.
// Pure arithmetic: no clock, no lock of its own.

#ifndef JVGPU_OWN_H
#define JVGPU_OWN_H

#include <stdbool.h>
#include <stdint.h>

// What a process did by a moment.
typedef struct jvgpu_done_s {
  uint64_t now_ns;
  uint64_t charged_ns;  // for what was over, by durations
  uint32_t launches;  // that were over
  uint32_t launched;  // and how many had been made
} jvgpu_done_t;

// A stretch of time, and what was over in it.
typedef struct jvgpu_had_s {
  uint64_t ns;  // of the GPU's; 0 = nothing is known
  uint64_t charged_ns;
  uint32_t launches;
  bool     is_all;  // something was under way all the time: it is as much as was had, else no less
} jvgpu_had_t;

typedef struct jvgpu_own_s {
  uint64_t     clear_ns;  // the window that the stretch is in, 0 = none
  bool         had_pause;  // in it
  uint32_t     stretches;  // that were long enough, in this window
  jvgpu_done_t from;
} jvgpu_own_t;

// Look once. `clear_ns`: since when nobody else is at work, read after the fences were looked at, 0 = somebody may be;
// `is_busy`: something that was under way at the last look still is.
// returns: a stretch that is long enough; the next begins here.
jvgpu_had_t jvgpu_own_look(jvgpu_own_t *own, uint64_t clear_ns, bool is_busy, jvgpu_done_t done);

#endif
