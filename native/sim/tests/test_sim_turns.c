// The schedule, on paper: no clock, no processes.

#include <stdlib.h>

#include "check.h"
#include "turns.h"

enum { MS = 1000000 };

static sim_domain_t *domain;

static uint32_t lane_with(uint64_t work_ns)
{
  const uint32_t lane = sim_turns_take_lane(&domain->turns, 1 + domain->turns.lane_count);
  sim_turns_queue(&domain->turns, lane, work_ns, 1000000);
  return lane;
}

static uint64_t done(uint32_t lane)
{
  return domain->turns.lanes[lane].done;
}

static void fresh(void)
{
  free(domain);
  domain = calloc(1, sizeof *domain);
  sim_turns_advance(domain, 1000ull * MS);
}

static void test_alone(void)
{
  uint64_t moment = 0;
  fresh();
  const uint32_t lane = lane_with(30 * MS);
  sim_turns_advance(domain, 1010ull * MS);
  CHECK("one alone loses nothing", done(lane) == 10 * MS);
  CHECK("and is done when its work is over",
        sim_turns_predict(&domain->turns, lane, 30 * MS, UINT64_MAX) == 1030ull * MS);
  sim_turns_advance(domain, 1100ull * MS);
  CHECK("a position's moment is remembered",
        sim_turns_moment(domain, lane, 20 * MS, &moment) && moment == 1020ull * MS);
  CHECK("what was not executed has none", !sim_turns_moment(domain, lane, 30 * MS, &moment));
}

static void test_two(void)
{
  fresh();
  const uint32_t one = lane_with(1000ull * MS);
  const uint32_t two = lane_with(1000ull * MS);
  const uint64_t round = 2 * (SIM_TURN_NS + SIM_SWITCH_NS);
  sim_turns_advance(domain, 1000ull * MS + 100 * round);
  CHECK("two get the same", done(one) == 100 * (uint64_t)SIM_TURN_NS && done(two) == done(one));
  const uint64_t foreseen = sim_turns_predict(&domain->turns, two, done(two) + MS, UINT64_MAX);
  sim_turns_advance(domain, foreseen - 1);
  CHECK("what is foreseen has not come a moment before", done(two) < 100 * (uint64_t)SIM_TURN_NS + MS);
  sim_turns_advance(domain, foreseen);
  CHECK("and has come then", done(two) == 100 * (uint64_t)SIM_TURN_NS + MS);
  sim_turns_drop_lane(&domain->turns, one);
  const uint64_t before = done(two);
  sim_turns_advance(domain, domain->turns.now_ns + 10 * MS);
  CHECK("who is left has the rest, but for a switch", done(two) - before >= 10 * MS - SIM_SWITCH_NS);
}

static void test_lost_turn(void)
{
  uint64_t first = 0;
  uint64_t second = 0;
  fresh();
  const uint32_t one = lane_with(1000ull * MS);
  lane_with(1000ull * MS);
  sim_turns_advance(domain, 1020ull * MS);
  CHECK("both moments are known", sim_turns_moment(domain, one, SIM_TURN_NS - 1000, &first) &&
                                      sim_turns_moment(domain, one, SIM_TURN_NS + 1000, &second));
  CHECK("a lost turn is a step", second - first == 2000 + SIM_TURN_NS + 2 * SIM_SWITCH_NS);
}

static void test_newcomer(void)
{
  fresh();
  const uint32_t busy = lane_with(1000ull * MS);
  const uint32_t rare = sim_turns_take_lane(&domain->turns, 99);
  sim_turns_advance(domain, 1050ull * MS);
  sim_turns_queue(&domain->turns, rare, 20000, 1000000);
  CHECK("who comes now and then waits for a whole turn", sim_turns_predict(&domain->turns, rare, 20000, UINT64_MAX) ==
                                                             1050ull * MS + SIM_TURN_NS + SIM_SWITCH_NS + 20000);
  sim_turns_advance(domain, 1053ull * MS);
  CHECK("and hands on at once", done(rare) == 20000 && done(busy) > 50ull * MS + SIM_TURN_NS);
}

static void test_together(void)
{
  fresh();
  domain->turns.is_mps = 1;
  const uint32_t one = lane_with(100 * MS);
  const uint32_t two = lane_with(100 * MS);
  domain->turns.lanes[one].demand_ppm = domain->turns.lanes[two].demand_ppm = 400000;
  sim_turns_advance(domain, 1010ull * MS);
  CHECK("under MPS what fits runs at full pace", done(one) == 10 * MS && done(two) == 10 * MS);
  domain->turns.lanes[two].demand_ppm = 1000000;
  domain->turns.lanes[one].demand_ppm = 1000000;
  sim_turns_advance(domain, 1020ull * MS);
  CHECK("and what does not, at half", done(one) == 15 * MS && done(two) == 15 * MS);
}

static void test_utilisation(void)
{
  fresh();
  const uint32_t one = lane_with(10000ull * MS);
  lane_with(10000ull * MS);
  sim_turns_advance(domain, 2000ull * MS);
  const uint64_t window = 1ull << SIM_WINDOW_SHIFT;
  CHECK("the board was busy but for the switching",
        domain->turns.last_busy_ns > window * 90 / 100 && domain->turns.last_busy_ns < window * 92 / 100);
  CHECK("each had its half", domain->turns.lanes[one].last_busy_ns > window * 43 / 100 &&
                                 domain->turns.lanes[one].last_busy_ns < window * 48 / 100);
}

static void test_odd_values(void)
{
  fresh();
  lane_with(10 * MS);
  domain->turns.holder = 4000000000u;
  domain->turns.last = 4000000000u;
  domain->turns.lane_count = 4000000000u;
  sim_turns_advance(domain, 1100ull * MS);
  CHECK("values that cannot be are survived", done(0) == 10 * MS);
}

int main(void)
{
  test_alone();
  test_two();
  test_lost_turn();
  test_newcomer();
  test_together();
  test_utilisation();
  test_odd_values();
  free(domain);
  RESULT();
}
