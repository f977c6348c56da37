// nvmlDeviceSetMemoryLimits_v1 and its counterpart, of driver R615.

#include <string.h>
#include <unistd.h>

#include "nvml_device.h"

static sim_memory_limit_t *find(sim_control_t *control, const char *group)
{
  for (unsigned int i = 0; i < SIM_MEMORY_LIMITS; i++) {
    if (strncmp(control->limits[i].group, group, sizeof control->limits[i].group) == 0) {
      return &control->limits[i];
    }
  }
  return NULL;
}

static nvmlReturn_t check(nvmlDevice_t handle, const sim_board_t **board, unsigned int *number, const char *group)
{
  nvmlReturn_t result = sim_nvml_board(handle, board, number);
  if (result == NVML_SUCCESS &&
      (group == NULL || group[0] == 0 || strlen(group) >= sizeof(((sim_memory_limit_t *)0)->group) ||
       sim_nvml_is_mig(handle))) {
    result = NVML_ERROR_INVALID_ARGUMENT;
  }
  return result == NVML_SUCCESS && access(group, F_OK) != 0 ? NVML_ERROR_OPERATING_SYSTEM : result;
}

static nvmlReturn_t set(sim_control_t *control, const nvmlSetMemoryLimits_v1_t *limits)
{
  const bool          clears = limits->softLimit == 0 && limits->hardLimit == NVML_DEVICE_MEMORY_LIMIT_MAX;
  sim_memory_limit_t *limit = find(control, limits->nameSpace);
  if (clears) {
    if (limit != NULL) {
      memset(limit, 0, sizeof *limit);
    }
    return NVML_SUCCESS;
  }
  limit = limit == NULL ? find(control, "") : limit;
  if (limit == NULL) {
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
  }
  limit->soft_bytes = limits->softLimit;
  limit->hard_bytes = limits->hardLimit;
  memcpy(limit->group, limits->nameSpace, strlen(limits->nameSpace) + 1);
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t handle, nvmlSetMemoryLimits_v1_t *limits)
{
  const sim_board_t *board;
  unsigned int       number;
  if (limits == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  nvmlReturn_t result = sim_nvml_check_root();
  result = result != NVML_SUCCESS ? result : check(handle, &board, &number, limits->nameSpace);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const bool has_hard = limits->hardLimit != NVML_DEVICE_MEMORY_LIMIT_MAX;
  if (limits->softLimit > limits->hardLimit || (has_hard && limits->hardLimit > board->memory_bytes)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  sim_domain_t *domain = &sim_nvml_shared()->domains[number * (1 + SIM_MIG_INSTANCES)];
  sim_domain_lock(domain);
  result = set(sim_nvml_control(number), limits);
  sim_domain_unlock(domain);
  return result;
}

SIM_API nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t handle, nvmlGetMemoryLimits_v1_t *limits)
{
  const sim_board_t *board;
  unsigned int       number;
  if (limits == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const nvmlReturn_t result = check(handle, &board, &number, limits->nameSpace);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const sim_memory_limit_t *limit = find(sim_nvml_control(number), limits->nameSpace);
  sim_memory_limit_t        none = {.hard_bytes = NVML_DEVICE_MEMORY_LIMIT_MAX};
  memcpy(none.group, limits->nameSpace, strlen(limits->nameSpace) + 1);
  limit = limit == NULL ? &none : limit;
  limits->softLimit = limit->soft_bytes;
  limits->hardLimit = limit->hard_bytes;
  limits->currentUsed = sim_limit_used(sim_nvml_shared(), number, limit);
  return NVML_SUCCESS;
}
