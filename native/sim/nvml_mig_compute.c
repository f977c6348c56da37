// MIG through NVML: compute instances, the parts of a GPU instance's SMs. Changes are root's.

#include "nvml_mig.h"

struct nvmlComputeInstance_st {
  unsigned int board;
  unsigned int instance;
  unsigned int compute;
};

static struct nvmlComputeInstance_st compute_handles[SIM_MAX_BOARDS][SIM_MIG_INSTANCES][SIM_MIG_INSTANCES];

static nvmlComputeInstance_t compute_handle(unsigned int number, unsigned int instance, unsigned int compute)
{
  struct nvmlComputeInstance_st *handle = &compute_handles[number][instance][compute];
  *handle = (struct nvmlComputeInstance_st){.board = number, .instance = instance, .compute = compute};
  return handle;
}

static uint32_t slices_of(unsigned int kind)
{
  static const uint32_t slices[] = {1, 2, 3, 4, 7, 8, 6};
  return kind < sizeof slices / sizeof *slices ? slices[kind] : 0;
}

SIM_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned int kind,
                                                                  unsigned int                      engines,
                                                                  nvmlComputeInstanceProfileInfo_t *info)
{
  sim_mig_found_t    found;
  const nvmlReturn_t result = sim_nvml_given(
      sim_nvml_mig_find(handle, &found), info != NULL && engines == 0 && kind < NVML_COMPUTE_INSTANCE_PROFILE_COUNT);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const sim_mig_profile_t *of = &found.board->mig_profiles[found.instance->profile];
  const uint32_t           slices = slices_of(kind);
  if (slices == 0 || slices > of->compute_slices) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  *info = (nvmlComputeInstanceProfileInfo_t){.id = kind,
                                             .sliceCount = slices,
                                             .instanceCount = of->compute_slices / slices,
                                             .multiprocessorCount =
                                                 sim_mig_compute_sms(found.board, found.instance, slices),
                                             .sharedCopyEngineCount = of->copy_engines,
                                             .sharedDecoderCount = of->decoders,
                                             .sharedJpegCount = of->jpegs,
                                             .sharedOfaCount = of->ofas};
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle, unsigned int id,
                                                                        unsigned int *count)
{
  sim_mig_found_t    found;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_mig_find(handle, &found), count != NULL && slices_of(id) != 0);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *count = sim_mig_compute_room(found.board, found.instance, slices_of(id));
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned int id,
                                                          nvmlComputeInstance_t *made)
{
  sim_mig_found_t found;
  nvmlReturn_t    result = sim_nvml_mig_find(handle, &found);
  result = sim_nvml_given(result != NVML_SUCCESS ? result : sim_nvml_check_root(), made != NULL && slices_of(id) != 0);
  if (result != NVML_SUCCESS) {
    return result;
  }
  sim_domain_t  *domain = sim_nvml_mig_lock(found.number);
  const uint32_t index = sim_mig_create_compute(found.board, found.instance, slices_of(id));
  if (index != SIM_MIG_NONE) {
    found.instance->computes[index].profile_id = id;
  }
  sim_domain_unlock(domain);
  if (index == SIM_MIG_NONE) {
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
  }
  *made = compute_handle(found.number, found.index, index);
  return NVML_SUCCESS;
}

static nvmlReturn_t find_compute(nvmlComputeInstance_t handle, sim_mig_found_t *found, sim_compute_t **compute)
{
  const char *place = (const char *)handle;
  if (place < (const char *)compute_handles || place >= (const char *)compute_handles + sizeof compute_handles) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const nvmlReturn_t result = sim_nvml_mig_find(sim_nvml_gpu_instance(handle->board, handle->instance), found);
  *compute = result == NVML_SUCCESS ? &found->instance->computes[handle->compute] : NULL;
  return result == NVML_SUCCESS && (*compute)->is_used == 0 ? NVML_ERROR_INVALID_ARGUMENT : result;
}

SIM_API nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
  sim_mig_found_t found;
  sim_compute_t  *compute;
  nvmlReturn_t    result = find_compute(handle, &found, &compute);
  result = result != NVML_SUCCESS ? result : sim_nvml_check_root();
  if (result != NVML_SUCCESS) {
    return result;
  }
  sim_domain_t *domain = sim_nvml_mig_lock(found.number);
  const bool    is_busy = sim_mig_is_busy(sim_nvml_shared(), found.number, found.index, handle->compute);
  if (!is_busy) {
    compute->is_used = 0;
  }
  sim_domain_unlock(domain);
  return is_busy ? NVML_ERROR_IN_USE : NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned int id,
                                                        nvmlComputeInstance_t *instances, unsigned int *count)
{
  sim_mig_found_t    found;
  const nvmlReturn_t result =
      sim_nvml_given(sim_nvml_mig_find(handle, &found), instances != NULL && count != NULL && slices_of(id) != 0);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *count = 0;
  for (unsigned int i = 0; i < SIM_MIG_INSTANCES; i++) {
    if (found.instance->computes[i].is_used != 0 && found.instance->computes[i].profile_id == id) {
      instances[(*count)++] = compute_handle(found.number, found.index, i);
    }
  }
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned int id,
                                                           nvmlComputeInstance_t *compute)
{
  sim_mig_found_t    found;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_mig_find(handle, &found), compute != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (id >= SIM_MIG_INSTANCES || found.instance->computes[id].is_used == 0) {
    return NVML_ERROR_NOT_FOUND;
  }
  *compute = compute_handle(found.number, found.index, id);
  return NVML_SUCCESS;
}

static nvmlReturn_t compute_info(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
  sim_mig_found_t    found;
  sim_compute_t     *compute;
  const nvmlReturn_t result = sim_nvml_given(find_compute(handle, &found, &compute), info != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *info = (nvmlComputeInstanceInfo_t){.device = sim_nvml_handle(found.number),
                                      .gpuInstance = sim_nvml_gpu_instance(found.number, found.index),
                                      .id = handle->compute,
                                      .profileId = compute->profile_id,
                                      .placement = {.start = compute->start, .size = compute->slices}};
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
  return compute_info(handle, info);
}

SIM_API nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
  return compute_info(handle, info);
}
