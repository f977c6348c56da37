// The schedule, on paper: no clock, no processes.

#include <stdlib.h>

#include "check.h"
#include "turns.h"

enum { MS = 1000000 };

static sim_domain_t *domain;

static uint32_t lane_with(uint64_t work_ns)
{
  const uint32_t lane = sim_turns_take_lane(domain, 1 + domain->turns.lane_count);
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

// Catches a bug where the moments of one stretch longer than four seconds were numbers that did not fit.
static void test_long_stretch(void)
{
  uint64_t moment = 0;
  fresh();
  const uint32_t lane = lane_with(100000ull * MS);
  CHECK("the end of long work is foreseen",
        sim_turns_predict(&domain->turns, lane, 70000ull * MS, UINT64_MAX) == 71000ull * MS);
  sim_turns_advance(domain, 91000ull * MS);
  CHECK("a moment in it is remembered",
        sim_turns_moment(domain, lane, 80000ull * MS, &moment) && moment == 81000ull * MS);
}

// Catches a bug where what began more turns ago than are remembered began, and ended, with the oldest of them.
static void test_many_turns(void)
{
  enum { EVENTS = 40, APART_NS = 50 * MS };
  static uint64_t moments[EVENTS];
  const uint64_t  round = 2 * (SIM_TURN_NS + SIM_SWITCH_NS);
  fresh();
  const uint32_t one = lane_with(10000ull * MS);
  lane_with(10000ull * MS);
  domain->histories[one].wanted = APART_NS;
  sim_turns_advance(domain, 1000ull * MS + 2000 * round);
  uint64_t worst_ns = 0;
  for (uint64_t i = 0; i < EVENTS; i++) {
    const uint64_t position = (i + 1) * APART_NS;
    const uint64_t truth = 1000ull * MS + position / SIM_TURN_NS * round + position % SIM_TURN_NS;
    if (!sim_turns_moment(domain, one, position, &moments[i]) || (i > 0 && moments[i] <= moments[i - 1])) {
      worst_ns = UINT64_MAX;
      break;
    }
    const uint64_t wrong_ns = moments[i] > truth ? moments[i] - truth : truth - moments[i];
    worst_ns = wrong_ns > worst_ns ? wrong_ns : worst_ns;
    CHECK("the first that is asked for is known exactly", i > 0 || wrong_ns == 0);
  }
  CHECK("all others to a round, and one after the other", worst_ns < round);
}

// However often somebody asks meanwhile, and however many turns lie in between: positions in the order of their moments.
static void test_order(void)
{
  enum { EVENTS = 2000 };
  static uint64_t positions[EVENTS];
  uint64_t        last_ns = 0;
  uint32_t        queued = 0;
  uint32_t        asked = 0;
  unsigned int    seed = 7;
  bool            in_order = true;
  for (uint32_t is_mps = 0; is_mps < 2; is_mps++) {
    fresh();
    domain->turns.is_mps = is_mps;
    const uint32_t lanes[] = {lane_with(1), lane_with(1), lane_with(1)};
    uint64_t       now_ns = 1000ull * MS;
    for (last_ns = queued = asked = 0; queued < EVENTS;) {
      const uint32_t lane = lanes[rand_r(&seed) % 3];
      const uint64_t from = domain->turns.lanes[lane].goal;
      now_ns += (uint64_t)rand_r(&seed) % (rand_r(&seed) % 50 == 0 ? 900 * MS : 1 * MS);
      sim_turns_advance(domain, now_ns);
      if (from < domain->turns.lanes[lane].done + 3000ull * MS) {
        if (lane == lanes[0]) {
          positions[queued++] = from;
          domain->histories[lane].wanted = positions[asked];
        }
        // The demands differ by a thousandth, so that under MPS the pace changes all the time, and hardly.
        sim_turns_queue(&domain->turns, lane, from + (uint64_t)rand_r(&seed) % (20 * MS) + 1,
                        900000 + (uint32_t)rand_r(&seed) % 900);
      }
      uint64_t moment = 0;
      while (rand_r(&seed) % 3 == 0 && asked < queued &&
             sim_turns_moment(domain, lanes[0], positions[asked], &moment)) {
        in_order = in_order && moment + 2 >= last_ns && moment <= now_ns;
        last_ns = moment;
        asked++;
        domain->histories[lanes[0]].wanted = asked < queued ? positions[asked] : UINT64_MAX;
      }
    }
    CHECK("what comes later in a context's work is never said to be earlier", in_order && asked > EVENTS / 2);
  }
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
  const uint32_t rare = sim_turns_take_lane(domain, 99);
  sim_turns_advance(domain, 1050ull * MS);
  sim_turns_queue(&domain->turns, rare, 20000, 1000000);
  CHECK("who comes now and then waits for a whole turn", sim_turns_predict(&domain->turns, rare, 20000, UINT64_MAX) ==
                                                             1050ull * MS + SIM_TURN_NS + SIM_SWITCH_NS + 20000);
  sim_turns_advance(domain, 1053ull * MS);
  CHECK("and hands on at once", done(rare) == 20000 && done(busy) > 50ull * MS + SIM_TURN_NS);
}

static void test_coming_back(void)
{
  fresh();
  lane_with(1000ull * MS);
  lane_with(1000ull * MS);
  const uint32_t one = lane_with(100000);
  const uint32_t other = lane_with(100000);
  // Both have run dry, and the round has gone on.
  sim_turns_advance(domain, 1005ull * MS);
  CHECK("both are done", done(one) == 100000 && done(other) == 100000);
  sim_turns_queue(&domain->turns, other, MS, 1000000);
  sim_turns_advance(domain, domain->turns.now_ns + 100000);
  sim_turns_queue(&domain->turns, one, MS, 1000000);
  CHECK("who comes back first has its turn first", sim_turns_predict(&domain->turns, other, MS, UINT64_MAX) <
                                                       sim_turns_predict(&domain->turns, one, 100001, UINT64_MAX));
}

// Queues a neighbour's next batch, once its host has seen the end of the last one; every batch is a little longer than a turn.
static void keep_busy(uint32_t lane)
{
  enum { BATCH_NS = SIM_TURN_NS + 3200, HOST_NS = 10000 };
  const sim_lane_t *of = &domain->turns.lanes[lane];
  if (of->done == of->goal && domain->turns.now_ns >= of->dry_since_ns + HOST_NS) {
    sim_turns_queue(&domain->turns, lane, of->goal + BATCH_NS, 1000000);
  }
}

// Catches a bug where it was chance how long a burst waited beside three whose batches are as long as a turn: who had its
// batch's short end before it made the others' wait less. `begun` says who is at such an end when it starts.
// returns: the longest of the burst's waits once it has come back a few times, less the shortest
static uint64_t spread_of_waits(uint32_t begun, uint64_t *longest_ns)
{
  enum { NEIGHBOURS = 3, BURSTS = 20, SETTLED = 5, BURST_NS = 210000, PAUSE_NS = 2 * MS, STEP_NS = 1000 };
  uint32_t neighbours[NEIGHBOURS];
  uint64_t shortest_ns = UINT64_MAX;
  fresh();
  for (uint32_t i = 0; i < NEIGHBOURS; i++) {
    neighbours[i] = lane_with((begun >> i & 1) != 0 ? 2000 : SIM_TURN_NS + 3200);
  }
  const uint32_t burst = lane_with(BURST_NS);
  uint64_t       queued_ns = domain->turns.now_ns;
  *longest_ns = 0;
  for (uint32_t bursts = 0; bursts < BURSTS;) {
    const sim_lane_t *of = &domain->turns.lanes[burst];
    sim_turns_advance(domain, domain->turns.now_ns + STEP_NS);
    for (uint32_t i = 0; i < NEIGHBOURS; i++) {
      keep_busy(neighbours[i]);
    }
    if (of->done == of->goal && domain->turns.now_ns >= of->dry_since_ns + PAUSE_NS) {
      const uint64_t wait_ns = of->dry_since_ns - queued_ns;
      if (bursts >= SETTLED) {
        *longest_ns = wait_ns > *longest_ns ? wait_ns : *longest_ns;
        shortest_ns = wait_ns < shortest_ns ? wait_ns : shortest_ns;
      }
      bursts++;
      queued_ns = domain->turns.now_ns;
      sim_turns_queue(&domain->turns, burst, of->goal + BURST_NS, 1000000);
    }
  }
  return *longest_ns - shortest_ns;
}

static void test_batches_as_long_as_a_turn(void)
{
  uint32_t whole_rounds = 0;
  for (uint32_t begun = 0; begun < 8; begun++) {
    uint64_t       longest_ns;
    const uint64_t spread_ns = spread_of_waits(begun, &longest_ns);
    CHECK("a burst waits as long every time, wherever its neighbours began", spread_ns < 200000);
    whole_rounds += longest_ns > 4800000 && longest_ns < 5400000;
  }
  CHECK("a whole round less its pause, but where one of three is always at its short end", whole_rounds == 6);
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
  test_long_stretch();
  test_many_turns();
  test_order();
  test_lost_turn();
  test_newcomer();
  test_coming_back();
  test_batches_as_long_as_a_turn();
  test_together();
  test_utilisation();
  test_odd_values();
  free(domain);
  RESULT();
}
