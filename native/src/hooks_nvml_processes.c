// NVML, processes: a tenant sees its own.

#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>

#include "devices.h"
#include "hooks.h"
#include "hooks_nvml.h"

#define MOST_PROCESSES 512u

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

// Keep the rows of the tenant's own processes, in place. Rows of every version begin with the PID.
// returns: how many there are.
static unsigned int keep_own(const jvgpu_process_t *self, void *rows, unsigned int count, size_t row_bytes)
{
  unsigned int own = 0;
  for (unsigned int i = 0; i < count; i++) {
    const char  *row = (const char *)rows + i * row_bytes;
    unsigned int pid;
    memcpy(&pid, row, sizeof pid);
    if (is_own(self, pid)) {
      memmove((char *)rows + own * row_bytes, row, row_bytes);
      own += 1;
    }
  }
  return own;
}

// A list: the whole of it into a buffer of ours, the tenant's own rows out into the caller's.
#define LISTS(name, row_t)                                                                                            \
  nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, row_t *infos)                                           \
  {                                                                                                                   \
    row_t        all[MOST_PROCESSES];                                                                                 \
    unsigned int found = MOST_PROCESSES;                                                                              \
    if (!JVGPU_HAS_NVML(name)) {                                                                                      \
      return JVGPU_NO_SUCH_NVML;                                                                                      \
    }                                                                                                                 \
    const jvgpu_process_t *self = jvgpu_tenant();                                                                     \
    if (count == NULL || jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {                                        \
      return jvgpu_real.name(device, count, infos);                                                                   \
    }                                                                                                                 \
    const nvmlReturn_t result = jvgpu_real.name(device, &found, all);                                                 \
    return result == NVML_SUCCESS ? hand_out(all, keep_own(self, all, found, sizeof *all), sizeof *all, count, infos) \
                                  : result;                                                                           \
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
