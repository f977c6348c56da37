#include "gang.h"

#include "parts.h"

// Work that has not moved for itself twice and this is not slow, it waits for another rank.
#define SPINS_NS (MS / 5)
// While a gang drains, who is let go has no more than one launch under way.
#define ONE_LAUNCH_NS 1u
// Who was let go is to be stopped before its next launch.
#define DRAIN_LOOK_NS (MS / 10)

// What all ranks of a gang did, as one runner: time on one device is time on all.
static void sum_up(jvgpu_runner_t *runner, jvgpu_rank_t *ranks, uint32_t devices, uint64_t now_ns)
{
  uint64_t used_ns = 0;
  runner->flight_ns = 0;
  runner->blocked = 0;
  runner->at_work = 0;
  for (uint32_t i = 0; i < devices; i++) {
    jvgpu_rank_t *rank = &ranks[i];
    used_ns += rank->used_ns;
    runner->flight_ns = rank->flight_ns > runner->flight_ns ? rank->flight_ns : runner->flight_ns;
    runner->at_work = rank->at_work > runner->at_work ? rank->at_work : runner->at_work;
    runner->blocked += rank->blocked;
    if (rank->used_ns != 0 || rank->flight_ns != rank->last_flight_ns) {
      rank->changed_ns = now_ns;
    }
    rank->last_flight_ns = rank->flight_ns;
    rank->used_ns = 0;
  }
  runner->used_ns = used_ns / devices;
  runner->is_gang = false;  // it is gated, but on all its devices at once
}

static bool spins(const jvgpu_rank_t *rank, uint64_t now_ns)
{
  return rank->flight_ns != 0 && now_ns - rank->changed_ns > 2 * rank->flight_ns + SPINS_NS;
}

// returns: whether any rank was let go.
static bool let_go(jvgpu_rank_t *ranks, uint32_t devices, uint64_t now_ns)
{
  bool has_spinner = false, has_any = false;
  for (uint32_t i = 0; i < devices; i++) {
    has_spinner = has_spinner || spins(&ranks[i], now_ns);
  }
  for (uint32_t i = 0; i < devices; i++) {
    jvgpu_rank_t *rank = &ranks[i];
    rank->is_open = has_spinner && rank->flight_ns == 0 && rank->blocked != 0;
    rank->bound_ns = ONE_LAUNCH_NS;
    rank->least = 1;
    has_any = has_any || rank->is_open;
  }
  return has_any;
}

uint64_t jvgpu_gangs_look(jvgpu_governor_t *governor, jvgpu_runner_t *runners, jvgpu_rank_t *ranks, uint32_t count,
                          uint32_t devices, uint64_t now_ns)
{
  for (uint32_t i = 0; i < count; i++) {
    sum_up(&runners[i], &ranks[i * devices], devices, now_ns);
  }
  uint64_t due_ns = jvgpu_governor_look(governor, runners, count, now_ns);
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    jvgpu_rank_t         *mine = &ranks[i * devices];
    if (!runner->is_open && let_go(mine, devices, now_ns)) {
      due_ns = due_ns < DRAIN_LOOK_NS ? due_ns : DRAIN_LOOK_NS;
    }
    for (uint32_t rank = 0; runner->is_open && rank < devices; rank++) {
      mine[rank].is_open = true;
      mine[rank].bound_ns = runner->bound_ns;
      mine[rank].least = runner->least;
    }
  }
  return due_ns;
}
