// NVML, processes: a tenant sees its own.

#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>

#include "devices.h"
#include "hooks.h"
#include "hooks_nvml.h"
#include "whose.h"

#define MOST_PROCESSES 512u
// source: NVML API Reference, nvmlDeviceGetAccountingBufferSize: 4000 on the devices there are.
#define MOST_ACCOUNTED 4096u

// Give the caller `own` rows, or say how much room they want, as NVML's own buffer protocol has it.
// source: NVML API Reference, nvmlDeviceGetComputeRunningProcesses_v3.
static nvmlReturn_t hand_out(const void *rows, unsigned int own, size_t row_bytes, unsigned int *room, void *infos)
{
  const bool fits = own == 0 || (*room >= own && infos != NULL);
  if (fits && own > 0) {
    memcpy(infos, rows, own * row_bytes);
  }
  *room = own;
  return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

// A list: the whole of it into a buffer of ours, the tenant's own rows out into the caller's.
#define LISTS(name, row_t)                                                         \
  nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, row_t *infos)        \
  {                                                                                \
    row_t        all[MOST_PROCESSES];                                              \
    unsigned int found = MOST_PROCESSES;                                           \
    if (!JVGPU_HAS_NVML(name)) {                                                   \
      return JVGPU_NO_SUCH_NVML;                                                   \
    }                                                                              \
    const jvgpu_process_t *self = jvgpu_tenant();                                  \
    if (count == NULL || jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {     \
      return jvgpu_real.name(device, count, infos);                                \
    }                                                                              \
    const nvmlReturn_t result = jvgpu_real.name(device, &found, all);              \
    if (result != NVML_SUCCESS) {                                                  \
      return result;                                                               \
    }                                                                              \
    found = jvgpu_whose_keep(self, all, found, sizeof *all, offsetof(row_t, pid)); \
    return hand_out(all, found, sizeof *all, count, infos);                        \
  }

LISTS(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetEncoderSessions, nvmlEncoderSessionInfo_t)
LISTS(nvmlDeviceGetFBCSessions, nvmlFBCSessionInfo_t)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list)
{
  nvmlProcessDetail_v1_t rows[MOST_PROCESSES];
  if (!JVGPU_HAS_NVML(nvmlDeviceGetRunningProcessDetailList)) {
    return JVGPU_NO_SUCH_NVML;
  }
  const jvgpu_process_t *self = jvgpu_tenant();
  if (list == NULL || jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {
    return jvgpu_real.nvmlDeviceGetRunningProcessDetailList(device, list);
  }
  nvmlProcessDetailList_t all = *list;
  all.numProcArrayEntries = MOST_PROCESSES;
  all.procArray = rows;
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetRunningProcessDetailList(device, &all);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const unsigned int own = jvgpu_whose_keep(self, rows, all.numProcArrayEntries, sizeof *rows, 0);
  return hand_out(rows, own, sizeof *rows, &list->numProcArrayEntries, list->procArray);
}

// --- accounting: what processes did, the dead ones too ------------------------------------------------------

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
  unsigned int all[MOST_ACCOUNTED];
  unsigned int found = MOST_ACCOUNTED;
  if (!JVGPU_HAS_NVML(nvmlDeviceGetAccountingPids)) {
    return JVGPU_NO_SUCH_NVML;
  }
  const jvgpu_process_t *self = jvgpu_tenant();
  if (count == NULL || jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {
    return jvgpu_real.nvmlDeviceGetAccountingPids(device, count, pids);
  }
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetAccountingPids(device, &found, all);
  if (result != NVML_SUCCESS) {
    return result;
  }
  found = jvgpu_whose_keep(self, all, found, sizeof *all, 0);
  return hand_out(all, found, sizeof *all, count, pids);
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, void *stats)
{
  if (!JVGPU_HAS_NVML(nvmlDeviceGetAccountingStats)) {
    return JVGPU_NO_SUCH_NVML;
  }
  const jvgpu_process_t *self = jvgpu_tenant();
  return self != NULL && jvgpu_whose_is_own(self, pid) ? jvgpu_real.nvmlDeviceGetAccountingStats(device, pid, stats)
                                                       : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats)
{
  if (!JVGPU_HAS_NVML(nvmlDeviceGetAccountingStats_v2)) {
    return JVGPU_NO_SUCH_NVML;
  }
  const jvgpu_process_t *self = jvgpu_tenant();
  const bool             is_own = self != NULL && stats != NULL && jvgpu_whose_is_own(self, stats->pid);
  return is_own ? jvgpu_real.nvmlDeviceGetAccountingStats_v2(device, stats) : NVML_ERROR_NOT_FOUND;
}

// --- how busy each process keeps the device -------------------------------------------------------------------

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long since)
{
  nvmlProcessUtilizationSample_t all[MOST_PROCESSES];
  unsigned int                   found = MOST_PROCESSES;
  if (!JVGPU_HAS_NVML(nvmlDeviceGetProcessUtilization)) {
    return JVGPU_NO_SUCH_NVML;
  }
  const jvgpu_process_t *self = jvgpu_tenant();
  if (count == NULL || jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {
    return jvgpu_real.nvmlDeviceGetProcessUtilization(device, samples, count, since);
  }
  if (samples == NULL) {
    // Asked how many: to a driver 580.159.04 there is too little room then, also when nobody is on the device.
    unsigned int       none = 0;
    const nvmlReturn_t asked = jvgpu_real.nvmlDeviceGetProcessUtilization(device, NULL, &none, since);
    *count = asked == NVML_ERROR_INSUFFICIENT_SIZE ? MOST_PROCESSES : *count;
    return asked;
  }
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetProcessUtilization(device, all, &found, since);
  if (result != NVML_SUCCESS) {
    return result;
  }
  found = jvgpu_whose_keep(self, all, found, sizeof *all, offsetof(nvmlProcessUtilizationSample_t, pid));
  // source: NVML API Reference: no samples are "not found".
  const nvmlReturn_t handed = hand_out(all, found, sizeof *all, count, samples);
  return found == 0 ? NVML_ERROR_NOT_FOUND : handed;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *list)
{
  nvmlProcessUtilizationInfo_v1_t rows[MOST_PROCESSES];
  if (!JVGPU_HAS_NVML(nvmlDeviceGetProcessesUtilizationInfo)) {
    return JVGPU_NO_SUCH_NVML;
  }
  const jvgpu_process_t *self = jvgpu_tenant();
  if (list == NULL || jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {
    return jvgpu_real.nvmlDeviceGetProcessesUtilizationInfo(device, list);
  }
  nvmlProcessesUtilizationInfo_t all = *list;
  all.processSamplesCount = MOST_PROCESSES;
  all.procUtilArray = rows;
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetProcessesUtilizationInfo(device, &all);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const unsigned int own = jvgpu_whose_keep(self, rows, all.processSamplesCount, sizeof *rows,
                                            offsetof(nvmlProcessUtilizationInfo_v1_t, pid));
  return hand_out(rows, own, sizeof *rows, &list->processSamplesCount, list->procUtilArray);
}
