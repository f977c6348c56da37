// Gangs on two model GPUs, and others beside them: ranks that wait for each other, gated together, never for ever.

#include "gang.h"

#include <stdio.h>

#include "check.h"
#include "gang_model.h"

#define WARM_UP_NS 1e9
#define ALL ((1u << GANG_DEVICES) - 1)

static void add_on(gang_scene_t *scene, gang_model_t gang, uint32_t weight_ppm, uint64_t mask)
{
  gang.mask = mask;
  scene->gangs[scene->count] = gang;
  scene->members[scene->count] = (jvgpu_member_t){.devices = mask, .weight_ppm = weight_ppm, .ceiling_ppm = 1000000};
  scene->runners[scene->count] = (jvgpu_runner_t){.priority = JVGPU_PRIORITY_NORMAL};
  scene->count += 1;
}

static void add(gang_scene_t *scene, gang_model_t gang, uint32_t weight_ppm)
{
  add_on(scene, gang, weight_ppm, ALL);
}

static void read_ranks(gang_scene_t *scene)
{
  for (uint32_t i = 0; i < scene->count; i++) {
    gang_model_t *gang = &scene->gangs[i];
    for (uint32_t d = 0; d < GANG_DEVICES; d++) {
      jvgpu_rank_t *rank = &scene->ranks[i][d];
      if (!gang_has(gang, d)) {
        continue;
      }
      rank->used_ns = (uint64_t)((double)(gang->launched[d] - gang->seen[d]) * gang->launch_ns);
      rank->flight_ns = (uint64_t)((double)gang->flight[d] * gang->launch_ns);
      rank->blocked = gang->stands[d];
      rank->at_work = 1;
      gang->seen[d] = gang->launched[d];
    }
  }
}

static void run(gang_scene_t *scene, double seconds)
{
  jvgpu_cohort_t cohort = {.devices = GANG_DEVICES,
                           .count = scene->count,
                           .runners = scene->runners,
                           .members = scene->members,
                           .ranks = &scene->ranks[0][0]};
  double         next_ns = 0;
  uint64_t       warm[MOST_GANGS] = {0}, before[MOST_GANGS] = {0};
  double         moved_ns[MOST_GANGS] = {0};
  scene->clock.random = 1;
  scene->devices[1].turn_left_ns = MODEL_TURN_NS / 2;  // the devices' turns are not in step
  jvgpu_cohort_start(&cohort);
  for (double now_ns = 0; now_ns < WARM_UP_NS + seconds * 1e9; now_ns += MODEL_STEP_NS) {
    if (!scene->is_native && now_ns >= next_ns) {
      read_ranks(scene);
      next_ns = now_ns + (double)jvgpu_cohort_look(&cohort, (uint64_t)now_ns + 1000000000u);
    }
    for (uint32_t i = 0; i < scene->count; i++) {
      for (uint32_t d = 0; d < GANG_DEVICES; d++) {
        const bool is_free = scene->is_native || !scene->runners[i].is_governed;
        if (gang_has(&scene->gangs[i], d)) {
          gang_host(scene, &scene->gangs[i], &scene->ranks[i][d], d, is_free);
        }
      }
    }
    for (uint32_t d = 0; d < GANG_DEVICES; d++) {
      gang_turn(scene, d);
    }
    gang_progress(scene);
    for (uint32_t i = 0; i < scene->count; i++) {
      warm[i] = now_ns < WARM_UP_NS ? scene->gangs[i].done : warm[i];
      if (scene->gangs[i].done != before[i]) {
        before[i] = scene->gangs[i].done;
        moved_ns[i] = now_ns;
      }
      const uint64_t stop_ns = (uint64_t)(now_ns - moved_ns[i]);
      scene->longest_stop_ns = stop_ns > scene->longest_stop_ns ? stop_ns : scene->longest_stop_ns;
    }
  }
  for (uint32_t i = 0; i < scene->count; i++) {
    scene->part[i] = (double)(scene->gangs[i].done - warm[i]) * scene->gangs[i].launch_ns / (seconds * 1e9);
  }
}

static void show(const char *name, const gang_scene_t *scene)
{
  printf("%-26s %-8s parts", name, scene->is_native ? "native" : "governed");
  for (uint32_t i = 0; i < scene->count; i++) {
    printf(" %.3f (%llu windows, %llu overruns)", scene->part[i], (unsigned long long)scene->runners[i].windows,
           (unsigned long long)scene->runners[i].overruns);
  }
  printf("  longest stop %.1f ms\n", (double)scene->longest_stop_ns / 1e6);
}

static void two_gangs(void)
{
  static const struct {
    const char *name;
    double      launch_ns;
    double      skew_ns;
  } rows[] = {{"1 ms", 1e6, 50e3},   {"0.2 ms", 0.2e6, 50e3}, {"4 ms", 4e6, 50e3}, {"1 ms, hosts 1 ms apart", 1e6, 1e6},
              {"50 us", 50e3, 20e3}, {"20 ms", 20e6, 50e3}};
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    gang_scene_t       scene = {.count = 0};
    const gang_model_t gang = {.launch_ns = rows[row].launch_ns, .host_ns = 10e3, .skew_ns = rows[row].skew_ns};
    add(&scene, gang, 500000);
    add(&scene, gang, 500000);
    gang_scene_t native = scene;
    native.is_native = true;
    run(&native, 4);
    run(&scene, 4);
    show(rows[row].name, &native);
    show(rows[row].name, &scene);
    const double total = scene.part[0] + scene.part[1];
    // A hundred launches of 20 ms are no more even than by two of them.
    const double by = rows[row].launch_ns < 10e6 ? 0.03 : 0.1;
    CHECK("two gangs on the same devices have half each",
          scene.part[0] / total > 0.5 - by && scene.part[0] / total < 0.5 + by);
    CHECK("and no less together than by the driver's own turns", total > native.part[0] + native.part[1]);
    CHECK("and neither ever stops for long, or not much longer than by those",
          scene.longest_stop_ns < 200000000 || scene.longest_stop_ns < 2 * native.longest_stop_ns);
  }
}

static const gang_model_t all_reduce = {.launch_ns = 1e6, .host_ns = 10e3, .skew_ns = 50e3};

static void by_weight(void)
{
  gang_scene_t scene = {.count = 0};
  add(&scene, all_reduce, 750000);
  add(&scene, all_reduce, 250000);
  run(&scene, 4);
  show("3:1", &scene);
  const double total = scene.part[0] + scene.part[1];
  CHECK("gangs have time by their shares", scene.part[0] / total > 0.73 && scene.part[0] / total < 0.77);
}

// Its other rank has ended, or computes something for long.
static void one_that_gets_nowhere(void)
{
  gang_scene_t scene = {.count = 0};
  add(&scene, all_reduce, 500000);
  add(&scene, all_reduce, 500000);
  scene.gangs[0].host_left_ns[1] = 1e15;
  gang_scene_t native = scene;
  native.is_native = true;
  run(&native, 4);
  run(&scene, 4);
  show("one without its rank", &native);
  show("one without its rank", &scene);
  CHECK("a gang that waits for a rank that does not come holds nobody up", scene.part[1] > native.part[1] * 0.97);
}

// What is under way waits for launches that the bound has no room for, as one stream does for another.
static void one_that_waits_for_its_own_launches(void)
{
  gang_scene_t scene = {.count = 0};
  gang_model_t deep = all_reduce;
  deep.depth = 20;
  add(&scene, deep, 500000);
  add(&scene, all_reduce, 500000);
  gang_scene_t native = scene;
  native.is_native = true;
  run(&native, 8);
  run(&scene, 8);
  show("one that needs 20 ms ahead", &native);
  show("one that needs 20 ms ahead", &scene);
  CHECK("one that waits for launches beyond its bound gets on, but for a second now and then",
        scene.part[0] > native.part[0] * 0.5 && scene.longest_stop_ns < 1500000000);
  CHECK("and holds nobody up", scene.part[1] > native.part[1] * 0.8);
}

static void one_alone(void)
{
  gang_scene_t scene = {.count = 0};
  add(&scene, all_reduce, 500000);
  run(&scene, 2);
  show("one alone", &scene);
  CHECK("a gang alone is not steered", !scene.runners[0].is_governed && scene.part[0] > 0.98);
}

static const gang_model_t busy = {.launch_ns = 0.2e6, .host_ns = 10e3, .skew_ns = 20e3};

static void one_gang_and_one_on_each_device(void)
{
  gang_scene_t scene = {.count = 0};
  add(&scene, all_reduce, 500000);
  add_on(&scene, busy, 500000, 1);
  add_on(&scene, busy, 500000, 2);
  gang_scene_t native = scene;
  native.is_native = true;
  run(&native, 4);
  run(&scene, 4);
  show("one on 0+1, one each", &native);
  show("one on 0+1, one each", &scene);
  for (uint32_t i = 0; i < scene.count; i++) {
    CHECK("a gang and those that have one of its devices have half each", scene.part[i] > 0.45 && scene.part[i] < 0.53);
  }
  CHECK("and nobody ever stops for long", scene.longest_stop_ns < 200e6);
}

int main(void)
{
  one_gang_and_one_on_each_device();
  two_gangs();
  by_weight();
  one_that_gets_nowhere();
  one_that_waits_for_its_own_launches();
  one_alone();
  RESULT();
}
