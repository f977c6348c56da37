// Flight: how much GPU time is under way, launched and not known to be over.
//
// Pure bookkeeping: no driver, no clock, no lock of its own. Launches on one stream end in order, so a
// *fence* (an event, recorded by the pacer) behind some of them says that all before it are over.
// Streams are told apart by a hash; two in one place only make a fence a little early or late.

#ifndef JVGPU_FLIGHT_H
#define JVGPU_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#define JVGPU_MOST_FENCES 64
#define JVGPU_STREAM_PLACES 64

typedef struct jvgpu_fence_s {
  uint64_t amount_ns;  // what is over with it
  uint32_t launches;
  uint32_t place;
  uint32_t is_set;
  uint32_t look;  // the latest before it was set
} jvgpu_fence_t;

typedef struct jvgpu_flight_s {
  uint64_t      under_way_ns;  // fenced or not
  uint32_t      launches;      // under way
  uint32_t      looks;         // at the fences, so far
  uint32_t      most;          // launches that may be under way, whatever they take; 0 = as many as the bound lets
  uint32_t      places;        // with launches that no fence follows
  uint64_t      unfenced_ns[JVGPU_STREAM_PLACES];
  uint32_t      unfenced_launches[JVGPU_STREAM_PLACES];
  jvgpu_fence_t fences[JVGPU_MOST_FENCES];
} jvgpu_flight_t;

// returns: the place of a stream handle, below JVGPU_STREAM_PLACES.
// Mixed twice: handles made one after the other are as far apart as each is long, and once would put sixteen in four places.
static inline uint32_t jvgpu_flight_place(const void *stream)
{
  const uint64_t mixed = (uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(((mixed ^ (mixed >> 32)) * UINT64_C(0xff51afd7ed558ccd)) >> 58);
}

// Note a launch. returns: whether a fence should follow it, so that no more than about a sixteenth of
// `bound_ns`, or of the launches that may be under way, goes without one over all streams.
bool jvgpu_flight_launch(jvgpu_flight_t *flight, uint32_t place, uint64_t amount_ns, uint64_t bound_ns);

// Set a fence behind all that was launched at `place`; where none is free one that is set is moved, and says less.
// returns: its index.
int jvgpu_flight_fence(jvgpu_flight_t *flight, uint32_t place);
// The fence was not recorded after all.
void jvgpu_flight_unfence(jvgpu_flight_t *flight, int fence);
// Look at all fences: what is not passed by then is under way at this look.
void jvgpu_flight_look(jvgpu_flight_t *flight);
// returns: whether something that was under way at the look before the latest still was at that.
bool jvgpu_flight_is_busy(const jvgpu_flight_t *flight);
// The fence has been passed. pre: it is set.
void jvgpu_flight_passed(jvgpu_flight_t *flight, int fence);
// What launches were believed to take was wrong by so much: all that is under way counts for `times` what it did.
void jvgpu_flight_scale(jvgpu_flight_t *flight, double times);
// All that was launched at `place` is over.
void jvgpu_flight_landed(jvgpu_flight_t *flight, uint32_t place);
// All is over.
void jvgpu_flight_clear(jvgpu_flight_t *flight);

// returns: whether something is under way, and no fence will say when it is over.
bool jvgpu_flight_is_unseen(const jvgpu_flight_t *flight);
// returns: whether nothing is under way, but for what is too little to be fenced.
bool jvgpu_flight_is_over(const jvgpu_flight_t *flight, uint64_t bound_ns);

// returns: whether one more launch may go: no more are under way than may be, and less than the bound is, or fewer launches
// than `least`, with which the GPU does not run dry between them, and they are not long.
bool jvgpu_flight_has_room(const jvgpu_flight_t *flight, uint64_t bound_ns, uint32_t least);

#endif
