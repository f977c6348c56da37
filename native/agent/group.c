#include "group.h"

#include <stddef.h>
#include <stdlib.h>

#include "gang.h"

// A claim's place on one of the devices.
typedef struct seat_s {
  jvgpu_steered_device_t *device;
  uint32_t                place;
  uint32_t                number;  // of the device in the group
  // What was counted there before the group: its devices' counts differ, and none may fall.
  uint64_t windows;
  uint64_t overruns;
  uint64_t violations;
} seat_t;

struct jvgpu_group_s {
  jvgpu_cohort_t          cohort;
  jvgpu_steered_device_t *devices[JVGPU_MOST_COHORT_DEVICES];
  seat_t                 *seats;  // each claim's together, in the members' order
  uint32_t               *first;  // shape (members + 1,): where each one's seats begin
  uint64_t                due_ns;
  int                     holder;  // as last recorded
};

// --- forming and dissolving ---------------------------------------------------------------------------------------

// What is learnt of one governor's runner is not true in another's company.
static jvgpu_runner_t afresh(const jvgpu_runner_t *runner, bool is_gang)
{
  jvgpu_runner_t fresh = *runner;
  fresh.is_gang = is_gang;
  fresh.is_known = false;
  fresh.is_stuck = false;
  fresh.fill = 0;
  fresh.window_total = 0;
  fresh.tried_ns = 0;
  fresh.use = 0;
  fresh.second_ns = 0;
  fresh.used_ns = 0;
  fresh.virtual_ns = 0;
  return fresh;
}

// In a cohort a device's time counts as its part of all devices' (gang.h).
static double part_of(const jvgpu_cohort_t *cohort, uint32_t member)
{
  return (double)__builtin_popcountll(cohort->members[member].devices) / cohort->devices;
}

static uint32_t count_seats(const jvgpu_group_t *group)
{
  uint32_t seats = 0;
  for (uint32_t i = 0; i < group->cohort.devices; i++) {
    seats += group->devices[i]->count;
  }
  return seats;
}

// Whether an earlier device of the group has this claim too: it is a member already.
static bool is_seated(const jvgpu_group_t *group, uint32_t number, const struct jvgpu_tenant_s *tenant)
{
  for (uint32_t i = 0; i < number; i++) {
    for (uint32_t place = 0; place < group->devices[i]->count; place++) {
      if (group->devices[i]->steered[place]->tenant == tenant) {
        return true;
      }
    }
  }
  return false;
}

static void seat(jvgpu_group_t *group, const struct jvgpu_tenant_s *tenant)
{
  jvgpu_cohort_t *cohort = &group->cohort;
  const uint32_t  member = cohort->count++;
  uint32_t        next = group->first[member];
  for (uint32_t i = 0; i < cohort->devices; i++) {
    jvgpu_steered_device_t *device = group->devices[i];
    for (uint32_t place = 0; place < device->count; place++) {
      if (device->steered[place]->tenant == tenant) {
        cohort->members[member].devices |= UINT64_C(1) << i;
        const jvgpu_runner_t *own = &device->runners[place];
        group->seats[next++] = (seat_t){.device = device,
                                        .place = place,
                                        .number = i,
                                        .windows = own->windows,
                                        .overruns = own->overruns,
                                        .violations = own->violations};
      }
    }
  }
  group->first[member + 1] = next;
  const seat_t *seat = &group->seats[group->first[member]];
  cohort->runners[member] = afresh(&seat->device->runners[seat->place], false);
  cohort->runners[member].budget_ns *= part_of(cohort, member);
  cohort->runners[member].windows = 0;
  cohort->runners[member].overruns = 0;
  cohort->runners[member].violations = 0;
}

static void seat_all(jvgpu_group_t *group)
{
  for (uint32_t i = 0; i < group->cohort.devices; i++) {
    jvgpu_steered_device_t *device = group->devices[i];
    for (uint32_t place = 0; place < device->count; place++) {
      if (!is_seated(group, i, device->steered[place]->tenant)) {
        seat(group, device->steered[place]->tenant);
      }
    }
    device->is_grouped = true;
  }
}

static void free_room(jvgpu_group_t *group)
{
  free(group->cohort.runners);
  free(group->cohort.members);
  free(group->cohort.ranks);
  free(group->seats);
  free(group->first);
  free(group);
}

jvgpu_group_t *jvgpu_group_make(jvgpu_steered_device_t *devices, uint64_t mask)
{
  jvgpu_group_t *group = calloc(1, sizeof *group);
  if (group == NULL) {
    return NULL;
  }
  jvgpu_cohort_t *cohort = &group->cohort;
  for (uint32_t i = 0; i < JVGPU_MOST_COHORT_DEVICES; i++) {
    if ((mask >> i & 1) != 0) {
      group->devices[cohort->devices++] = &devices[i];
    }
  }
  const uint32_t seats = count_seats(group);
  if (seats > JVGPU_MOST_MEMBERS) {
    free(group);
    return NULL;
  }
  cohort->runners = calloc(seats, sizeof *cohort->runners);
  cohort->members = calloc(seats, sizeof *cohort->members);
  cohort->ranks = calloc((size_t)seats * cohort->devices, sizeof *cohort->ranks);
  group->seats = calloc(seats, sizeof *group->seats);
  group->first = calloc((size_t)seats + 1, sizeof *group->first);
  if (cohort->runners == NULL || cohort->members == NULL || cohort->ranks == NULL || group->seats == NULL ||
      group->first == NULL) {
    free_room(group);
    return NULL;
  }
  jvgpu_cohort_start(cohort);
  group->holder = -1;
  seat_all(group);
  return group;
}

void jvgpu_group_free(jvgpu_group_t *group)
{
  for (uint32_t i = 0; i < group->cohort.devices; i++) {
    jvgpu_steered_device_t *device = group->devices[i];
    for (uint32_t place = 0; place < device->count; place++) {
      device->runners[place] = afresh(&device->runners[place], device->runners[place].is_gang);
    }
    jvgpu_steered_device_restart(device);
  }
  free_room(group);
}

// --- looking ------------------------------------------------------------------------------------------------------

// What the seats' pages say, as ranks of the cohort's members.
static void read(jvgpu_group_t *group)
{
  jvgpu_cohort_t *cohort = &group->cohort;
  for (uint32_t i = 0; i < cohort->count; i++) {
    jvgpu_member_t *member = &cohort->members[i];
    jvgpu_runner_t *runner = &cohort->runners[i];
    runner->priority = JVGPU_PRIORITY_LOW;
    runner->is_raised = false;
    for (const seat_t *seat = &group->seats[group->first[i]]; seat < &group->seats[group->first[i + 1]]; seat++) {
      jvgpu_runner_t *own = &seat->device->runners[seat->place];
      jvgpu_rank_t   *rank = &cohort->ranks[(size_t)i * cohort->devices + seat->number];
      rank->at_work = own->at_work;
      rank->blocked = own->blocked;
      rank->used_ns = own->used_ns;
      rank->flight_ns = own->flight_ns;
      own->used_ns = 0;
      member->weight_ppm = own->weight_ppm;
      member->ceiling_ppm = own->ceiling_ppm;
      runner->priority = own->priority > runner->priority ? own->priority : runner->priority;
      runner->is_raised = runner->is_raised || own->is_raised;
    }
  }
}

// All seats of a claim one after the other: its gates are opened and closed within some microseconds.
static void write(jvgpu_group_t *group, uint32_t index, jvgpu_records_t *records, uint64_t at_ns)
{
  const jvgpu_cohort_t *cohort = &group->cohort;
  for (const seat_t *seat = &group->seats[group->first[index]]; seat < &group->seats[group->first[index + 1]]; seat++) {
    jvgpu_runner_t         *own = &seat->device->runners[seat->place];
    jvgpu_steered_runner_t *steered = seat->device->steered[seat->place];
    const jvgpu_rank_t     *rank = &cohort->ranks[(size_t)index * cohort->devices + seat->number];
    const jvgpu_runner_t    before = *own;
    *own = cohort->runners[index];
    own->weight_ppm = before.weight_ppm;
    own->ceiling_ppm = before.ceiling_ppm;
    own->is_gang = before.is_gang;
    own->is_open = rank->is_open;
    own->bound_ns = rank->bound_ns;
    own->least = rank->least;
    own->budget_ns /= part_of(cohort, index);
    own->windows += seat->windows;
    own->overruns += seat->overruns;
    own->violations += seat->violations;
    own->use = cohort->members[index].use;
    own->entitled = cohort->members[index].entitled;
    own->clear_ns = 0;
    jvgpu_steered_write_clear(steered, 0);
    jvgpu_steered_write(steered, own, records, at_ns);
  }
}

static void record_window(const jvgpu_group_t *group, int index, uint32_t kind, jvgpu_records_t *records,
                          uint64_t at_ns)
{
  for (uint32_t i = group->first[index]; i < group->first[index + 1]; i++) {
    const seat_t *seat = &group->seats[i];
    jvgpu_records_add(records, seat->device->steered[seat->place]->number, kind, 0, at_ns);
  }
}

static void record_windows(jvgpu_group_t *group, jvgpu_records_t *records, uint64_t at_ns)
{
  const int holder = group->cohort.governor.holder;
  if (holder != group->holder && group->holder >= 0) {
    record_window(group, group->holder, JVGPU_WINDOW_OVER, records, at_ns);
  }
  if (holder != group->holder && holder >= 0) {
    record_window(group, holder, JVGPU_WINDOW_BEGUN, records, at_ns);
  }
  group->holder = holder;
}

uint64_t jvgpu_group_look(jvgpu_group_t *group, jvgpu_records_t *records, uint64_t at_ns)
{
  jvgpu_cohort_t *cohort = &group->cohort;
  if (at_ns < group->due_ns) {
    return group->due_ns;
  }
  for (uint32_t i = 0; i < cohort->devices; i++) {
    jvgpu_steered_device_read(group->devices[i], records, at_ns);
  }
  read(group);
  group->due_ns = at_ns + jvgpu_cohort_look(cohort, at_ns);
  for (uint32_t i = 0; i < cohort->count; i++) {
    write(group, i, records, at_ns);
  }
  record_windows(group, records, at_ns);
  return group->due_ns;
}
