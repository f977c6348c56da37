// How long a process can have had the GPU for: what was charged beyond that is told.

#include "held.h"

#include <stddef.h>

#include "check.h"

#define MS UINT64_C(1000000)
#define BEGUN (100 * MS)

static jvgpu_held_t begun(void)
{
  jvgpu_held_t held = {.looked_ns = 0};
  CHECK("what was charged before the first look is let be", jvgpu_held_look(&held, BEGUN, 5000 * MS, 0, false) == 0);
  return held;
}

static void what_there_was_time_for_stands(void)
{
  jvgpu_held_t held = begun();
  CHECK("as much as there was time for is believed", jvgpu_held_look(&held, BEGUN + 20 * MS, 5020 * MS, 0, false) == 0);
  CHECK("three times as much is not", jvgpu_held_look(&held, BEGUN + 30 * MS, 5050 * MS, 0, false) == 20 * MS);
  CHECK("what was told once is not told again", jvgpu_held_look(&held, BEGUN + 40 * MS, 5060 * MS, 0, false) == 0);
}

static void means_are_let_be(void)
{
  jvgpu_held_t held = begun();
  jvgpu_held_look(&held, BEGUN + 30 * MS, 5020 * MS, 0, false);
  CHECK("launches that take less make up for those before them that took more",
        jvgpu_held_look(&held, BEGUN + 40 * MS, 5040 * MS, 0, false) == 0);
  jvgpu_held_look(&held, BEGUN + 10000 * MS, 5040 * MS, 0, false);
  CHECK("but who did nothing for long has not saved that up",
        jvgpu_held_look(&held, BEGUN + 10010 * MS, 6050 * MS, 0, false) == 980 * MS);
}

static void closed_gates_give_no_time(void)
{
  jvgpu_held_t held = begun();
  jvgpu_held_look(&held, BEGUN + 10 * MS, 5010 * MS, 0, true);
  jvgpu_held_look(&held, BEGUN + 60 * MS, 5010 * MS, 0, true);
  jvgpu_held_look(&held, BEGUN + 110 * MS, 5010 * MS, 0, false);
  CHECK("what others had while all was over and the gate closed is not this one's",
        jvgpu_held_look(&held, BEGUN + 130 * MS, 5080 * MS, 0, false) == 50 * MS);
}

static void what_nobody_sees_the_end_of_says_nothing(void)
{
  jvgpu_held_t held = begun();
  jvgpu_held_forget(&held);
  CHECK("after a launch that is not looked at it begins anew",
        jvgpu_held_look(&held, BEGUN + 10 * MS, 5500 * MS, 0, false) == 0);
  CHECK("and goes on from there", jvgpu_held_look(&held, BEGUN + 20 * MS, 5530 * MS, 0, false) == 20 * MS);
}

static void launches_of_unknown_duration_are_not_counted_twice(void)
{
  jvgpu_held_t held = begun();
  jvgpu_held_look(&held, BEGUN + 1 * MS, 5001 * MS, 50 * MS, false);
  CHECK("what is under way and not charged makes nothing over again when it ends",
        jvgpu_held_look(&held, BEGUN + 2 * MS, 5002 * MS, 0, false) == 0);
}

static void long_launches_had_their_time(void)
{
  jvgpu_held_t held = begun();
  for (uint64_t at = 1; at < 100; at++) {
    jvgpu_held_look(&held, BEGUN + at * MS, 5100 * MS, 100 * MS, false);
  }
  CHECK("however often it is looked at while a launch of a tenth of a second is under way, that is believed",
        jvgpu_held_look(&held, BEGUN + 100 * MS, 5100 * MS, 0, false) == 0);
  CHECK("nor is more saved up by it", jvgpu_held_look(&held, BEGUN + 100 * MS, 5150 * MS, 0, false) >= 30 * MS);
}

int main(void)
{
  what_there_was_time_for_stands();
  means_are_let_be();
  closed_gates_give_no_time();
  launches_of_unknown_duration_are_not_counted_twice();
  long_launches_had_their_time();
  what_nobody_sees_the_end_of_says_nothing();
  RESULT();
}
