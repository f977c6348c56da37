// A GPU and programs on it, as arithmetic: closed loops that launch, turns as the driver's own time-slicing
// has them. A program is one process with one context: the driver knows contexts, not tenants, and gives each a
// turn. Screens the governor's rules in simulated time; no figure here is a GPU's.
// source of the constants: shared/FACTS.md, native sharing; shared/probes/governor_model.py.

#ifndef JVGPU_GPU_MODEL_H
#define JVGPU_GPU_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_STEP_NS 10000.0
#define MODEL_TURN_NS 2250000.0
#define MODEL_SWITCH_NS 235000.0
#define MODEL_YIELD_NS 15000.0
#define MODEL_MOST 8

// A loop: a launch of `launch_ns` after `host_ns` of the host's; it waits for all after every `wait_every`
// launches (0 = never), then sleeps `sleep_ns`.
typedef struct model_program_s {
  double   launch_ns;
  double   host_ns;
  uint32_t wait_every;
  double   sleep_ns;
  // kept
  double   queued_ns;
  double   flight_ns;    // of that, what it says: it looks when it launches, stands, or has waited; whole launches
  double   stall_left_ns;
  double   host_left_ns;
  double   sleep_left_ns;
  uint32_t made;
  bool     waits;
  bool     is_blocked;
  bool     has_stood;
  double   had_ns;       // GPU time
  double   charged_ns;
  double   charged_seen_ns;
  double   begun_ns;     // when the present batch was begun
  double   longest_ns;   // of all batches, launched to done
  double   sum_ns;
  uint32_t batches;
} model_program_t;

typedef struct model_gpu_s {
  model_program_t *programs;
  uint32_t         count;
  uint32_t         owner;
  double           turn_left_ns;
  double           dead_ns;
  double           now_ns;
  double           stall_ns;  // a busy machine: who waited gets a processor so much later, at most
  uint32_t         random;
} model_gpu_t;

// What the governor allows one process.
typedef struct model_leave_s {
  bool     is_open;
  double   bound_ns;
  uint32_t least;
} model_leave_t;

static inline double model_chance(model_gpu_t *gpu)
{
  gpu->random = gpu->random * 1664525u + 1013904223u;
  return (double)(gpu->random >> 8) / (double)(1u << 24);
}

static inline double model_jitter(model_gpu_t *gpu)
{
  return 0.8 + 0.4 * model_chance(gpu);
}

// As jvgpu_flight_has_room has it.
static inline bool model_has_room(const model_program_t *it, const model_leave_t *leave)
{
  return it->queued_ns < leave->bound_ns ||
         (it->queued_ns < (leave->least - 1) * it->launch_ns + 1e-6 && it->queued_ns < 10e6);
}

// A launch is known to be over, or not; nobody sees that half of it is done.
static inline double model_whole_launches(const model_program_t *it)
{
  const double count = it->queued_ns / it->launch_ns;
  const double whole = (double)(uint64_t)count;
  return (count - whole > 1e-6 ? whole + 1 : whole) * it->launch_ns;
}

// returns: whether the program launched, so that it may again at once.
static inline bool model_host(model_gpu_t *gpu, model_program_t *it, const model_leave_t *leave, double *left_ns)
{
  if (it->stall_left_ns > 0) {
    it->stall_left_ns -= *left_ns;
    *left_ns = 0;
    return false;
  }
  if (it->sleep_left_ns > 0) {
    const double part = it->sleep_left_ns < *left_ns ? it->sleep_left_ns : *left_ns;
    it->sleep_left_ns -= part;
    *left_ns -= part;
    return *left_ns > 0;
  }
  if (it->waits) {
    if (it->queued_ns > 0) {
      return false;
    }
    it->waits = false;
    it->flight_ns = 0;
    const double took_ns = gpu->now_ns - it->begun_ns;
    it->longest_ns = took_ns > it->longest_ns ? took_ns : it->longest_ns;
    it->sum_ns += took_ns;
    it->batches += 1;
    it->begun_ns = 0;
    it->sleep_left_ns = it->sleep_ns;
    it->stall_left_ns = gpu->stall_ns * model_chance(gpu);
    return true;
  }
  if (it->host_left_ns <= 0) {
    it->host_left_ns = it->host_ns * model_jitter(gpu);
  }
  const double part = it->host_left_ns < *left_ns ? it->host_left_ns : *left_ns;
  it->host_left_ns -= part;
  *left_ns -= part;
  if (it->host_left_ns > 1e-6) {
    return false;
  }
  it->begun_ns = it->begun_ns == 0 ? gpu->now_ns : it->begun_ns;
  if (!leave->is_open || !model_has_room(it, leave)) {
    it->flight_ns = model_whole_launches(it);
    it->is_blocked = it->has_stood = true;
    it->host_left_ns = 1e-7;
    return false;
  }
  if (it->has_stood && gpu->stall_ns > 0) {
    it->has_stood = false;
    it->stall_left_ns = gpu->stall_ns * model_chance(gpu);
    it->host_left_ns = 1e-7;
    return true;
  }
  it->has_stood = false;
  it->is_blocked = false;
  it->queued_ns += it->launch_ns;
  it->flight_ns = model_whole_launches(it);
  it->charged_ns += it->launch_ns;
  it->made += 1;
  it->host_left_ns = 0;
  it->waits = it->wait_every != 0 && it->made % it->wait_every == 0;
  return true;
}

static inline int model_next(const model_gpu_t *gpu)
{
  for (uint32_t i = 1; i < gpu->count; i++) {
    const uint32_t other = (gpu->owner + i) % gpu->count;
    if (gpu->programs[other].queued_ns > 0) {
      return (int)other;
    }
  }
  return -1;
}

static inline void model_device(model_gpu_t *gpu)
{
  double left_ns = MODEL_STEP_NS;
  while (left_ns > 1e-6) {
    if (gpu->dead_ns > 0) {
      const double part = gpu->dead_ns < left_ns ? gpu->dead_ns : left_ns;
      gpu->dead_ns -= part;
      left_ns -= part;
      continue;
    }
    model_program_t *owner = &gpu->programs[gpu->owner];
    const int        next = model_next(gpu);
    if (owner->queued_ns <= 0 || (gpu->turn_left_ns <= 0 && next >= 0)) {
      if (next < 0) {
        break;
      }
      gpu->dead_ns = owner->queued_ns <= 0 ? MODEL_YIELD_NS : MODEL_SWITCH_NS;
      gpu->turn_left_ns = MODEL_TURN_NS;
      gpu->owner = (uint32_t)next;
      continue;
    }
    double part = owner->queued_ns < left_ns ? owner->queued_ns : left_ns;
    part = next >= 0 && gpu->turn_left_ns < part ? gpu->turn_left_ns : part;
    owner->queued_ns -= part;
    owner->had_ns += part;
    gpu->turn_left_ns -= part;
    left_ns -= part;
    if (owner->queued_ns < 1e-6) {
      owner->queued_ns = 0;
    }
    if (gpu->turn_left_ns <= 0 && next < 0) {
      gpu->turn_left_ns = MODEL_TURN_NS;
    }
  }
  gpu->now_ns += MODEL_STEP_NS;
}

#endif
