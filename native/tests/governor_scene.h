// Scene: programs of some tenants on the model GPU, under the governor or natively.

#ifndef JVGPU_GOVERNOR_SCENE_H
#define JVGPU_GOVERNOR_SCENE_H

#include <stdio.h>

#include "governor.h"
#include "gpu_model.h"
#include "guarantee.h"

typedef struct scene_s {
  model_program_t   programs[MODEL_MOST];
  uint32_t          count;
  uint32_t          runner_of[MODEL_MOST];  // whose a program is
  jvgpu_runner_t    runners[MODEL_MOST];
  uint32_t          runner_count;
  bool              is_native;
  bool              pretends;  // the last program says that it waits
  uint64_t          claims_ns;  // or that so much is under way, now a little more, now less
  double            stall_ns;  // a busy machine: threads, the governor's too, are so much late at most
  double            kept_off_ns;  // the first program has no processor for so long, from its first window on
  double            looks_per_second;  // of the governor
  uint32_t          clear_looks;  // at which somebody was said to have the device for itself
  uint32_t          unclear_looks;  // of them, while another had something under way
  double            part[MODEL_MOST];  // of the device, each runner's, after a run
  double            total;
  uint32_t          guarantee_ppm[MODEL_MOST];  // each runner's
  jvgpu_guarantee_t guarantees[MODEL_MOST];
  double            guarded_ns[MODEL_MOST];  // what had been charged when they were looked at last
} scene_t;

static inline void add_process(scene_t *scene, model_program_t program)
{
  scene->programs[scene->count] = program;
  scene->runner_of[scene->count] = scene->runner_count - 1;
  scene->count += 1;
}

static inline void add(scene_t *scene, model_program_t program, uint32_t weight_ppm, uint32_t ceiling_ppm)
{
  scene->runners[scene->runner_count] =
      (jvgpu_runner_t){.weight_ppm = weight_ppm, .ceiling_ppm = ceiling_ppm, .priority = JVGPU_PRIORITY_NORMAL};
  scene->runner_count += 1;
  add_process(scene, program);
}

static inline void look(scene_t *scene, jvgpu_governor_t *governor, model_gpu_t *gpu, double *next_ns)
{
  for (uint32_t i = 0; i < scene->runner_count; i++) {
    scene->runners[i].used_ns = scene->runners[i].flight_ns = scene->runners[i].blocked = 0;
    scene->runners[i].at_work = 0;
  }
  for (uint32_t i = 0; i < scene->count; i++) {
    model_program_t *program = &scene->programs[i];
    jvgpu_runner_t  *runner = &scene->runners[scene->runner_of[i]];
    const uint64_t   used_ns = (uint64_t)(program->charged_ns - program->charged_seen_ns);
    const bool       stands = program->is_blocked || (scene->pretends && i + 1 == scene->count);
    program->charged_seen_ns += (double)used_ns;
    runner->used_ns += used_ns;
    runner->flight_ns += (uint64_t)program->flight_ns;
    runner->blocked += stands;
    runner->flight_ns += scene->claims_ns != 0 && i + 1 == scene->count ? scene->claims_ns + gpu->random % 1000 : 0;
    runner->at_work += used_ns != 0 || program->flight_ns > 0 || stands;
  }
  *next_ns =
      gpu->now_ns + scene->stall_ns * model_chance(gpu) +
      (double)jvgpu_governor_look(governor, scene->runners, scene->runner_count, (uint64_t)gpu->now_ns + 1000000000u);
}

// Whoever is said to have the device for itself has it.
static inline void note_clear(scene_t *scene)
{
  for (uint32_t i = 0; i < scene->runner_count; i++) {
    if (scene->runners[i].clear_ns == 0) {
      continue;
    }
    scene->clear_looks += 1;
    for (uint32_t j = 0; j < scene->count; j++) {
      scene->unclear_looks += scene->runner_of[j] != i && scene->programs[j].queued_ns > 0;
    }
  }
}

// Hold each runner's guarantee against what it was charged, whoever governs.
static inline void judge(scene_t *scene, const model_gpu_t *gpu)
{
  for (uint32_t i = 0; i < scene->runner_count; i++) {
    jvgpu_guarantee_t *guarantee = &scene->guarantees[i];
    double             charged_ns = 0;
    bool               wants = false;
    for (uint32_t j = 0; j < scene->count; j++) {
      if (scene->runner_of[j] == i) {
        charged_ns += scene->programs[j].charged_ns;
        wants = wants || scene->programs[j].queued_ns > 0 || scene->programs[j].is_blocked;
      }
    }
    jvgpu_guarantee_set(guarantee, scene->guarantee_ppm[i]);
    jvgpu_guarantee_note(guarantee, (uint64_t)(charged_ns - scene->guarded_ns[i]), wants,
                         (uint64_t)gpu->now_ns + 1000000000u);
    scene->guarded_ns[i] = charged_ns;
  }
}

static inline void run_programs(scene_t *scene, model_gpu_t *gpu)
{
  for (uint32_t i = 0; i < scene->count; i++) {
    const jvgpu_runner_t *runner = &scene->runners[scene->runner_of[i]];
    const bool            is_free = scene->is_native || !runner->is_governed;
    const model_leave_t   leave = {.is_open = is_free || runner->is_open,
                                   .bound_ns = is_free ? 20e6 : (double)runner->bound_ns,
                                   .least = is_free ? 2 : runner->least};
    double                left_ns = MODEL_STEP_NS;
    while (model_host(gpu, &scene->programs[i], &leave, &left_ns)) {
    }
  }
}

static inline void run(scene_t *scene, double seconds)
{
  jvgpu_governor_t governor;
  model_gpu_t      gpu = {.programs = scene->programs,
                          .count = scene->count,
                          .random = 1,
                          .turn_left_ns = MODEL_TURN_NS,
                          .stall_ns = scene->stall_ns};
  double           next_ns = 0, judge_ns = 0;
  double           warm_ns[MODEL_MOST] = {0};
  const double     warm_up_ns = 1e9;
  bool             is_disturbed = false;
  jvgpu_governor_start(&governor);
  while (gpu.now_ns < warm_up_ns + seconds * 1e9) {
    if (!scene->is_native && gpu.now_ns >= next_ns) {
      look(scene, &governor, &gpu, &next_ns);
      note_clear(scene);
      scene->looks_per_second += 1e9 / (warm_up_ns + seconds * 1e9);
    }
    if (gpu.now_ns >= judge_ns) {
      judge(scene, &gpu);
      judge_ns += 500e3;
    }
    if (gpu.now_ns < warm_up_ns && gpu.now_ns + MODEL_STEP_NS >= warm_up_ns) {
      for (uint32_t i = 0; i < scene->count; i++) {
        warm_ns[i] = scene->programs[i].had_ns;
        scene->programs[i].longest_ns = scene->programs[i].sum_ns = scene->programs[i].batches = 0;
      }
    }
    if (governor.holder == 0 && !is_disturbed) {
      scene->programs[0].stall_left_ns = scene->kept_off_ns;
      is_disturbed = true;
    }
    run_programs(scene, &gpu);
    model_device(&gpu);
  }
  scene->total = 0;
  for (uint32_t i = 0; i < scene->count; i++) {
    const double part = (scene->programs[i].had_ns - warm_ns[i]) / (seconds * 1e9);
    scene->part[scene->runner_of[i]] += part;
    scene->total += part;
  }
}

static inline void show(const char *name, const scene_t *scene)
{
  printf("%-26s %-8s total %.3f  parts", name, scene->is_native ? "native" : "governed", scene->total);
  for (uint32_t i = 0; i < scene->runner_count; i++) {
    printf(" %.3f", scene->part[i]);
  }
  for (uint32_t i = 0; i < scene->count; i++) {
    const model_program_t *it = &scene->programs[i];
    if (it->sleep_ns > 0 && it->batches > 0) {
      printf("  batch mean %.2f longest %.2f ms", it->sum_ns / it->batches / 1e6, it->longest_ns / 1e6);
    }
  }
  printf("\n");
}

// Run a scene as the driver alone would have it, and governed.
static inline scene_t both(const char *name, scene_t *governed)
{
  scene_t native = *governed;
  native.is_native = true;
  run(&native, 4);
  run(governed, 4);
  show(name, &native);
  show(name, governed);
  return native;
}

static inline bool is_near(double value, double wanted, double by)
{
  return value > wanted - by && value < wanted + by;
}

#endif
