// How long launches kept the GPU while the process had it for itself: stretches of windows, as fences tell of them.

#include "own.h"

#include <stddef.h>

#include "check.h"

#define MS UINT64_C(1000000)
#define LOOK_NS (MS / 10)
#define WINDOW (7 * MS)

static jvgpu_done_t done = {.now_ns = 1000 * MS};

// Looks every tenth of a millisecond, at each of which `launches` more are over that were charged `each_ns`, and as many made.
// returns: the last stretch that was told of; *told: how many were.
static jvgpu_had_t seen_in(jvgpu_own_t *own, uint64_t looks, uint64_t clear_ns, bool is_busy, uint32_t launches,
                           uint64_t each_ns, uint32_t *told)
{
  jvgpu_had_t last = {.ns = 0};
  for (uint64_t look = 0; look < looks; look++) {
    done.now_ns += LOOK_NS;
    done.launches += launches;
    done.launched += launches;
    done.charged_ns += launches * each_ns;
    const jvgpu_had_t had = jvgpu_own_look(own, clear_ns, is_busy, done);
    *told += had.ns != 0;
    last = had.ns != 0 ? had : last;
  }
  return last;
}

static void a_window_tells_what_launches_took(void)
{
  jvgpu_own_t       own = {.clear_ns = 0};
  uint32_t          told = 0;
  const jvgpu_had_t had = seen_in(&own, 100, WINDOW, true, 5, 60000, &told);
  CHECK("of ten milliseconds all stretches but the first are told", told == 3);
  CHECK("each as long as the clock says, whatever was charged",
        had.ns == 2 * MS && had.launches == 100 && had.charged_ns == 6 * MS);
  CHECK("something was under way all the time", had.is_all);
}

static void nothing_is_told_beside_others(void)
{
  jvgpu_own_t own = {.clear_ns = 0};
  uint32_t    told = 0;
  seen_in(&own, 200, 0, true, 5, 20000, &told);
  CHECK("who has not the device for itself is told nothing", told == 0);
  for (uint64_t window = 1; window < 20; window++) {
    seen_in(&own, 30, window, true, 5, 20000, &told);
  }
  CHECK("nor does a stretch go on from one window to the next", told == 0);
}

static void pauses_are_said(void)
{
  jvgpu_own_t own = {.clear_ns = 0};
  uint32_t    told = 0;
  seen_in(&own, 30, WINDOW, true, 5, 20000, &told);
  seen_in(&own, 1, WINDOW, false, 0, 20000, &told);
  const jvgpu_had_t had = seen_in(&own, 20, WINDOW, true, 5, 20000, &told);
  CHECK("with a pause in it a stretch is no more than a bound", told == 1 && !had.is_all);
  const jvgpu_had_t next = seen_in(&own, 20, WINDOW, true, 5, 20000, &told);
  CHECK("and the next is none", told == 2 && next.is_all);
}

static void few_launches_say_little(void)
{
  jvgpu_own_t own = {.clear_ns = 0};
  uint32_t    told = 0;
  seen_in(&own, 60, WINDOW, true, 0, 0, &told);
  CHECK("as long as less than eight are over nothing is told", told == 0);
}

static void as_many_are_over_as_were_made(void)
{
  jvgpu_own_t own = {.clear_ns = 0};
  uint32_t    told = 0;
  seen_in(&own, 25, WINDOW, true, 5, 20000, &told);
  CHECK("the first is not told", told == 0);
  // Streams that end together: of what was under way before all is seen to be over at once.
  done.launches += 400;
  seen_in(&own, 20, WINDOW, true, 5, 20000, &told);
  CHECK("where more is over than was made nothing is told yet", told == 0);
  done.launched += 400;
  const jvgpu_had_t had = seen_in(&own, 1, WINDOW, true, 5, 20000, &told);
  CHECK("as soon as as many were made it is", told == 1);
  CHECK("of all of the time since", had.ns > 2 * MS && had.launches > 500);
  done.launched += 30;
  seen_in(&own, 20, WINDOW, true, 5, 20000, &told);
  CHECK("nor where more is under way than before", told == 1);
  seen_in(&own, 20, WINDOW, true, 5, 20000, &told);
  CHECK("but where that is little of what is over", told == 2);
}

static void a_deep_queue_tells_nothing(void)
{
  jvgpu_own_t own = {.clear_ns = 0};
  uint32_t    told = 0;
  done.launched += 900;
  seen_in(&own, 45, WINDOW, true, 5, 20000, &told);
  CHECK("what is over of more that is under way may have been done before, or be a part of what is", told == 0);
  const jvgpu_had_t had = seen_in(&own, 180, WINDOW, true, 5, 20000, &told);
  CHECK("once all of that is over it is told", told == 1 && had.launches >= 900);
  done.launched = done.launches;
}

int main(void)
{
  a_window_tells_what_launches_took();
  nothing_is_told_beside_others();
  pauses_are_said();
  few_launches_say_little();
  as_many_are_over_as_were_made();
  a_deep_queue_tells_nothing();
  RESULT();
}
