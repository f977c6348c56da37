#include "gangs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "gang.h"
#include "group.h"

#define MOST_GROUPS JVGPU_MOST_COHORT_DEVICES
// How often it is asked who works.
#define GATHER_NS UINT64_C(100000000)
// Who has wanted something so lately works; who already does, as long as this: figures are learnt anew in each group.
#define BEGINS_NS UINT64_C(1000000000)
#define GOES_ON_NS UINT64_C(10000000000)

struct jvgpu_gangs_s {
  jvgpu_group_t *groups[MOST_GROUPS];
  uint32_t       count;
  uint64_t       gather_ns;  // when it is asked again, 0 = now
  uint64_t       members;  // a hash of those whose devices are grouped, 0 = none
};

jvgpu_gangs_t *jvgpu_gangs_make(void)
{
  return calloc(1, sizeof(jvgpu_gangs_t));
}

void jvgpu_gangs_dissolve(jvgpu_gangs_t *gangs)
{
  while (gangs->count > 0) {
    jvgpu_group_free(gangs->groups[--gangs->count]);
  }
  gangs->members = 0;
  gangs->gather_ns = 0;
}

void jvgpu_gangs_free(jvgpu_gangs_t *gangs)
{
  if (gangs != NULL) {
    jvgpu_gangs_dissolve(gangs);
  }
  free(gangs);
}

// --- who belongs together -----------------------------------------------------------------------------------------

static bool is_at_work(const jvgpu_steered_device_t *device, uint32_t place, uint64_t at_ns)
{
  const jvgpu_runner_t *runner = &device->runners[place];
  const uint64_t        lately_ns = device->is_grouped ? GOES_ON_NS : BEGINS_NS;
  return runner->active_ns != 0 && at_ns - runner->active_ns < lately_ns;
}

// returns: the devices of a claim that is at work on any of them; 0 when it is not.
static uint64_t devices_of(const struct jvgpu_tenant_s *tenant, const jvgpu_steered_device_t *devices, uint32_t count,
                           uint64_t at_ns)
{
  uint64_t mask = 0;
  bool     works = false;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t place = 0; place < devices[i].count; place++) {
      if (devices[i].steered[place]->tenant == tenant) {
        mask |= UINT64_C(1) << i;
        works = works || is_at_work(&devices[i], place, at_ns);
      }
    }
  }
  return works ? mask : 0;
}

static void join(uint64_t *together, uint32_t count, uint64_t mask)
{
  for (uint32_t i = 0; i < count; i++) {
    mask |= (mask >> i & 1) != 0 ? together[i] : 0;
  }
  for (uint32_t i = 0; i < count; i++) {
    together[i] = (mask >> i & 1) != 0 ? mask : together[i];
  }
}

// Put into `together` the devices that each is connected with; 0 = with none. returns: a hash of who connects them.
static uint64_t connect(const jvgpu_steered_device_t *devices, uint32_t count, uint64_t at_ns, uint64_t *together)
{
  uint64_t hash = 0;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t place = 0; place < devices[i].count; place++) {
      const struct jvgpu_tenant_s *tenant = devices[i].steered[place]->tenant;
      const uint64_t mask = devices[i].runners[place].is_gang ? devices_of(tenant, devices, count, at_ns) : 0;
      const bool     is_first = (mask & ((UINT64_C(1) << i) - 1)) == 0;
      // Of which only one device is here it is no gang.
      if (is_first && (mask & (mask - 1)) != 0) {
        hash += (uint64_t)(uintptr_t)tenant * UINT64_C(0x9e3779b97f4a7c15);
        join(together, count, mask);
      }
    }
  }
  return hash;
}

void jvgpu_gangs_gather(jvgpu_gangs_t *gangs, jvgpu_steered_device_t *devices, uint32_t count, uint64_t at_ns)
{
  uint64_t together[JVGPU_MOST_COHORT_DEVICES] = {0};
  if (at_ns < gangs->gather_ns) {
    return;
  }
  const uint64_t members = connect(devices, count, at_ns, together);
  if (members != gangs->members) {
    jvgpu_gangs_dissolve(gangs);
    for (uint32_t i = 0; i < count; i++) {
      const bool     is_first = together[i] != 0 && (together[i] & ((UINT64_C(1) << i) - 1)) == 0;
      jvgpu_group_t *group = is_first ? jvgpu_group_make(devices, together[i]) : NULL;
      if (group != NULL) {
        gangs->groups[gangs->count++] = group;
      }
    }
    gangs->members = members;
  }
  gangs->gather_ns = at_ns + GATHER_NS;
}

uint64_t jvgpu_gangs_look(jvgpu_gangs_t *gangs, jvgpu_records_t *records, uint64_t at_ns)
{
  uint64_t due_ns = UINT64_MAX;
  for (uint32_t i = 0; i < gangs->count; i++) {
    const uint64_t group_ns = jvgpu_group_look(gangs->groups[i], records, at_ns);
    due_ns = group_ns < due_ns ? group_ns : due_ns;
  }
  return due_ns;
}
