#include "turns.h"

#include <stddef.h>
#include <string.h>

// What one walk through the schedule is for.
typedef struct sim_walk_s {
  sim_history_t *histories;   // NULL: only looking ahead
  uint32_t       watched;     // lane
  uint64_t       position;    // of the watched lane
  uint64_t       reached_ns;  // when it got there; 0 = not yet
} sim_walk_t;

static bool is_runnable(const sim_lane_t *lane)
{
  return atomic_load_explicit(&lane->owner, memory_order_relaxed) != 0 && lane->done < lane->goal;
}

static uint32_t lanes_of(const sim_turns_t *turns)
{
  return turns->lane_count > SIM_LANES ? SIM_LANES : turns->lane_count;
}

bool sim_turns_is_alone(const sim_turns_t *turns, uint32_t lane)
{
  for (uint32_t i = 0; i < lanes_of(turns); i++) {
    if (i != lane && is_runnable(&turns->lanes[i])) {
      return false;
    }
  }
  return true;
}

// returns: the lane after `after` (lane + 1, 0 = none) in the round that has work, plus one; 0 when none has
static uint32_t next_of(const sim_turns_t *turns, uint32_t after)
{
  const uint64_t place = after == 0 ? 0 : turns->lanes[after - 1].order;
  uint32_t       later = 0;
  uint32_t       first = 0;
  for (uint32_t i = 0; i < lanes_of(turns); i++) {
    const sim_lane_t *lane = &turns->lanes[i];
    if (!is_runnable(lane)) {
      continue;
    }
    if (lane->order > place && (later == 0 || lane->order < turns->lanes[later - 1].order)) {
      later = i + 1;
    }
    if (first == 0 || lane->order < turns->lanes[first - 1].order) {
      first = i + 1;
    }
  }
  return later != 0 ? later : first;
}

// ---- utilisation

static void roll(sim_turns_t *turns, uint64_t window)
{
  const bool is_next = window == turns->window + 1;
  for (uint32_t i = 0; i < lanes_of(turns); i++) {
    sim_lane_t *lane = &turns->lanes[i];
    lane->last_busy_ns = is_next ? lane->busy_ns : 0;
    lane->busy_ns = 0;
  }
  turns->last_busy_ns = is_next ? turns->busy_ns : 0;
  turns->last_sm_ns = is_next ? turns->sm_ns : 0;
  turns->busy_ns = 0;
  turns->sm_ns = 0;
  turns->window = window;
}

static void count(sim_turns_t *turns, uint64_t busy_ns, uint64_t sm_ns)
{
  turns->busy_ns += busy_ns;
  turns->sm_ns += sm_ns;
  turns->total_busy_ns += busy_ns;
  turns->total_sm_ns += sm_ns;
}

// ---- execution

// returns: when the lane got to `position`, or to the nearest one of the span
// In floating point: products of two times of seconds do not fit, and it is exact to a nanosecond for weeks.
static uint64_t moment_in(const sim_span_t *span, uint64_t position)
{
  if (position <= span->start || span->end <= span->start) {
    return span->from_ns;
  }
  if (position >= span->end) {
    return span->until_ns;
  }
  const double pace = (double)(span->until_ns - span->from_ns) / (double)(span->end - span->start);
  return span->from_ns + (uint64_t)((double)(position - span->start) * pace);
}

static void remember(sim_history_t *history, uint64_t *count, sim_span_t span)
{
  sim_span_t *place = &history->spans[*count % SIM_SPANS];
  if (*count >= SIM_SPANS && place->end > history->wanted) {
    // One with the next. It begins at what is asked for: what was told earlier is before all that will be.
    sim_span_t *next = &history->spans[(*count + 1) % SIM_SPANS];
    next->from_ns = moment_in(place, history->wanted);
    next->start = place->start > history->wanted ? place->start : history->wanted;
  }
  *place = span;
  ++*count;
}

// returns: true when `span`, which follows `last`, goes on at its pace (which changes under MPS): the moment between the
// two can then be told, to two nanoseconds, from where both together begin and end
static bool is_as_fast(const sim_span_t *last, const sim_span_t *span)
{
  const sim_span_t both = {
      .from_ns = last->from_ns, .until_ns = span->until_ns, .start = last->start, .end = span->end};
  const uint64_t told_ns = moment_in(&both, span->start);
  return told_ns + 2 >= span->from_ns && told_ns <= span->from_ns + 2;
}

static void note(sim_walk_t *walk, sim_turns_t *turns, uint32_t number, uint64_t from, uint64_t until, uint64_t amount)
{
  sim_lane_t      *lane = &turns->lanes[number];
  const sim_span_t span = {.from_ns = from, .until_ns = until, .start = lane->done, .end = lane->done + amount};
  lane->done = span.end;
  if (walk->histories == NULL) {
    if (number == walk->watched && span.end >= walk->position && walk->reached_ns == 0) {
      walk->reached_ns = moment_in(&span, walk->position);
    }
    return;
  }
  lane->busy_ns += until - from;
  sim_history_t *history = &walk->histories[number];
  sim_span_t    *last = &history->spans[(lane->span_count + SIM_SPANS - 1) % SIM_SPANS];
  if (lane->span_count > 0 && last->until_ns == from && last->end == span.start && is_as_fast(last, &span)) {
    last->until_ns = until;
    last->end = span.end;
  } else {
    remember(history, &lane->span_count, span);
  }
}

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static void run_dry(sim_turns_t *turns, uint32_t number)
{
  if (turns->lanes[number].done >= turns->lanes[number].goal) {
    turns->lanes[number].dry_since_ns = turns->now_ns;
  }
}

// One stretch of one lane, or of the device changing over, or of nothing.
static void step(sim_turns_t *turns, uint64_t to, sim_walk_t *walk)
{
  if (turns->holder > SIM_LANES || (turns->holder != 0 && !is_runnable(&turns->lanes[turns->holder - 1]))) {
    turns->holder = 0;
  }
  if (turns->holder == 0) {
    const uint32_t last = turns->last > SIM_LANES ? 0 : turns->last;
    const uint32_t next = next_of(turns, last);
    if (next == 0) {
      turns->now_ns = to;
      return;
    }
    // Who comes back before anybody else had a turn goes on with the one it had.
    turns->holder = next;
    if (last != next) {
      turns->ready_at_ns = last == 0 ? 0 : turns->now_ns + SIM_YIELD_NS;
      turns->slice_left_ns = SIM_TURN_NS;
    }
    turns->last = next;
  }
  if (turns->ready_at_ns > turns->now_ns) {
    turns->now_ns = least(turns->ready_at_ns, to);
    return;
  }
  const uint32_t number = turns->holder - 1;
  sim_lane_t    *lane = &turns->lanes[number];
  const uint32_t next = next_of(turns, turns->holder);
  const bool     is_alone = next == turns->holder;
  if (!is_alone && turns->slice_left_ns == 0) {
    turns->holder = turns->last = next;
    turns->ready_at_ns = turns->now_ns + SIM_SWITCH_NS;
    turns->slice_left_ns = SIM_TURN_NS;
    return;
  }
  uint64_t amount = least(lane->goal - lane->done, to - turns->now_ns);
  amount = is_alone ? amount : least(amount, turns->slice_left_ns);
  note(walk, turns, number, turns->now_ns, turns->now_ns + amount, amount);
  count(turns, amount, amount * lane->demand_ppm / 1000000u);
  turns->slice_left_ns -= least(amount, turns->slice_left_ns);
  turns->now_ns += amount;
  run_dry(turns, number);
}

// Under MPS all lanes run at once, slower where together they want more SMs than there are.
static void step_together(sim_turns_t *turns, uint64_t to, sim_walk_t *walk)
{
  uint64_t wanted_ppm = 0;
  uint64_t shortest = UINT64_MAX;
  for (uint32_t i = 0; i < lanes_of(turns); i++) {
    const sim_lane_t *lane = &turns->lanes[i];
    if (is_runnable(lane)) {
      wanted_ppm += lane->demand_ppm;
      shortest = least(shortest, lane->goal - lane->done);
    }
  }
  if (shortest == UINT64_MAX) {
    turns->now_ns = to;
    return;
  }
  const uint64_t pace_ppm = wanted_ppm > 1000000u ? 1000000000000u / wanted_ppm : 1000000u;
  const uint64_t from = turns->now_ns;
  // Long work in pieces, so that the products fit.
  shortest = least(shortest, 1000000000u);
  uint64_t until = from + (shortest * 1000000u + pace_ppm - 1) / pace_ppm;
  uint64_t amount = shortest;
  if (until > to) {
    until = to;
    amount = least((to - from) * pace_ppm / 1000000u, shortest);
  }
  turns->now_ns = until;
  count(turns, until - from, (until - from) * least(wanted_ppm, 1000000u) / 1000000u);
  for (uint32_t i = 0; i < lanes_of(turns); i++) {
    if (is_runnable(&turns->lanes[i])) {
      note(walk, turns, i, from, until, amount);
      run_dry(turns, i);
    }
  }
}

static void walk_one(sim_turns_t *turns, uint64_t to, sim_walk_t *walk)
{
  if (turns->is_mps != 0) {
    step_together(turns, to, walk);
  } else {
    step(turns, to, walk);
  }
}

void sim_turns_advance(sim_domain_t *domain, uint64_t to_ns)
{
  enum { MOST_STEPS = 1000000 };
  sim_turns_t *turns = &domain->turns;
  sim_walk_t   walk = {.histories = domain->histories};
  // More than any real past holds; whatever then is left did not happen.
  for (uint32_t i = 0; i < MOST_STEPS && turns->now_ns < to_ns; i++) {
    const uint64_t window = turns->now_ns >> SIM_WINDOW_SHIFT;
    if (window != turns->window) {
      roll(turns, window);
    }
    walk_one(turns, least(to_ns, (window + 1) << SIM_WINDOW_SHIFT), &walk);
    if (turns->holder == 0 && next_of(turns, 0) == 0) {
      turns->now_ns = to_ns;
    }
  }
  turns->now_ns = turns->now_ns > to_ns ? turns->now_ns : to_ns;
  if (turns->now_ns >> SIM_WINDOW_SHIFT != turns->window) {
    roll(turns, turns->now_ns >> SIM_WINDOW_SHIFT);
  }
}

// ---- lanes

uint32_t sim_turns_take_lane(sim_domain_t *domain, uint64_t owner)
{
  sim_turns_t *turns = &domain->turns;
  uint64_t     last_order = 0;
  uint32_t     found = SIM_LANES;
  for (uint32_t i = 0; i < SIM_LANES; i++) {
    const bool is_free = atomic_load(&turns->lanes[i].owner) == 0;
    found = is_free && found == SIM_LANES ? i : found;
    if (!is_free && turns->lanes[i].order > last_order) {
      last_order = turns->lanes[i].order;
    }
  }
  if (found == SIM_LANES) {
    return SIM_LANES;
  }
  sim_lane_t *lane = &turns->lanes[found];
  memset(lane, 0, sizeof *lane);
  lane->order = last_order + 1;
  domain->histories[found].wanted = UINT64_MAX;
  atomic_store(&lane->owner, owner);
  if (found >= turns->lane_count) {
    turns->lane_count = found + 1;
  }
  return found;
}

void sim_turns_drop_lane(sim_turns_t *turns, uint32_t number)
{
  // The round goes on from the place it had: `last` still points there.
  atomic_store(&turns->lanes[number].owner, 0);
  if (turns->holder == number + 1) {
    turns->holder = 0;
  }
}

void sim_turns_queue(sim_turns_t *turns, uint32_t number, uint64_t goal, uint32_t demand_ppm)
{
  sim_lane_t *lane = &turns->lanes[number];
  const bool  was_dry = lane->done >= lane->goal;
  lane->demand_ppm = demand_ppm;
  lane->goal = goal > lane->goal ? goal : lane->goal;
  if (!was_dry || lane->done >= lane->goal || turns->holder == 0 || turns->holder == number + 1 ||
      turns->holder > SIM_LANES) {
    return;
  }
  // The newcomer is the last of the round: its place is the one before the holder's.
  const uint64_t place = turns->lanes[turns->holder - 1].order;
  for (uint32_t i = 0; i < lanes_of(turns); i++) {
    turns->lanes[i].order += turns->lanes[i].order >= place;
  }
  lane->order = place;
  // After a long absence the round begins anew with the holder; who was alone until now, its turn counts from now.
  if (turns->now_ns - lane->dry_since_ns > SIM_LINGER_NS || turns->slice_left_ns == 0) {
    turns->slice_left_ns = SIM_TURN_NS;
  }
}

// ---- the future and the past

uint64_t sim_turns_predict(const sim_turns_t *turns, uint32_t lane, uint64_t position, uint64_t limit_ns)
{
  sim_turns_t copy;
  sim_walk_t  walk = {.watched = lane, .position = position};
  if (turns->lanes[lane].done >= position || turns->lanes[lane].goal < position) {
    return turns->now_ns;
  }
  memcpy(&copy, turns, offsetof(sim_turns_t, lanes) + lanes_of(turns) * sizeof copy.lanes[0]);
  while (walk.reached_ns == 0 && copy.now_ns < limit_ns) {
    walk_one(&copy, limit_ns, &walk);
  }
  return walk.reached_ns != 0 ? least(walk.reached_ns, limit_ns) : limit_ns;
}

bool sim_turns_moment(const sim_domain_t *domain, uint32_t lane, uint64_t position, uint64_t *moment_ns)
{
  const sim_lane_t *of = &domain->turns.lanes[lane];
  if (of->done <= position || of->span_count == 0) {
    return false;
  }
  const uint64_t oldest = of->span_count > SIM_SPANS ? of->span_count - SIM_SPANS : 0;
  for (uint64_t i = of->span_count; i-- > oldest;) {
    const sim_span_t *span = &domain->histories[lane].spans[i % SIM_SPANS];
    if (span->start <= position || i == oldest) {
      *moment_ns = moment_in(span, position);
      return true;
    }
  }
  return false;
}
