#include "own.h"

// So long that some launches more or less at either end, which a fence tells of late, are little of it; and some of them are
// in the shortest window.
#define STRETCH_NS UINT64_C(2000000)
#define LEAST_LAUNCHES 8u
// Of so many launches that are over one more or less may have been made.
#define LAUNCHES_APART 5u

static uint32_t under_way(jvgpu_done_t done)
{
  return done.launched - done.launches;
}

static bool tells_launches(jvgpu_done_t from, jvgpu_done_t to)
{
  const uint32_t over = to.launches - from.launches;
  const uint32_t made = to.launched - from.launched;
  const bool     is_even = (made > over ? made - over : over - made) * LAUNCHES_APART <= over;
  return over >= LEAST_LAUNCHES && is_even && under_way(from) <= over && under_way(to) <= over;
}

jvgpu_had_t jvgpu_own_look(jvgpu_own_t *own, uint64_t clear_ns, bool is_busy, jvgpu_done_t done)
{
  const bool     goes_on = clear_ns != 0 && clear_ns == own->clear_ns;
  const uint64_t ns = done.now_ns - own->from.now_ns;
  jvgpu_had_t    had = {.ns = 0};
  own->had_pause = own->had_pause || !is_busy;
  if (!goes_on) {
    own->stretches = 0;
  }
  // The first begins where all is known to be over, and ends as all others do, with some of which nobody knows yet.
  const bool is_first = own->stretches == 0;
  if (goes_on && (ns < STRETCH_NS || !(is_first || tells_launches(own->from, done)))) {
    return had;
  }
  if (goes_on && !is_first && done.charged_ns >= own->from.charged_ns) {
    had = (jvgpu_had_t){.ns = ns,
                        .charged_ns = done.charged_ns - own->from.charged_ns,
                        .launches = done.launches - own->from.launches,
                        .is_all = !own->had_pause};
  }
  own->stretches += goes_on;
  own->had_pause = false;
  own->clear_ns = clear_ns;
  own->from = done;
  return had;
}
