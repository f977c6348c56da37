// When work is done: streams as positions in their context's time, and what the host pays for submitting.
//
// What is submitted takes effect at once, in the order of submission; here it is only said how long it takes. The
// legacy stream starts after all blocking streams and they after it. Small launches of several streams run at the
// same time while there are SMs for them.
//
// The host has a clock of its own per thread: each launch takes it a few microseconds, of which the simulation needs
// far fewer. It runs ahead of the real one by tens of microseconds at most, then the thread sleeps.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "driver.h"

// source: measured on an H200 with driver 580, docs/simulated-board.md
enum {
  QUEUE_LAUNCHES = 1021,     // of a stream, before the host waits
  LAUNCH_HOST_NS = 4600,     // a launch takes the host
  MPS_LAUNCH_HOST_NS = 5600, // and a client of an MPS server
  START_NS = 650,            // until a launch starts that does not follow another in its stream
  LOOK_AGAIN_NS = 4000000    // others may die or run dry earlier than foreseen
};
// How far a thread's clock may be ahead of the real one before it sleeps off half of that, in real time; and how much
// of a late wake-up it catches up.
enum { AHEAD_REAL_NS = 200000, CREDIT_NS = 500000 };

// ---- the host's side

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static void be_prompt(void)
{
  static _Thread_local bool is_prompt;
  if (!is_prompt) {
    // By default a thread is woken up to 50 us late.
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    is_prompt = true;
  }
}

static void sleep_plainly(uint64_t moment_ns)
{
  const uint64_t        deadline_ns = sim_monotonic_of(moment_ns);
  const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                    .tv_nsec = (long)(deadline_ns % 1000000000u)};
  be_prompt();
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) {
  }
}

void sim_sleep_until(uint64_t deadline_ns)
{
  enum { WORTH_IT_NS = 200000, EARLY_NS = 60000 };
  const uint64_t now = sim_now_ns();
  if (deadline_ns > now + WORTH_IT_NS && sim_monotonic_of(1) == 1) {
    // The real driver spins. Here only the end of a long sleep does, or each wait would be late by a wake-up.
    sleep_plainly(deadline_ns - EARLY_NS);
    while (sim_now_ns() < deadline_ns) {
    }
  } else if (deadline_ns > now) {
    sleep_plainly(deadline_ns);
  }
}

// The host's clock goes on from where it should have been woken: what the real sleep was late is caught up.
static void resume_host(uint64_t due_ns)
{
  const uint64_t now = sim_now_ns();
  if (sim_thread.host_ns < due_ns) {
    sim_thread.host_ns = least(due_ns, now);
  }
  sim_thread.credit_ns = now > sim_thread.host_ns ? least(now - sim_thread.host_ns, CREDIT_NS) : 0;
}

void sim_host_pay(uint64_t cost_ns)
{
  const uint64_t now = sim_now_ns();
  if (sim_thread.host_ns + sim_thread.credit_ns < now) {
    sim_thread.host_ns = now - sim_thread.credit_ns;
  }
  sim_thread.host_ns += cost_ns;
  const uint64_t behind = now > sim_thread.host_ns ? now - sim_thread.host_ns : 0;
  sim_thread.credit_ns = behind < sim_thread.credit_ns ? behind : sim_thread.credit_ns;
  const uint64_t ahead_ns = AHEAD_REAL_NS / sim_monotonic_of(1);
  if (sim_thread.host_ns > now + ahead_ns) {
    sleep_plainly(sim_thread.host_ns - ahead_ns / 2);
    const uint64_t awake = sim_now_ns();
    sim_thread.credit_ns = awake < sim_thread.host_ns ? 0 : least(awake - sim_thread.host_ns, CREDIT_NS);
  }
}

// ---- the context's lane

// pre of all `in_*`: the domain entered

static CUresult enter(CUcontext context, uint64_t *now)
{
  *now = sim_domain_enter(sim_process.shared, context->domain);
  sim_events_settle(context);
  return CUDA_SUCCESS;
}

static void leave(CUcontext context)
{
  sim_domain_unlock(sim_domain(context));
}

static bool in_has_lane(CUcontext context)
{
  sim_turns_t *turns = &sim_domain(context)->turns;
  if (context->lane == SIM_LANES && sim_context_is_alive(context)) {
    context->lane = sim_turns_take_lane(turns, sim_shared_identity());
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
  const uint64_t ahead = sim_thread.host_ns > now ? sim_thread.host_ns - now : 0;
  const bool     is_alone = sim_turns_is_alone(&sim_domain(context)->turns, context->lane);
  return lane_of(context)->done + (is_alone ? ahead : 0);
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
  const uint64_t goal = lane_of(context)->goal;
  const uint64_t end = start + duration;
  in_hold(stream, end);
  sim_turns_queue(&sim_domain(context)->turns, context->lane, end,
                  in_demand_ppm(context, end > goal ? end - goal : 0, sm_ns));
}

uint64_t sim_submit(CUstream stream, uint64_t duration_ns)
{
  uint64_t now;
  uint64_t start = 0;
  enter(stream->context, &now);
  if (in_has_lane(stream->context)) {
    const uint64_t position = in_position(stream);
    const uint64_t arrival = in_arrival(stream->context, now);
    start = position > arrival ? position : arrival;
    if (duration_ns > 0) {
      in_queue(stream, start, duration_ns, 0);
    }
  }
  leave(stream->context);
  return start;
}

// Room in the stream's queue: the launch a queue's length ago must be done.
static void wait_for_room(CUstream stream)
{
  if (stream->queue == NULL) {
    stream->queue = calloc(QUEUE_LAUNCHES, sizeof *stream->queue);
  }
  if (stream->queue != NULL) {
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
  if (!sim_thread.is_in_graph) {
    const bool is_mps = atomic_load_explicit(&sim_control(context->device)->is_mps, memory_order_relaxed) != 0;
    sim_host_pay(is_mps ? MPS_LAUNCH_HOST_NS : LAUNCH_HOST_NS);
    wait_for_room(stream);
  }
  enter(context, &now);
  if (in_has_lane(context)) {
    const uint64_t position = in_position(stream);
    const uint64_t arrival = in_arrival(context, now);
    const bool     follows = stream->launch_end == position && position > arrival;
    const uint64_t wanted = (position > arrival ? position : arrival) + (follows ? 0 : START_NS);
    const uint64_t start = in_take_sms(context, wanted, cost->duration_ns, cost->sm_groups);
    in_queue(stream, start, cost->duration_ns, cost->sm_ns);
    stream->launch_end = start + cost->duration_ns;
    if (stream->queue != NULL && !sim_thread.is_in_graph) {
      stream->queue[stream->launches++ % QUEUE_LAUNCHES] = start + cost->duration_ns;
    }
  }
  leave(context);
}

void sim_graph_pay(CUstream stream)
{
  (void)stream;
  sim_host_pay(LAUNCH_HOST_NS);
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
    resume_host(eta);
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
