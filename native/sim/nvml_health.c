// What a watch on a board's health reads: ECC counters, retired and remapped memory, Xid events, GPM.

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nvml_device.h"

// ---- ECC

SIM_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, nvmlMemoryErrorType_t kind,
                                                 nvmlEccCounterType_t counter, unsigned long long *count)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, &number),
                                             count != NULL && (unsigned int)kind <= 1 && (unsigned int)counter <= 1);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const sim_control_t *control = sim_nvml_control(number);
  *count = (unsigned int)kind == 0 ? control->ecc_corrected : control->ecc_uncorrected;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t handle, nvmlMemoryErrorType_t kind,
                                                     nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                                     unsigned long long *count)
{
  enum { DEVICE_MEMORY = 2, LOCATIONS = 8 };
  if ((unsigned int)location >= LOCATIONS) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const nvmlReturn_t result = nvmlDeviceGetTotalEccErrors(handle, kind, counter, count);
  if (result == NVML_SUCCESS && (unsigned int)location != DEVICE_MEMORY) {
    *count = 0;
  }
  return result;
}

SIM_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int *corrected, unsigned int *uncorrected,
                                               unsigned int *is_pending, unsigned int *has_failed)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result =
      sim_nvml_given(sim_nvml_board(handle, &board, &number),
                     corrected != NULL && uncorrected != NULL && is_pending != NULL && has_failed != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *corrected = 0;
  *uncorrected = (unsigned int)sim_nvml_control(number)->ecc_uncorrected;
  *is_pending = *uncorrected > 0;
  *has_failed = 0;
  return NVML_SUCCESS;
}

// ---- events

struct nvmlEventSet_st {
  unsigned long long kinds[SIM_MAX_BOARDS];  // asked for, per board
  uint64_t           seen[SIM_MAX_BOARDS];
};

SIM_API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t handle, unsigned long long *kinds)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), kinds != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *kinds = nvmlEventTypeXidCriticalError;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
  const nvmlReturn_t ready = sim_nvml_given(sim_nvml_ready(), set != NULL);
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  *set = calloc(1, sizeof **set);
  return *set == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
  free(set);
  return set == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long kinds, nvmlEventSet_t set)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, &number), set != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if ((kinds & ~nvmlEventTypeXidCriticalError) != 0) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  set->kinds[number] = kinds;
  set->seen[number] = sim_nvml_control(number)->xid_count;
  return NVML_SUCCESS;
}

static bool take_event(nvmlEventSet_t set, nvmlEventData_t *data)
{
  for (unsigned int i = 0; i < sim_nvml_shared()->board_count; i++) {
    const sim_control_t *control = sim_nvml_control(i);
    const uint64_t       count = control->xid_count;
    if (set->kinds[i] == 0 || set->seen[i] >= count) {
      continue;
    }
    // Older ones have been overwritten.
    set->seen[i] = count - set->seen[i] > SIM_XIDS ? count - SIM_XIDS : set->seen[i];
    const sim_xid_t *xid = &control->xids[set->seen[i]++ % SIM_XIDS];
    *data = (nvmlEventData_t){.device = sim_nvml_handle(i),
                              .eventType = nvmlEventTypeXidCriticalError,
                              .eventData = xid->xid,
                              .gpuInstanceId = UINT32_MAX,
                              .computeInstanceId = UINT32_MAX};
    return true;
  }
  return false;
}

static nvmlReturn_t wait_for(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
  const struct timespec pause = {.tv_nsec = 10000000};
  const nvmlReturn_t    ready = sim_nvml_given(sim_nvml_ready(), set != NULL && data != NULL);
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  if (sim_nvml_shared() == NULL) {
    return NVML_ERROR_TIMEOUT;
  }
  for (unsigned int waited_ms = 0;; waited_ms += 10) {
    if (take_event(set, data)) {
      return NVML_SUCCESS;
    }
    if (waited_ms >= timeout_ms) {
      return NVML_ERROR_TIMEOUT;
    }
    nanosleep(&pause, NULL);
  }
}

SIM_API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
  return wait_for(set, data, timeout_ms);
}

SIM_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
  return wait_for(set, data, timeout_ms);
}

// ---- GPM: two looks at the schedule, and the difference. Hopper and later have it.

struct nvmlGpmSample_st {
  uint64_t at_ns;
  uint64_t busy_ns;
  uint64_t sm_ns;
};

enum { GPM_FIRST_MAJOR = 9, GPM_GRAPHICS = 1, GPM_SM = 2, GPM_OCCUPANCY = 3 };

SIM_API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t handle, nvmlGpmSupport_t *support)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), support != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (support->version != 1) {
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  }
  support->isSupportedDevice = board->capability_major >= GPM_FIRST_MAJOR;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
  if (sample == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *sample = calloc(1, sizeof **sample);
  return *sample == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
  free(sample);
  return sample == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t handle, nvmlGpmSample_t sample)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, &number), sample != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (board->capability_major < GPM_FIRST_MAJOR) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  sample->busy_ns = sim_nvml_total(number, &sample->sm_ns);
  sample->at_ns = sim_now_ns();
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
  if (get == NULL || get->sample1 == NULL || get->sample2 == NULL || get->numMetrics > NVML_GPM_METRIC_MAX) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  if (get->version != 1) {
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  }
  const double span = (double)(int64_t)(get->sample2->at_ns - get->sample1->at_ns);
  const double busy = (double)(int64_t)(get->sample2->busy_ns - get->sample1->busy_ns);
  const double sm = (double)(int64_t)(get->sample2->sm_ns - get->sample1->sm_ns);
  for (unsigned int i = 0; i < get->numMetrics; i++) {
    const unsigned int metric = (unsigned int)get->metrics[i].metricId;
    const double       part = metric == GPM_GRAPHICS ? busy : sm;
    const bool         is_known = metric >= GPM_GRAPHICS && metric <= GPM_OCCUPANCY;
    get->metrics[i].nvmlReturn = !is_known ? NVML_ERROR_NOT_SUPPORTED : span > 0 ? NVML_SUCCESS : NVML_ERROR_NO_DATA;
    get->metrics[i].value = is_known && span > 0 ? 100.0 * part / span : 0;
    memset(&get->metrics[i].metricInfo, 0, sizeof get->metrics[i].metricInfo);
  }
  return NVML_SUCCESS;
}
