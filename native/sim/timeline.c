// When work is done: streams as positions in their context's time.
//
// What is submitted takes effect at once, in the order of submission; here it is only said how long it takes. The
// legacy stream starts after all blocking streams and they after it. Small launches of several streams run at the
// same time while there are SMs for them.

#include <stdlib.h>
#include <string.h>

#include "driver.h"

// source: measured on an H200 with driver 580, docs/simulated-board.md
enum {
  QUEUE_LAUNCHES = 1021,     // of a stream, before the host waits
  LAUNCH_HOST_NS = 4600,     // a launch takes the host
  MPS_LAUNCH_HOST_NS = 5600, // and a client of an MPS server
  START_NS = 650,            // until a launch starts that does not follow another in its stream
  LOOK_AGAIN_NS = 4000000    // others may die or run dry earlier than foreseen
};

// ---- the context's lane

// pre of all `in_*`: the domain entered

static void enter(CUcontext context, uint64_t *now)
{
  *now = sim_domain_enter(sim_process.shared, context->domain);
  sim_events_settle(context);
}

static void leave(CUcontext context)
{
  sim_domain_unlock(sim_domain(context));
}

static bool in_has_lane(CUcontext context)
{
  if (context->lane == SIM_LANES && sim_context_is_alive(context)) {
    context->lane = sim_turns_take_lane(sim_domain(context), sim_shared_identity());
  }
  return context->lane < SIM_LANES;
}

void sim_lane_drop(CUcontext context)
{
  uint64_t now;
  if (context->lane == SIM_LANES) {
    return;
  }
  enter(context, &now);
  sim_events_cut(context, now);
  sim_turns_drop_lane(&sim_domain(context)->turns, context->lane);
  context->lane = SIM_LANES;
  leave(context);
}

static sim_lane_t *lane_of(CUcontext context)
{
  return &sim_domain(context)->turns.lanes[context->lane];
}

static uint64_t in_position(CUstream stream)
{
  uint64_t until = stream->until;
  if ((stream->flags & SIM_STREAM_NON_BLOCKING) == 0) {
    const uint64_t other = stream->is_legacy ? stream->context->blocking_until : stream->context->legacy->until;
    until = other > until ? other : until;
  }
  return until;
}

static void in_hold(CUstream stream, uint64_t position)
{
  stream->until = position > stream->until ? position : stream->until;
  if (!stream->is_legacy && (stream->flags & SIM_STREAM_NON_BLOCKING) == 0 &&
      position > stream->context->blocking_until) {
    stream->context->blocking_until = position;
  }
}

// How far the lane will be when the host's clock, which may be ahead of the real one, says now.
static uint64_t in_arrival(CUcontext context, uint64_t now)
{
  sim_unit_t *unit = &sim_thread.unit;
  if (unit->is_open && unit->context == context) {
    return unit->arrival;
  }
  const uint64_t ahead = sim_thread.host_ns > now ? sim_thread.host_ns - now : 0;
  const bool     is_alone = sim_turns_is_alone(&sim_domain(context)->turns, context->lane);
  const uint64_t arrival = lane_of(context)->done + (is_alone ? ahead : 0);
  if (unit->is_open) {
    *unit = (sim_unit_t){.is_open = true, .context = context, .arrival = arrival};
  }
  return arrival;
}

// To submit. What stands beside a timing event, where the device has nothing left to do before it, can be compared
// with the host's own clock: so there the host must really be where the thread's clock says. For other work a queue
// or nobody's clock is between the two, and the thread may run ahead.
static void enter_to_submit(CUstream stream, bool is_timing, uint64_t *now)
{
  CUcontext context = stream->context;
  enter(context, now);
  if (sim_thread.host_ns <= *now || sim_thread.unit.context == context || !in_has_lane(context)) {
    return;
  }
  const uint64_t position = in_position(stream);
  const bool     is_beside = is_timing || (position != 0 && stream->timing_end == position);
  if (is_beside && position <= in_arrival(context, *now)) {
    leave(context);
    sim_host_catch_up();
    enter(context, now);
  }
}

// The context's SMs in groups, each free from some position on. A launch takes those that became free last, so that
// the ones which are free for long stay so for others.
// returns: where the launch starts, at `wanted` at the earliest
static uint64_t in_take_sms(CUcontext context, uint64_t wanted, uint64_t duration, uint32_t groups)
{
  uint64_t *free_at = context->groups_free_at;  // ascending
  uint32_t  ready = 0;
  while (ready < SIM_SM_GROUPS && free_at[ready] <= wanted) {
    ready++;
  }
  const uint32_t first = ready >= groups ? ready - groups : 0;
  const uint64_t start = ready >= groups ? wanted : free_at[groups - 1];
  uint32_t       last = first + groups;
  for (; last < SIM_SM_GROUPS && free_at[last] < start + duration; last++) {
    free_at[last - groups] = free_at[last];
  }
  for (uint32_t i = last - groups; i < last; i++) {
    free_at[i] = start + duration;
  }
  return start;
}

// Which part of the SMs the lane's work fills, over what it queued lately.
static uint32_t in_demand_ppm(CUcontext context, uint64_t goal_growth, uint64_t sm_ns)
{
  enum { LATELY_NS = 5000000, LEAST_PPM = 20000 };
  context->lately_ns += goal_growth;
  context->lately_sm_ns += sm_ns;
  if (context->lately_ns > LATELY_NS) {
    context->lately_ns /= 2;
    context->lately_sm_ns /= 2;
  }
  const uint64_t ppm = context->lately_ns == 0 ? 1000000u : context->lately_sm_ns * 1000000u / context->lately_ns;
  return ppm > 1000000u ? 1000000u : ppm < LEAST_PPM ? LEAST_PPM : (uint32_t)ppm;
}

static void in_queue(CUstream stream, uint64_t start, uint64_t duration, uint64_t sm_ns)
{
  CUcontext      context = stream->context;
  sim_unit_t    *unit = &sim_thread.unit;
  const bool     is_unit = unit->is_open && unit->context == context;
  const uint64_t queued = lane_of(context)->goal;
  const uint64_t goal = is_unit && unit->goal > queued ? unit->goal : queued;
  const uint64_t end = start + duration;
  const uint32_t demand_ppm = in_demand_ppm(context, end > goal ? end - goal : 0, sm_ns);
  in_hold(stream, end);
  if (is_unit) {
    unit->goal = end > goal ? end : goal;
    unit->demand_ppm = demand_ppm;
  } else {
    sim_turns_queue(&sim_domain(context)->turns, context->lane, end, demand_ppm);
  }
}

void sim_unit_begin(void)
{
  sim_thread.unit = (sim_unit_t){.is_open = true};
}

void sim_unit_end(void)
{
  const sim_unit_t unit = sim_thread.unit;
  uint64_t         now;
  sim_thread.unit = (sim_unit_t){.is_open = false};
  if (unit.context != NULL && unit.goal > 0) {
    enter(unit.context, &now);
    if (unit.context->lane < SIM_LANES) {
      sim_turns_queue(&sim_domain(unit.context)->turns, unit.context->lane, unit.goal, unit.demand_ppm);
    }
    leave(unit.context);
  }
}

static uint64_t submit(CUstream stream, uint64_t duration_ns, CUevent timing)
{
  uint64_t now;
  uint64_t start = 0;
  enter_to_submit(stream, timing != NULL, &now);
  if (in_has_lane(stream->context)) {
    const uint64_t position = in_position(stream);
    const uint64_t arrival = in_arrival(stream->context, now);
    start = position > arrival ? position : arrival;
    if (duration_ns > 0) {
      in_queue(stream, start, duration_ns, 0);
    }
  }
  if (timing != NULL) {
    stream->timing_end = stream->until;
    sim_events_add(stream->context, timing, start, start + duration_ns);
  }
  leave(stream->context);
  return start;
}

uint64_t sim_submit(CUstream stream, uint64_t duration_ns)
{
  return submit(stream, duration_ns, NULL);
}

void sim_submit_timing(CUstream stream, uint64_t duration_ns, CUevent event)
{
  submit(stream, duration_ns, event);
}

// ---- asking and waiting

uint64_t sim_stream_position(CUstream stream)
{
  sim_domain_lock(sim_domain(stream->context));
  const uint64_t position = in_position(stream);
  leave(stream->context);
  return position;
}

void sim_stream_hold(CUstream stream, uint64_t position)
{
  sim_domain_lock(sim_domain(stream->context));
  in_hold(stream, position);
  leave(stream->context);
}

void sim_stream_hold_until(CUstream stream, uint64_t moment_ns)
{
  uint64_t now;
  enter(stream->context, &now);
  if (moment_ns > now && in_has_lane(stream->context)) {
    const uint64_t done = lane_of(stream->context)->done;
    const uint64_t end = done + (moment_ns - now);
    if (end > stream->until) {
      in_queue(stream, end, 0, 0);
    }
  }
  leave(stream->context);
}

// returns: true when the lane is past `position`; else `eta_ns` says when to look again
static bool look(CUcontext context, uint64_t position, uint64_t *eta_ns)
{
  uint64_t now;
  bool     is_there = true;
  *eta_ns = 0;
  if (position == 0 || context->lane == SIM_LANES) {
    return true;
  }
  enter(context, &now);
  if (context->lane != SIM_LANES && lane_of(context)->done < position) {
    const sim_turns_t *turns = &sim_domain(context)->turns;
    const uint64_t     limit = sim_turns_is_alone(turns, context->lane) ? now + (1ull << 50) : now + LOOK_AGAIN_NS;
    is_there = false;
    *eta_ns = sim_turns_predict(turns, context->lane, position, limit);
  }
  leave(context);
  return is_there;
}

bool sim_position_is_reached(CUcontext context, uint64_t position, uint64_t *eta_ns)
{
  uint64_t eta;
  return look(context, position, eta_ns == NULL ? &eta : eta_ns);
}

void sim_position_wait(CUcontext context, uint64_t position)
{
  uint64_t eta = 0;
  uint64_t next;
  while (!look(context, position, &next)) {
    eta = next;
    sim_sleep_until(eta);
  }
  if (eta != 0) {
    sim_host_resume(eta);
  }
}

bool sim_stream_is_done(CUstream stream)
{
  return atomic_load(&stream->host_done) >= atomic_load(&stream->host_issued) &&
         sim_position_is_reached(stream->context, sim_stream_position(stream), NULL);
}

void sim_stream_wait(CUstream stream)
{
  while (!sim_stream_is_done(stream)) {
    sim_position_wait(stream->context, sim_stream_position(stream));
    if (atomic_load(&stream->host_done) < atomic_load(&stream->host_issued)) {
      sim_sleep_until(sim_now_ns() + 50000);  // a host function still runs: its end is not known beforehand
    }
  }
}

// ---- launches

// Room in the stream's queue: the launch a queue's length ago must be done.
static void wait_for_room(CUstream stream)
{
  if (stream->queue == NULL) {
    stream->queue = calloc(QUEUE_LAUNCHES, sizeof *stream->queue);
  }
  uint64_t eta;
  if (stream->queue != NULL && !look(stream->context, stream->queue[stream->launches % QUEUE_LAUNCHES], &eta)) {
    sim_position_wait(stream->context, stream->queue[stream->launches % QUEUE_LAUNCHES]);
  }
}

void sim_submit_launch(CUstream stream, const sim_cost_t *cost)
{
  uint64_t  now;
  CUcontext context = stream->context;
  if (cost->duration_ns == 0) {
    return;
  }
  if (!sim_thread.unit.is_open) {
    const bool is_mps = atomic_load_explicit(&sim_control(context->device)->is_mps, memory_order_relaxed) != 0;
    sim_host_pay(is_mps ? MPS_LAUNCH_HOST_NS : LAUNCH_HOST_NS);
    wait_for_room(stream);
  }
  enter_to_submit(stream, false, &now);
  if (in_has_lane(context)) {
    const uint64_t position = in_position(stream);
    const uint64_t arrival = in_arrival(context, now);
    const bool     follows = stream->launch_end == position && position > arrival;
    const uint64_t wanted = (position > arrival ? position : arrival) + (follows ? 0 : START_NS);
    const uint64_t start = in_take_sms(context, wanted, cost->duration_ns, cost->sm_groups);
    in_queue(stream, start, cost->duration_ns, cost->sm_ns);
    stream->launch_end = start + cost->duration_ns;
    if (stream->queue != NULL && !sim_thread.unit.is_open) {
      stream->queue[stream->launches++ % QUEUE_LAUNCHES] = start + cost->duration_ns;
    }
  }
  leave(context);
}

void sim_graph_pay(void)
{
  sim_host_pay(LAUNCH_HOST_NS);
}
