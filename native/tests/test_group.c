// Gangs in the agent, through the pages that a claim's processes see: ranks on two model GPUs write what they use
// and obey their gates; groups are formed and dissolved as claims begin, stop, come and go.

#include "gangs.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "gang_model.h"

typedef struct jvgpu_tenant_s jvgpu_tenant_t;
#include "agent_api.h"

#define ALL ((1u << GANG_DEVICES) - 1)
#define START_NS UINT64_C(1000000000)
#define ONE_LAUNCH_NS 1u

typedef struct node_s {
  gang_scene_t           scene;  // the ranks; their runners and members are not used
  jvgpu_tenant_t        *tenants[MOST_GANGS];
  bool                   is_still[MOST_GANGS];  // launches nothing
  jvgpu_steered_device_t devices[GANG_DEVICES];
  jvgpu_gangs_t         *gangs;
  jvgpu_records_t       *records;
  uint32_t               last_number;
  double                 now_ns;
  uint64_t               torn;  // looks after which a claim's gates were not all open or all closed
} node_t;

static const gang_model_t all_reduce = {.launch_ns = 1e6, .host_ns = 10e3, .skew_ns = 50e3};

static uint64_t at(const node_t *node)
{
  return (uint64_t)node->now_ns + START_NS;
}

static void begin(node_t *node)
{
  memset(node, 0, sizeof *node);
  node->scene.clock.random = 1;
  node->gangs = jvgpu_gangs_make();
  node->records = jvgpu_records_make();
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    jvgpu_steered_device_start(&node->devices[d]);
  }
}

// returns: its number in the scene.
static uint32_t claim(node_t *node, gang_model_t gang, uint32_t share_ppm, uint64_t mask)
{
  const uint32_t  i = node->scene.count++;
  const uint8_t   uuid[JVGPU_UUID_BYTES] = {0};
  jvgpu_tenant_t *tenant = jvgpu_tenant_create((uint32_t)__builtin_popcountll(mask));
  uint32_t        generation, index = 0;
  gang.mask = mask;
  node->scene.gangs[i] = gang;
  node->tenants[i] = tenant;
  jvgpu_tenant_slot_take(tenant, 1, &generation);
  jvgpu_gangs_dissolve(node->gangs);
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    if (gang_has(&gang, d)) {
      jvgpu_tenant_set_device(tenant, index, uuid, 1, share_ppm, 1000000);
      jvgpu_steered_device_add(&node->devices[d], tenant, index, JVGPU_PRIORITY_NORMAL, ++node->last_number);
      index += 1;
    }
  }
  return i;
}

static void drop(node_t *node, uint32_t i)
{
  jvgpu_gangs_dissolve(node->gangs);
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    for (uint32_t place = node->devices[d].count; place-- > 0;) {
      if (node->devices[d].steered[place]->tenant == node->tenants[i]) {
        jvgpu_steered_device_remove(&node->devices[d], place, node->records, at(node));
      }
    }
  }
}

static void end(node_t *node)
{
  jvgpu_gangs_free(node->gangs);
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    jvgpu_steered_device_end(&node->devices[d], node->records, at(node));
  }
  jvgpu_records_free(node->records);
  for (uint32_t i = 0; i < node->scene.count; i++) {
    jvgpu_tenant_destroy(node->tenants[i]);
  }
}

// The index of a device in a claim.
static uint32_t index_of(const gang_model_t *gang, uint32_t d)
{
  return (uint32_t)__builtin_popcountll(gang->mask & ((UINT64_C(1) << d) - 1));
}

static jvgpu_control_device_t *limits_of(const node_t *node, uint32_t i, uint32_t d)
{
  return &node->tenants[i]->control->devices[index_of(&node->scene.gangs[i], d)];
}

// What the processes write, and what they are told.
static void run_ranks(node_t *node)
{
  for (uint32_t i = 0; i < node->scene.count; i++) {
    gang_model_t *gang = &node->scene.gangs[i];
    for (uint32_t d = 0; d < GANG_DEVICES && !node->is_still[i]; d++) {
      if (!gang_has(gang, d)) {
        continue;
      }
      const jvgpu_control_device_t *limits = limits_of(node, i, d);
      const jvgpu_rank_t            rank = {.is_open = limits->gate == JVGPU_GATE_OPEN,
                                            .bound_ns = limits->flight_bound_ns,
                                            .least = limits->least_in_flight};
      gang_host(&node->scene, gang, &rank, d, limits->is_governed == 0);
      jvgpu_use_t *use = &node->tenants[i]->usage->slots[0].devices[index_of(gang, d)];
      use->busy_ns = (uint64_t)((double)gang->launched[d] * gang->launch_ns);
      use->done_ns = (uint64_t)((double)(gang->launched[d] - gang->flight[d]) * gang->launch_ns);
      use->launches = gang->launched[d];
      use->blocked = gang->stands[d];
    }
  }
}

static void note_torn(node_t *node)
{
  for (uint32_t i = 0; i < node->scene.count; i++) {
    const jvgpu_control_device_t *first = limits_of(node, i, 0), *second = limits_of(node, i, 1);
    if (node->scene.gangs[i].mask == ALL && first->gate != second->gate) {
      // But for one that is let go a launch further.
      const jvgpu_control_device_t *open = first->gate == JVGPU_GATE_OPEN ? first : second;
      node->torn += open->flight_bound_ns != ONE_LAUNCH_NS;
    }
  }
}

static void look(node_t *node)
{
  jvgpu_gangs_gather(node->gangs, node->devices, GANG_DEVICES, at(node));
  jvgpu_gangs_look(node->gangs, node->records, at(node));
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    if (!node->devices[d].is_grouped && node->devices[d].due_ns <= at(node)) {
      jvgpu_steered_device_look(&node->devices[d], node->records, at(node));
    }
  }
  note_torn(node);
}

static void run(node_t *node, double seconds)
{
  for (const double until_ns = node->now_ns + seconds * 1e9; node->now_ns < until_ns; node->now_ns += MODEL_STEP_NS) {
    look(node);
    run_ranks(node);
    for (uint32_t d = 0; d < GANG_DEVICES; d++) {
      gang_turn(&node->scene, d);
    }
    gang_progress(&node->scene);
  }
}

// returns: the part of its devices that a claim has in the next seconds.
static double part_of(node_t *node, uint32_t i, double seconds)
{
  const uint64_t before = node->scene.gangs[i].done;
  run(node, seconds);
  return (double)(node->scene.gangs[i].done - before) * node->scene.gangs[i].launch_ns / (seconds * 1e9);
}

static bool is_open(const node_t *node, uint32_t i)
{
  bool is_open = true;
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    is_open = is_open && (!gang_has(&node->scene.gangs[i], d) || limits_of(node, i, d)->gate == JVGPU_GATE_OPEN);
  }
  return is_open;
}

static void one_that_comes_beside_one(void)
{
  node_t node;
  begin(&node);
  const uint32_t first = claim(&node, all_reduce, 500000, ALL);
  run(&node, 0.05);
  CHECK("who has not worked yet is by itself on each device",
        !node.devices[0].is_grouped && !node.devices[1].is_grouped);
  run(&node, 0.3);
  CHECK("a claim that works on two devices is one of a group",
        node.devices[0].is_grouped && node.devices[1].is_grouped);
  CHECK("alone it has all of them", part_of(&node, first, 0.5) > 0.95);

  const uint32_t second = claim(&node, all_reduce, 500000, ALL);
  run(&node, 2);
  CHECK("two have half each", part_of(&node, first, 1) > 0.4 && part_of(&node, second, 1) > 0.4);
  CHECK("the gates of a claim's devices are opened and closed together", node.torn == 0);

  jvgpu_steered_runner_t *steered = node.devices[0].steered[0];
  CHECK("and have been closed", steered->closed_ns > 0);
  drop(&node, first);
  CHECK("who is let go has its gates open", is_open(&node, first) && limits_of(&node, first, 0)->is_governed == 0);
  node.is_still[first] = true;
  run(&node, 1);
  CHECK("and the other has everything", part_of(&node, second, 0.5) > 0.95);
  end(&node);
}

static void one_that_stops(void)
{
  node_t node;
  begin(&node);
  const uint32_t gang = claim(&node, all_reduce, 500000, ALL);
  const uint32_t one = claim(&node, all_reduce, 500000, 1), other = claim(&node, all_reduce, 500000, 2);
  run(&node, 3);
  CHECK("a gang and one on each of its devices have half each",
        part_of(&node, gang, 1) > 0.4 && part_of(&node, one, 1) > 0.4 && part_of(&node, other, 1) > 0.4);
  CHECK("with the gang's gates always opened and closed together", node.torn == 0);

  node.is_still[gang] = true;
  node.tenants[gang]->usage->slots[0].devices[0].blocked = 0;
  node.tenants[gang]->usage->slots[0].devices[1].blocked = 0;
  run(&node, 2);
  CHECK("what a gang leaves others have", part_of(&node, one, 0.5) > 0.9 && part_of(&node, other, 0.5) > 0.9);
  run(&node, 10);
  CHECK("long after it has stopped each device is by itself",
        !node.devices[0].is_grouped && !node.devices[1].is_grouped);
  CHECK("with open gates", is_open(&node, gang) && is_open(&node, one) && is_open(&node, other));

  node.is_still[gang] = false;
  run(&node, 2);
  CHECK("when it works again it has its half again", node.devices[0].is_grouped && part_of(&node, gang, 1) > 0.4);
  end(&node);
}

static void a_page_full_of_lies(void)
{
  node_t node;
  begin(&node);
  const uint32_t liar = claim(&node, all_reduce, 500000, ALL), honest = claim(&node, all_reduce, 500000, ALL);
  run(&node, 1);
  node.is_still[liar] = true;
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    jvgpu_use_t *use = &node.tenants[liar]->usage->slots[0].devices[d];
    use->busy_ns = UINT64_MAX - d;
    use->done_ns = d;
    use->blocked = UINT32_MAX - 1;
  }
  run(&node, 1);
  const uint64_t before = node.scene.gangs[honest].done;
  run(&node, 2);
  CHECK("whatever another claim's page says, a gang goes on", node.scene.gangs[honest].done - before > 200);
  end(&node);
}

static void groups_that_are_formed_anew(void)
{
  node_t node;
  begin(&node);
  const uint32_t gang = claim(&node, all_reduce, 500000, ALL);
  run(&node, 0.5);
  for (uint32_t round = 0; round < 50; round++) {
    // Claims come and go all the time: nothing is left closed, and nobody stands.
    const uint64_t before = node.scene.gangs[gang].done;
    jvgpu_gangs_dissolve(node.gangs);
    run(&node, 0.02);
    CHECK("a gang goes on while groups are formed anew", node.scene.gangs[gang].done > before);
  }
  end(&node);
}

// Counters of a claim on its devices, as the agent shows them.
typedef struct counters_s {
  uint64_t windows[GANG_DEVICES], overruns[GANG_DEVICES], violations[GANG_DEVICES];
} counters_t;

static counters_t counters_of(const node_t *node, uint32_t i)
{
  counters_t counters = {0};
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    for (uint32_t place = 0; place < node->devices[d].count; place++) {
      if (node->devices[d].steered[place]->tenant == node->tenants[i]) {
        const jvgpu_runner_t *runner = &node->devices[d].runners[place];
        counters.windows[d] = runner->windows;
        counters.overruns[d] = runner->overruns;
        counters.violations[d] = runner->violations;
      }
    }
  }
  return counters;
}

static bool has_fallen(const counters_t *before, const counters_t *now)
{
  bool has_fallen = false;
  for (uint32_t d = 0; d < GANG_DEVICES; d++) {
    has_fallen = has_fallen || now->windows[d] < before->windows[d] || now->overruns[d] < before->overruns[d] ||
                 now->violations[d] < before->violations[d];
  }
  return has_fallen;
}

static void count_one_device_further(node_t *node, uint32_t d)
{
  for (uint32_t place = 0; place < node->devices[d].count; place++) {
    node->devices[d].runners[place].windows += 1000;
    node->devices[d].runners[place].overruns += 1000;
    node->devices[d].runners[place].violations += 1000;
  }
}

// catches a bug where a group gave all devices of a claim the counts of its first
static void counters_that_never_fall(void)
{
  node_t   node;
  uint32_t falls = 0, leaps = 0;
  begin(&node);
  const uint32_t first = claim(&node, all_reduce, 500000, ALL), second = claim(&node, all_reduce, 500000, ALL);
  const uint32_t claims[] = {first, second};
  for (uint32_t round = 0; round < 4; round++) {
    jvgpu_gangs_dissolve(node.gangs);
    count_one_device_further(&node, round % GANG_DEVICES);
    counters_t before[2];
    for (uint32_t i = 0; i < 2; i++) {
      before[i] = counters_of(&node, claims[i]);
    }
    for (uint32_t step = 0; step < 20; step++) {
      run(&node, 0.1);
      for (uint32_t i = 0; i < 2; i++) {
        const counters_t now = counters_of(&node, claims[i]);
        falls += has_fallen(&before[i], &now);
        for (uint32_t d = 0; d < GANG_DEVICES; d++) {
          leaps += now.windows[d] - before[i].windows[d] > 100;
        }
        before[i] = now;
      }
    }
  }
  const counters_t last = counters_of(&node, first);
  CHECK("whatever groups are formed and dissolved, no counter of a claim on a device falls", falls == 0);
  CHECK("nor leaps to what another device's is", leaps == 0);
  CHECK("windows of a group count on each of its devices", last.windows[0] > 2000 && last.windows[1] > 2000);
  end(&node);
}

int main(void)
{
  counters_that_never_fall();
  one_that_comes_beside_one();
  one_that_stops();
  a_page_full_of_lies();
  groups_that_are_formed_anew();
  RESULT();
}
