#include "mig.h"

#include <stdio.h>
#include <string.h>

uint32_t sim_mig_profile_number(const sim_board_t *board, uint32_t profile)
{
  // source: `nvidia-smi mig -lgip` in NVIDIA's MIG User Guide: boards of seven compute slices, and the A30 with four
  static const uint32_t of_seven[] = {19, 14, 9, 5, 0, 0, 0, 20, 0, 15};
  static const uint32_t of_four[] = {14, 5, 0, 0, 0, 0, 0, 21, 6, 0};
  const uint32_t        kind = board->mig_profiles[profile].profile_id;
  uint32_t              most = 0;
  for (uint32_t i = 0; i < board->mig_profile_count; i++) {
    most = board->mig_profiles[i].compute_slices > most ? board->mig_profiles[i].compute_slices : most;
  }
  return kind >= sizeof of_seven / sizeof *of_seven ? kind : most == 4 ? of_four[kind] : of_seven[kind];
}

uint32_t sim_mig_profile_of_kind(const sim_board_t *board, uint32_t kind)
{
  for (uint32_t i = 0; i < board->mig_profile_count; i++) {
    if (board->mig_profiles[i].profile_id == kind) {
      return i;
    }
  }
  return SIM_MIG_NONE;
}

uint32_t sim_mig_profile_of_number(const sim_board_t *board, uint32_t number)
{
  for (uint32_t i = 0; i < board->mig_profile_count; i++) {
    if (sim_mig_profile_number(board, i) == number) {
      return i;
    }
  }
  return SIM_MIG_NONE;
}

// Memory slices and compute slices that are taken, and instances of a profile.
typedef struct sim_taken_s {
  uint32_t memory_mask;
  uint32_t compute_slices;
  uint32_t compute_most;
  uint32_t of_profile;
} sim_taken_t;

static sim_taken_t taken_of(const sim_board_t *board, const sim_control_t *control, uint32_t profile)
{
  sim_taken_t taken = {0};
  for (uint32_t i = 0; i < SIM_MIG_INSTANCES; i++) {
    const sim_instance_t *instance = &control->instances[i];
    if (instance->is_used != 0 && instance->profile < board->mig_profile_count) {
      const sim_mig_profile_t *of = &board->mig_profiles[instance->profile];
      taken.memory_mask |= ((1u << of->memory_slices) - 1u) << instance->start;
      taken.compute_slices += of->compute_slices;
      taken.of_profile += instance->profile == profile;
    }
  }
  for (uint32_t i = 0; i < board->mig_profile_count; i++) {
    const uint32_t slices = board->mig_profiles[i].compute_slices;
    taken.compute_most = slices > taken.compute_most ? slices : taken.compute_most;
  }
  return taken;
}

bool sim_mig_fits(const sim_board_t *board, const sim_control_t *control, uint32_t profile, uint32_t start)
{
  const sim_mig_profile_t *of = &board->mig_profiles[profile];
  const sim_taken_t        taken = taken_of(board, control, profile);
  bool                     may_begin = false;
  for (uint32_t i = 0; i < of->start_count && i < SIM_MIG_SLICES; i++) {
    may_begin = may_begin || of->starts[i] == start;
  }
  return may_begin && (taken.memory_mask & ((1u << of->memory_slices) - 1u) << start) == 0 &&
         taken.compute_slices + of->compute_slices <= taken.compute_most && taken.of_profile < of->count;
}

// The driver, too, begins where the fewest other places are lost: from the end for small instances.
uint32_t sim_mig_place(const sim_board_t *board, const sim_control_t *control, uint32_t profile)
{
  uint32_t best = SIM_MIG_NONE;
  uint32_t most_open = 0;
  for (uint32_t i = 0; i < board->mig_profiles[profile].start_count && i < SIM_MIG_SLICES; i++) {
    const uint32_t start = board->mig_profiles[profile].starts[i];
    if (!sim_mig_fits(board, control, profile, start)) {
      continue;
    }
    sim_control_t then = {0};
    uint32_t      open = 1;
    memcpy(then.instances, control->instances, sizeof then.instances);
    sim_mig_create(board, &then, profile, start);
    for (uint32_t other = 0; other < board->mig_profile_count; other++) {
      const sim_mig_profile_t *of = &board->mig_profiles[other];
      for (uint32_t k = 0; k < of->start_count && k < SIM_MIG_SLICES; k++) {
        open += sim_mig_fits(board, &then, other, of->starts[k]) ? of->memory_slices : 0;
      }
    }
    if (open > most_open) {
      best = start;
      most_open = open;
    }
  }
  return best;
}

uint32_t sim_mig_room(const sim_board_t *board, const sim_control_t *control, uint32_t profile)
{
  sim_control_t then = {0};
  uint32_t      room = 0;
  memcpy(then.instances, control->instances, sizeof then.instances);
  for (uint32_t i = 0; i < board->mig_profiles[profile].start_count && i < SIM_MIG_SLICES; i++) {
    room += sim_mig_create(board, &then, profile, board->mig_profiles[profile].starts[i]) != SIM_MIG_NONE;
  }
  return room;
}

uint32_t sim_mig_create(const sim_board_t *board, sim_control_t *control, uint32_t profile, uint32_t start)
{
  if (!sim_mig_fits(board, control, profile, start)) {
    return SIM_MIG_NONE;
  }
  for (uint32_t i = 0; i < SIM_MIG_INSTANCES; i++) {
    if (control->instances[i].is_used == 0) {
      memset(&control->instances[i], 0, sizeof control->instances[i]);
      control->instances[i].profile = profile;
      control->instances[i].start = start;
      control->instances[i].is_used = 1;
      return i;
    }
  }
  return SIM_MIG_NONE;
}

static uint32_t compute_mask(const sim_instance_t *instance)
{
  uint32_t mask = 0;
  for (uint32_t i = 0; i < SIM_MIG_INSTANCES; i++) {
    const sim_compute_t *compute = &instance->computes[i];
    mask |= compute->is_used != 0 ? ((1u << compute->slices) - 1u) << compute->start : 0;
  }
  return mask;
}

uint32_t sim_mig_create_compute(const sim_board_t *board, sim_instance_t *instance, uint32_t slices)
{
  const uint32_t all = board->mig_profiles[instance->profile].compute_slices;
  const uint32_t mask = compute_mask(instance);
  for (uint32_t start = 0; start + slices <= all; start++) {
    if ((mask & ((1u << slices) - 1u) << start) != 0) {
      continue;
    }
    for (uint32_t i = 0; i < SIM_MIG_INSTANCES; i++) {
      if (instance->computes[i].is_used == 0) {
        instance->computes[i] = (sim_compute_t){.is_used = 1, .slices = slices, .start = start};
        return i;
      }
    }
  }
  return SIM_MIG_NONE;
}

uint32_t sim_mig_compute_room(const sim_board_t *board, const sim_instance_t *instance, uint32_t slices)
{
  sim_instance_t then = *instance;
  uint32_t       room = 0;
  while (sim_mig_create_compute(board, &then, slices) != SIM_MIG_NONE) {
    room++;
  }
  return room;
}

uint32_t sim_mig_compute_sms(const sim_board_t *board, const sim_instance_t *instance, uint32_t slices)
{
  const sim_mig_profile_t *of = &board->mig_profiles[instance->profile];
  return of->sm_count * slices / of->compute_slices;
}

bool sim_mig_is_busy(sim_shared_t *shared, uint32_t board, uint32_t instance, uint32_t compute)
{
  for (uint32_t i = 0; i < SIM_MAX_SLOTS && i < atomic_load(&shared->slot_count); i++) {
    sim_slot_t *slot = &shared->slots[i];
    sim_use_t  *use = &slot->uses[board];
    if (sim_shared_living_pid(slot) != 0 && use->contexts != 0 && use->instance == instance + 1 &&
        (compute == SIM_MIG_NONE || use->compute == compute)) {
      return true;
    }
  }
  return false;
}

void sim_mig_uuid(const sim_board_t *board, uint32_t instance, uint32_t compute, uint8_t uuid[16])
{
  memcpy(uuid, board->uuid, 16);
  // The board's, changed where a version 5 UUID has free bits.
  uuid[0] ^= 0x4d;
  uuid[14] ^= (uint8_t)(0x10 + instance);
  uuid[15] ^= (uint8_t)(0x20 + compute);
}

void sim_mig_uuid_text(const sim_board_t *board, uint32_t instance, uint32_t compute, char text[48])
{
  uint8_t u[16];
  sim_mig_uuid(board, instance, compute, u);
  snprintf(text, 48, "MIG-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
           u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

sim_board_t sim_mig_board(const sim_board_t *board, const sim_instance_t *instance, uint32_t number, uint32_t compute)
{
  const sim_mig_profile_t *of = &board->mig_profiles[instance->profile];
  const sim_compute_t     *part = &instance->computes[compute];
  sim_board_t              seen = *board;
  if (part->slices == of->compute_slices) {
    snprintf(seen.name, sizeof seen.name, "%.60s MIG %.23s", board->name, of->name);
  } else {
    snprintf(seen.name, sizeof seen.name, "%.60s MIG %uc.%.23s", board->name, part->slices, of->name);
  }
  sim_mig_uuid(board, number, compute, seen.uuid);
  seen.memory_bytes = of->memory_mib << 20;
  seen.reserved_bytes = 0;
  seen.sm_count = sim_mig_compute_sms(board, instance, part->slices);
  seen.l2_bytes = board->l2_bytes * of->memory_slices / SIM_MIG_SLICES;
  return seen;
}
