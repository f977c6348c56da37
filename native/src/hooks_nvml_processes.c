// NVML, processes: a tenant sees its own.

#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>

#include "devices.h"
#include "hooks.h"
#include "hooks_nvml.h"

#define MOST_PROCESSES 512u

typedef nvmlReturn_t (*list_v1_t)(nvmlDevice_t, unsigned int *, nvmlProcessInfo_v1_t *);
typedef nvmlReturn_t (*list_v2_t)(nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *);

static bool is_own(const jvgpu_process_t *self, unsigned int pid)
{
  const uint32_t count = __atomic_load_n(&self->control->slot_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count && i < JVGPU_MAX_SLOTS; i++) {
    if (__atomic_load_n(&self->usage->slots[i].pid, __ATOMIC_RELAXED) == pid) {
      return true;
    }
  }
  return false;
}

// The caller's room against what there is, as NVML's own buffer protocol has it.
// source: NVML API Reference, nvmlDeviceGetComputeRunningProcesses_v3.
static nvmlReturn_t fits(unsigned int *room, unsigned int own, const void *infos)
{
  const nvmlReturn_t result = own > 0 && (*room < own || infos == NULL) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
  *room = own;
  return result;
}

static nvmlReturn_t list_v1(list_v1_t real, nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
  nvmlProcessInfo_v1_t all[MOST_PROCESSES];
  unsigned int         found = MOST_PROCESSES;
  unsigned int         own = 0;
  jvgpu_process_t     *self = jvgpu_tenant();
  if (count == NULL || jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {
    return real(device, count, infos);
  }
  const nvmlReturn_t result = real(device, &found, all);
  if (result != NVML_SUCCESS) {
    return result;
  }
  for (unsigned int i = 0; i < found; i++) {
    if (is_own(self, all[i].pid)) {
      all[own++] = all[i];
    }
  }
  const nvmlReturn_t answer = fits(count, own, infos);
  if (answer == NVML_SUCCESS && own > 0) {
    memcpy(infos, all, own * sizeof *infos);
  }
  return answer;
}

static nvmlReturn_t list_v2(list_v2_t real, nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos)
{
  nvmlProcessInfo_v2_t all[MOST_PROCESSES];
  unsigned int         found = MOST_PROCESSES;
  unsigned int         own = 0;
  jvgpu_process_t     *self = jvgpu_tenant();
  if (count == NULL || jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {
    return real(device, count, infos);
  }
  const nvmlReturn_t result = real(device, &found, all);
  if (result != NVML_SUCCESS) {
    return result;
  }
  for (unsigned int i = 0; i < found; i++) {
    if (is_own(self, all[i].pid)) {
      all[own++] = all[i];
    }
  }
  const nvmlReturn_t answer = fits(count, own, infos);
  if (answer == NVML_SUCCESS && own > 0) {
    memcpy(infos, all, own * sizeof *infos);
  }
  return answer;
}

#define LISTS(version, name)                                                                                  \
  nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_##version##_t *infos)           \
  {                                                                                                           \
    return JVGPU_HAS_NVML(name) ? list_##version(jvgpu_real.name, device, count, infos) : JVGPU_NO_SUCH_NVML; \
  }

LISTS(v1, nvmlDeviceGetComputeRunningProcesses)
LISTS(v2, nvmlDeviceGetComputeRunningProcesses_v2)
LISTS(v2, nvmlDeviceGetComputeRunningProcesses_v3)
LISTS(v1, nvmlDeviceGetGraphicsRunningProcesses)
LISTS(v2, nvmlDeviceGetGraphicsRunningProcesses_v2)
LISTS(v2, nvmlDeviceGetGraphicsRunningProcesses_v3)
LISTS(v1, nvmlDeviceGetMPSComputeRunningProcesses)
LISTS(v2, nvmlDeviceGetMPSComputeRunningProcesses_v2)
LISTS(v2, nvmlDeviceGetMPSComputeRunningProcesses_v3)
