// MIG devices: a compute instance in its GPU instance, with a handle like a board's.

#include "mig.h"
#include "nvml_device.h"

SIM_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned int *is_mig)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), is_mig != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *is_mig = sim_nvml_is_mig(handle);
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned int *count)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), count != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *count = 0;
  for (unsigned int i = 0; i < board->mig_profile_count; i++) {
    *count = board->mig_profiles[i].count > *count ? board->mig_profiles[i].count : *count;
  }
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index, nvmlDevice_t *device)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result =
      sim_nvml_given(sim_nvml_board(handle, &board, &number), device != NULL && !sim_nvml_is_mig(handle));
  if (result != NVML_SUCCESS) {
    return result;
  }
  const sim_control_t *control = sim_nvml_control(number);
  if (board->has_mig == 0 || control->mig_mode == 0) {
    return NVML_ERROR_NOT_FOUND;
  }
  for (unsigned int i = 0; i < SIM_MIG_INSTANCES; i++) {
    for (unsigned int k = 0; k < SIM_MIG_INSTANCES; k++) {
      if (control->instances[i].is_used != 0 && control->instances[i].computes[k].is_used != 0 && index-- == 0) {
        *device = sim_nvml_mig_handle(number, i, k);
        return NVML_SUCCESS;
      }
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

SIM_API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t handle, nvmlDevice_t *device)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result =
      sim_nvml_given(sim_nvml_board(handle, &board, &number), device != NULL && sim_nvml_is_mig(handle));
  if (result != NVML_SUCCESS) {
    return result;
  }
  *device = sim_nvml_handle(number);
  return NVML_SUCCESS;
}

static nvmlReturn_t id_of(const char *function, nvmlDevice_t handle, unsigned int *id, bool of_compute)
{
  const sim_board_t *board;
  sim_mig_place_t    place;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board_for(function, handle, &board, NULL), id != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (!sim_nvml_mig_place(handle, &place)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *id = of_compute ? place.compute : place.instance + 1;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned int *id)
{
  return id_of(__func__, handle, id, false);
}

SIM_API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned int *id)
{
  return id_of(__func__, handle, id, true);
}
