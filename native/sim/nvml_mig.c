// MIG through NVML: mode, profiles, GPU instances. Changes are root's.

#include <stdio.h>

#include "nvml_mig.h"

struct nvmlGpuInstance_st {
  unsigned int board;
  unsigned int instance;
};
static struct nvmlGpuInstance_st gpu_handles[SIM_MAX_BOARDS][SIM_MIG_INSTANCES];

sim_domain_t *sim_nvml_mig_lock(unsigned int number)
{
  sim_domain_t *domain = &sim_nvml_shared()->domains[number * (1 + SIM_MIG_INSTANCES)];
  sim_domain_lock(domain);
  return domain;
}

nvmlGpuInstance_t sim_nvml_gpu_instance(unsigned int number, unsigned int index)
{
  gpu_handles[number][index] = (struct nvmlGpuInstance_st){.board = number, .instance = index};
  return &gpu_handles[number][index];
}

nvmlReturn_t sim_nvml_mig_find(nvmlGpuInstance_t handle, sim_mig_found_t *found)
{
  const char        *place = (const char *)handle;
  const nvmlReturn_t ready = sim_nvml_ready();
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  if (place < (const char *)gpu_handles || place >= (const char *)gpu_handles + sizeof gpu_handles) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  found->number = handle->board;
  found->index = handle->instance;
  found->board = &sim_nvml_shared()->boards[handle->board];
  found->control = sim_nvml_control(handle->board);
  found->instance = &found->control->instances[handle->instance];
  return found->instance->is_used != 0 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

// A device that is a whole board with MIG, on or (where that will do) off, and a place for the answer.
static nvmlReturn_t check(const char *function, nvmlDevice_t handle, bool on, const sim_board_t **board,
                          unsigned int *number, const void *out)
{
  const nvmlReturn_t result = sim_nvml_board_for(function, handle, board, number);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (sim_nvml_is_mig(handle)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  if ((*board)->has_mig == 0 || (on && sim_nvml_control(*number)->mig_mode == 0)) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  return out == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

// The same, and the profile with the number `id`.
static nvmlReturn_t check_profile(const char *function, nvmlDevice_t handle, bool on, unsigned int id,
                                  const sim_board_t **board, unsigned int *number, uint32_t *profile, const void *out)
{
  const nvmlReturn_t result = check(function, handle, on, board, number, out);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *profile = sim_mig_profile_of_number(*board, id);
  return *profile == SIM_MIG_NONE ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

// ---- mode

SIM_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned int *current, unsigned int *pending)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = check(__func__, handle, false, &board, &number, current == NULL ? NULL : pending);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *current = sim_nvml_control(number)->mig_mode;
  *pending = sim_nvml_control(number)->mig_pending;
  return NVML_SUCCESS;
}

static bool is_in_use(unsigned int number)
{
  sim_shared_t *shared = sim_nvml_shared();
  bool          in_use = false;
  for (unsigned int i = 0; i < SIM_MIG_INSTANCES; i++) {
    in_use = in_use || sim_nvml_control(number)->instances[i].is_used != 0;
  }
  for (unsigned int i = 0; i < SIM_MAX_SLOTS && i < shared->slot_count; i++) {
    in_use = in_use || (sim_shared_living_pid(&shared->slots[i]) != 0 && shared->slots[i].uses[number].contexts != 0);
  }
  return in_use;
}

SIM_API nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t handle, unsigned int mode, nvmlReturn_t *activation)
{
  const sim_board_t *board;
  unsigned int       number;
  nvmlReturn_t       result = check(__func__, handle, false, &board, &number, mode > 1 ? NULL : activation);
  if (result != NVML_SUCCESS) {
    return result;
  }
  result = sim_nvml_check_root();
  if (result != NVML_SUCCESS) {
    return result;
  }
  sim_control_t *control = sim_nvml_control(number);
  sim_domain_t  *domain = sim_nvml_mig_lock(number);
  control->mig_pending = mode;
  // The mode changes with a reset of the board, and that needs it to be free.
  *activation = control->mig_mode != mode && is_in_use(number) ? NVML_ERROR_IN_USE : NVML_SUCCESS;
  if (*activation == NVML_SUCCESS) {
    control->mig_mode = mode;
  }
  sim_domain_unlock(domain);
  return NVML_SUCCESS;
}

// ---- profiles

static void fill_profile(const sim_board_t *board, uint32_t profile, nvmlGpuInstanceProfileInfo_t *info)
{
  const sim_mig_profile_t *of = &board->mig_profiles[profile];
  *info = (nvmlGpuInstanceProfileInfo_t){.id = sim_mig_profile_number(board, profile),
                                         .sliceCount = of->compute_slices,
                                         .instanceCount = of->count,
                                         .multiprocessorCount = of->sm_count,
                                         .copyEngineCount = of->copy_engines,
                                         .decoderCount = of->decoders,
                                         .jpegCount = of->jpegs,
                                         .ofaCount = of->ofas,
                                         .memorySizeMB = of->memory_mib};
}

// The profile of a kind (NVML_GPU_INSTANCE_PROFILE_*) in the plain form, which all others repeat.
static nvmlReturn_t profile_of_kind(const char *function, nvmlDevice_t handle, unsigned int kind, const void *out,
                                    nvmlGpuInstanceProfileInfo_t *info, const char **name)
{
  const sim_board_t *board;
  unsigned int       number;
  const bool         is_kind = kind < NVML_GPU_INSTANCE_PROFILE_COUNT;
  const nvmlReturn_t result = check(function, handle, false, &board, &number, is_kind ? out : NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const uint32_t profile = sim_mig_profile_of_kind(board, kind);
  if (profile == SIM_MIG_NONE) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  fill_profile(board, profile, info);
  *name = board->mig_profiles[profile].name;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t handle, unsigned int kind,
                                                         nvmlGpuInstanceProfileInfo_t *info)
{
  nvmlGpuInstanceProfileInfo_t plain;
  const char                  *name;
  const nvmlReturn_t           result = profile_of_kind(__func__, handle, kind, info, &plain, &name);
  if (result == NVML_SUCCESS) {
    *info = plain;
  }
  return result;
}

// Versions 2 and 3 differ in one field, which stays zero.
#define FILL_NAMED(type, place, number)                                 \
  do {                                                                  \
    *(place) = (type){.version = (number),                              \
                      .id = plain.id,                                   \
                      .sliceCount = plain.sliceCount,                   \
                      .instanceCount = plain.instanceCount,             \
                      .multiprocessorCount = plain.multiprocessorCount, \
                      .copyEngineCount = plain.copyEngineCount,         \
                      .decoderCount = plain.decoderCount,               \
                      .jpegCount = plain.jpegCount,                     \
                      .ofaCount = plain.ofaCount,                       \
                      .memorySizeMB = plain.memorySizeMB};              \
    snprintf((place)->name, sizeof(place)->name, "MIG %s", name);       \
  } while (0)

SIM_API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t handle, unsigned int kind,
                                                          nvmlGpuInstanceProfileInfo_v2_t *info)
{
  nvmlGpuInstanceProfileInfo_t plain;
  const char                  *name;
  const nvmlReturn_t           result = profile_of_kind(__func__, handle, kind, info, &plain, &name);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (info->version == (sizeof(nvmlGpuInstanceProfileInfo_v2_t) | 2u << 24)) {
    FILL_NAMED(nvmlGpuInstanceProfileInfo_v2_t, info, info->version);
  } else if (info->version == (sizeof(nvmlGpuInstanceProfileInfo_v3_t) | 3u << 24)) {
    nvmlGpuInstanceProfileInfo_v3_t *third = (nvmlGpuInstanceProfileInfo_v3_t *)(void *)info;
    FILL_NAMED(nvmlGpuInstanceProfileInfo_v3_t, third, info->version);
  } else {
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  }
  return NVML_SUCCESS;
}

static nvmlReturn_t placements(nvmlDevice_t handle, unsigned int id, nvmlGpuInstancePlacement_t *places,
                               unsigned int *count)
{
  const sim_board_t *board;
  unsigned int       number;
  uint32_t           profile;
  const nvmlReturn_t result = check_profile(__func__, handle, false, id, &board, &number, &profile, count);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const sim_mig_profile_t *of = &board->mig_profiles[profile];
  if (places != NULL && *count < of->start_count) {
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  for (uint32_t i = 0; places != NULL && i < of->start_count; i++) {
    places[i] = (nvmlGpuInstancePlacement_t){.start = of->starts[i], .size = of->memory_slices};
  }
  *count = of->start_count;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t handle, unsigned int id,
                                                                nvmlGpuInstancePlacement_t *places, unsigned int *count)
{
  return placements(handle, id, places, count);
}

SIM_API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t handle, unsigned int id,
                                                                   nvmlGpuInstancePlacement_t *places,
                                                                   unsigned int               *count)
{
  return placements(handle, id, places, count);
}

SIM_API nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t handle, unsigned int id,
                                                               unsigned int *count)
{
  const sim_board_t *board;
  unsigned int       number;
  uint32_t           profile;
  const nvmlReturn_t result = check_profile(__func__, handle, true, id, &board, &number, &profile, count);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *count = sim_mig_room(board, sim_nvml_control(number), profile);
  return NVML_SUCCESS;
}

// ---- GPU instances

static nvmlReturn_t create(const char *function, nvmlDevice_t handle, unsigned int id,
                           const nvmlGpuInstancePlacement_t *place, nvmlGpuInstance_t *made)
{
  const sim_board_t *board;
  unsigned int       number;
  uint32_t           profile;
  nvmlReturn_t       result = check(function, handle, true, &board, &number, function);
  result = result != NVML_SUCCESS ? result : sim_nvml_check_root();
  result = result != NVML_SUCCESS ? result : check_profile(function, handle, true, id, &board, &number, &profile, made);
  if (result != NVML_SUCCESS) {
    return result;
  }
  sim_control_t *control = sim_nvml_control(number);
  sim_domain_t  *domain = sim_nvml_mig_lock(number);
  const uint32_t start = place == NULL ? sim_mig_place(board, control, profile) : place->start;
  const uint32_t index = start == SIM_MIG_NONE ? SIM_MIG_NONE : sim_mig_create(board, control, profile, start);
  sim_domain_unlock(domain);
  if (index == SIM_MIG_NONE) {
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
  }
  *made = sim_nvml_gpu_instance(number, index);
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t handle, unsigned int id, nvmlGpuInstance_t *made)
{
  return create(__func__, handle, id, NULL, made);
}

SIM_API nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t handle, unsigned int id,
                                                              const nvmlGpuInstancePlacement_t *place,
                                                              nvmlGpuInstance_t                *made)
{
  return place == NULL ? NVML_ERROR_INVALID_ARGUMENT : create(__func__, handle, id, place, made);
}

SIM_API nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
  sim_mig_found_t found;
  nvmlReturn_t    result = sim_nvml_mig_find(handle, &found);
  result = result != NVML_SUCCESS ? result : sim_nvml_check_root();
  if (result != NVML_SUCCESS) {
    return result;
  }
  sim_domain_t *domain = sim_nvml_mig_lock(found.number);
  bool          is_busy = sim_mig_is_busy(sim_nvml_shared(), found.number, found.index, SIM_MIG_NONE);
  for (unsigned int i = 0; i < SIM_MIG_INSTANCES; i++) {
    is_busy = is_busy || found.instance->computes[i].is_used != 0;
  }
  if (!is_busy) {
    found.instance->is_used = 0;
  }
  sim_domain_unlock(domain);
  return is_busy ? NVML_ERROR_IN_USE : NVML_SUCCESS;
}

// Without MIG there are none, which is no error to a driver 580.159.04.
SIM_API nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t handle, unsigned int id, nvmlGpuInstance_t *instances,
                                               unsigned int *count)
{
  const sim_board_t *board;
  unsigned int       number;
  uint32_t           profile;
  const nvmlReturn_t result =
      check_profile(__func__, handle, false, id, &board, &number, &profile, count == NULL ? NULL : instances);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *count = 0;
  for (unsigned int i = 0; i < SIM_MIG_INSTANCES; i++) {
    const sim_instance_t *instance = &sim_nvml_control(number)->instances[i];
    if (instance->is_used != 0 && instance->profile == profile) {
      instances[(*count)++] = sim_nvml_gpu_instance(number, i);
    }
  }
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t handle, unsigned int id, nvmlGpuInstance_t *instance)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = check(__func__, handle, false, &board, &number, instance);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (id < 1 || id > SIM_MIG_INSTANCES || sim_nvml_control(number)->instances[id - 1].is_used == 0) {
    return NVML_ERROR_NOT_FOUND;
  }
  *instance = sim_nvml_gpu_instance(number, id - 1);
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
  sim_mig_found_t    found;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_mig_find(handle, &found), info != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *info =
      (nvmlGpuInstanceInfo_t){.device = sim_nvml_handle(found.number),
                              .id = found.index + 1,
                              .profileId = sim_mig_profile_number(found.board, found.instance->profile),
                              .placement = {.start = found.instance->start,
                                            .size = found.board->mig_profiles[found.instance->profile].memory_slices}};
  return NVML_SUCCESS;
}
