// What is under way: fences behind launches, streams apart, room for one more.

#include "flight.h"

#include <stddef.h>

#include "check.h"

#define BOUND UINT64_C(1600000)

static void fences_follow_work(void)
{
  static jvgpu_flight_t flight;
  bool                  due = false;
  uint32_t              launches = 0;
  while (!due) {
    due = jvgpu_flight_launch(&flight, 3, 20000, BOUND);
    launches += 1;
  }
  CHECK("a fence is due after a sixteenth of the bound", launches == 5);
  const int fence = jvgpu_flight_fence(&flight, 3);
  CHECK("one is free", fence >= 0);
  jvgpu_flight_launch(&flight, 3, 20000, BOUND);
  jvgpu_flight_passed(&flight, fence);
  CHECK("what lay before a passed fence is over, what lies behind it is not",
        flight.under_way_ns == 20000 && flight.launches == 1);
  const int again = jvgpu_flight_fence(&flight, 3);
  jvgpu_flight_unfence(&flight, again);
  CHECK("a fence that could not be recorded leaves its launches under way", flight.under_way_ns == 20000);
  jvgpu_flight_landed(&flight, 3);
  CHECK("a stream that was waited for has nothing under way", flight.under_way_ns == 0 && flight.launches == 0);
}

static void streams_are_told_apart(void)
{
  static jvgpu_flight_t flight;
  for (uint32_t place = 0; place < 16; place++) {
    jvgpu_flight_launch(&flight, place, 1000, BOUND);
  }
  CHECK("over sixteen streams a fence is due for a sixteenth of that on each",
        jvgpu_flight_launch(&flight, 0, 5250, BOUND));
  const int fence = jvgpu_flight_fence(&flight, 0);
  jvgpu_flight_landed(&flight, 1);
  CHECK("what is over on one stream says nothing of another", flight.under_way_ns == 14 * 1000 + 6250);
  jvgpu_flight_landed(&flight, 0);
  CHECK("a stream's fences go with its work", flight.under_way_ns == 14 * 1000 && flight.fences[fence].is_set == 0);
}

static void fences_run_out(void)
{
  static jvgpu_flight_t flight;
  for (int i = 0; i < 2 * JVGPU_MOST_FENCES; i++) {
    jvgpu_flight_look(&flight);
    jvgpu_flight_launch(&flight, 0, 1000, 1);
    jvgpu_flight_fence(&flight, 0);
  }
  CHECK("nothing is lost for want of a fence", flight.under_way_ns == 2 * JVGPU_MOST_FENCES * 1000);
  CHECK("nor left without one", flight.places == 0 && !jvgpu_flight_is_unseen(&flight));
  uint64_t most_ns = 0;
  uint32_t latest = 0;
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    most_ns = flight.fences[i].amount_ns > most_ns ? flight.fences[i].amount_ns : most_ns;
    latest = flight.fences[i].look > flight.fences[latest].look ? (uint32_t)i : latest;
  }
  CHECK("those that say least are joined", most_ns <= 4 * 1000);
  CHECK("the latest is of the latest launch alone", flight.fences[latest].amount_ns == 1000);
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    if (flight.fences[i].is_set != 0) {
      jvgpu_flight_passed(&flight, i);
    }
  }
  CHECK("all passed, nothing is under way", flight.under_way_ns == 0 && flight.launches == 0);
}

static void each_place_has_one_fence(void)
{
  static jvgpu_flight_t flight;
  for (uint32_t i = 0; i < 3 * JVGPU_STREAM_PLACES; i++) {
    jvgpu_flight_launch(&flight, i % JVGPU_STREAM_PLACES, 1000, 1);
    const int fence = jvgpu_flight_fence(&flight, i % JVGPU_STREAM_PLACES);
    CHECK("it is set once more behind what comes later", flight.fences[fence].place == i % JVGPU_STREAM_PLACES);
  }
  jvgpu_flight_landed(&flight, 5);
  CHECK("and is of all that the place has under way", flight.under_way_ns == 3 * (JVGPU_STREAM_PLACES - 1) * 1000);
  CHECK("whatever it is, it has a fence", !jvgpu_flight_is_unseen(&flight) && flight.places == 0);
}

static void what_has_no_fence_is_unseen(void)
{
  static jvgpu_flight_t flight;
  CHECK("nothing is under way, and nothing is waited for", !jvgpu_flight_is_unseen(&flight));
  jvgpu_flight_launch(&flight, 0, 1000, BOUND);
  jvgpu_flight_launch(&flight, 1, 1000, BOUND);
  CHECK("two without a fence", jvgpu_flight_is_unseen(&flight));
  const int fence = jvgpu_flight_fence(&flight, 0);
  CHECK("one has one: it says that time goes by", !jvgpu_flight_is_unseen(&flight));
  jvgpu_flight_passed(&flight, fence);
  CHECK("it is over, the other stays", jvgpu_flight_is_unseen(&flight) && flight.under_way_ns == 1000);
}

static void the_number_is_bounded_where_durations_are_guesses(void)
{
  static jvgpu_flight_t flight;
  flight.most = 32;
  for (uint32_t launch = 0; launch < 32; launch++) {
    CHECK("as many as may be", jvgpu_flight_has_room(&flight, BOUND, 1));
    if (jvgpu_flight_launch(&flight, launch % 8, 1, BOUND)) {
      jvgpu_flight_fence(&flight, launch % 8);
    }
  }
  CHECK("however little they are believed to take, no more", !jvgpu_flight_has_room(&flight, BOUND, 1));
  CHECK("nearly all have a fence", flight.places <= 1 && flight.unfenced_launches[0] <= 2);
  jvgpu_flight_clear(&flight);
  CHECK("when all is over there is room again, for as many",
        jvgpu_flight_has_room(&flight, BOUND, 1) && flight.most == 32);
  flight.most = 0;
  for (uint32_t launch = 0; launch < 1000; launch++) {
    jvgpu_flight_launch(&flight, 0, 1, BOUND);
  }
  CHECK("where durations are known their sum is the bound", jvgpu_flight_has_room(&flight, BOUND, 1));
}

static void room_for_one_more(void)
{
  static jvgpu_flight_t flight;
  CHECK("there is room while nothing is under way", jvgpu_flight_has_room(&flight, BOUND, 2));
  jvgpu_flight_launch(&flight, 0, 3600000, BOUND);
  CHECK("behind one launch longer than the bound there is room for one more", jvgpu_flight_has_room(&flight, BOUND, 2));
  jvgpu_flight_launch(&flight, 0, 3600000, BOUND);
  CHECK("not where others of the claim keep the GPU busy", !jvgpu_flight_has_room(&flight, BOUND, 1));
  CHECK("not for a third", !jvgpu_flight_has_room(&flight, BOUND, 2));
  jvgpu_flight_clear(&flight);
  jvgpu_flight_launch(&flight, 0, 100000000, BOUND);
  CHECK("behind a tenth of a second there is none", !jvgpu_flight_has_room(&flight, BOUND, 2));
}

static void wrong_guesses_are_set_right(void)
{
  static jvgpu_flight_t flight;
  jvgpu_flight_launch(&flight, 0, 50000, BOUND);
  jvgpu_flight_fence(&flight, 0);
  jvgpu_flight_launch(&flight, 1, 30000, BOUND);
  jvgpu_flight_scale(&flight, 0.5);
  CHECK("all that is under way counts for half, fenced or not", flight.under_way_ns == 40000);
  jvgpu_flight_landed(&flight, 0);
  jvgpu_flight_landed(&flight, 1);
  CHECK("and nothing is left of it", flight.under_way_ns == 0 && flight.launches == 0);
}

static void what_stays_under_way_is_seen(void)
{
  static jvgpu_flight_t flight;
  jvgpu_flight_look(&flight);
  jvgpu_flight_launch(&flight, 0, 20000, BOUND);
  const int first = jvgpu_flight_fence(&flight, 0);
  jvgpu_flight_look(&flight);
  CHECK("what was launched since the last look may be all there was", !jvgpu_flight_is_busy(&flight));
  jvgpu_flight_launch(&flight, 0, 20000, BOUND);
  const int second = jvgpu_flight_fence(&flight, 0);
  jvgpu_flight_look(&flight);
  jvgpu_flight_passed(&flight, first);
  CHECK("what was under way at the last look and is over leaves the time between unknown",
        !jvgpu_flight_is_busy(&flight));
  jvgpu_flight_look(&flight);
  CHECK("what was and still is says that there was no pause", jvgpu_flight_is_busy(&flight));
  jvgpu_flight_passed(&flight, second);
  CHECK("with nothing under way there is one", !jvgpu_flight_is_busy(&flight));
}

// As drivers give them: one behind the other, as far apart as each is long.
static void stream_handles_are_told_apart(void)
{
  static const uintptr_t lengths[] = {8, 64, 96, 1040, 2584, 5168, 7608, 7752, 15432};
  for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    uint64_t places = 0;
    for (uintptr_t stream = 0; stream < 16; stream++) {
      places |= UINT64_C(1) << jvgpu_flight_place((const void *)(0x55d0c0de1000 + stream * lengths[i]));
    }
    CHECK("sixteen streams have ten places at least", __builtin_popcountll(places) >= 10);
  }
}

int main(void)
{
  fences_follow_work();
  streams_are_told_apart();
  fences_run_out();
  each_place_has_one_fence();
  what_has_no_fence_is_unseen();
  the_number_is_bounded_where_durations_are_guesses();
  room_for_one_more();
  wrong_guesses_are_set_right();
  what_stays_under_way_is_seen();
  stream_handles_are_told_apart();
  RESULT();
}
