// Gangs on several GPUs, and others beside them, as arithmetic: each rank launches collectives in a loop. A collective gets on only while
// it runs on all devices at once; where its peers are not there it spins, and takes its turns of the driver's
// all the same. Which device's turn is whose, the driver says for each device by itself, and no two turns are
// of quite the same length (FACTS.md: 2.3 to 2.5 ms).
// source of the constants: gpu_model.h.

#ifndef JVGPU_GANG_MODEL_H
#define JVGPU_GANG_MODEL_H

#include "gang.h"
#include "gpu_model.h"

enum { GANG_DEVICES = 2, MOST_GANGS = 4 };

typedef struct gang_model_s {
  uint64_t mask;  // of the devices that it has
  double   launch_ns;
  double   host_ns;
  uint32_t depth;  // a collective ends only when as many more have been launched behind it
  double   skew_ns;  // who stands looks again after as much, at most: ranks launch apart
  uint64_t launched[GANG_DEVICES];
  double   host_left_ns[GANG_DEVICES];
  uint64_t seen[GANG_DEVICES];  // charged so far
  uint64_t flight[GANG_DEVICES];  // launches that the rank says are under way
  bool     stands[GANG_DEVICES];
  uint64_t done;  // collectives, on all devices
  double   progress_ns;
} gang_model_t;

typedef struct gang_device_s {
  uint32_t owner;
  double   turn_left_ns;
  double   dead_ns;
} gang_device_t;

typedef struct gang_scene_s {
  gang_model_t   gangs[MOST_GANGS];
  jvgpu_runner_t runners[MOST_GANGS];
  jvgpu_member_t members[MOST_GANGS];
  jvgpu_rank_t   ranks[MOST_GANGS][GANG_DEVICES];
  uint32_t       count;
  bool           is_native;
  gang_device_t  devices[GANG_DEVICES];
  model_gpu_t    clock;  // its time and its chance
  double         part[MOST_GANGS];  // of each device that it has
  uint64_t       longest_stop_ns;
} gang_scene_t;

static inline bool gang_has(const gang_model_t *gang, uint32_t device)
{
  return (gang->mask >> device & 1) != 0;
}

static inline bool gang_has_work(const gang_model_t *gang, uint32_t device)
{
  return gang_has(gang, device) && gang->launched[device] > gang->done;
}

static inline void gang_host(gang_scene_t *scene, gang_model_t *gang, const jvgpu_rank_t *rank, uint32_t device,
                             bool is_free)
{
  const uint64_t under_way = gang->launched[device] - gang->done;
  const double   under_way_ns = (double)under_way * gang->launch_ns;
  const bool     has_room =
      is_free ? under_way < 4 + gang->depth : under_way_ns < (double)rank->bound_ns || under_way < rank->least;
  gang->host_left_ns[device] -= MODEL_STEP_NS;
  if (gang->host_left_ns[device] > 0) {
    return;
  }
  gang->flight[device] = under_way;
  gang->stands[device] = !has_room || !(is_free || rank->is_open);
  if (gang->stands[device]) {
    gang->host_left_ns[device] = gang->skew_ns * model_chance(&scene->clock);
    return;
  }
  gang->launched[device] += 1;
  gang->flight[device] += 1;
  gang->host_left_ns[device] = gang->host_ns;
}

static inline void gang_turn(gang_scene_t *scene, uint32_t number)
{
  gang_device_t *device = &scene->devices[number];
  uint32_t       next = device->owner;
  for (uint32_t i = 1; i < scene->count && next == device->owner; i++) {
    const uint32_t other = (device->owner + i) % scene->count;
    next = gang_has_work(&scene->gangs[other], number) ? other : next;
  }
  const bool has_work = gang_has_work(&scene->gangs[device->owner], number);
  device->dead_ns -= device->dead_ns > 0 ? MODEL_STEP_NS : 0;
  device->turn_left_ns -= MODEL_STEP_NS;
  if (next != device->owner && (!has_work || device->turn_left_ns <= 0)) {
    device->dead_ns = has_work ? MODEL_SWITCH_NS : MODEL_YIELD_NS;
    device->turn_left_ns = MODEL_TURN_NS * (0.96 + 0.08 * model_chance(&scene->clock));
    device->owner = next;
  }
}

static inline void gang_progress(gang_scene_t *scene)
{
  for (uint32_t i = 0; i < scene->count; i++) {
    gang_model_t *gang = &scene->gangs[i];
    bool          runs = true;
    for (uint32_t d = 0; d < GANG_DEVICES; d++) {
      const bool has_turn = scene->devices[d].owner == i && scene->devices[d].dead_ns <= 0 && gang_has_work(gang, d);
      const bool is_let = gang->launched[d] > gang->done + gang->depth;
      runs = runs && ((has_turn && is_let) || !gang_has(gang, d));
    }
    gang->progress_ns += runs ? MODEL_STEP_NS : 0;
    if (gang->progress_ns >= gang->launch_ns) {
      gang->progress_ns = 0;
      gang->done += 1;
    }
  }
}

#endif
