// NVML, the device as a whole: how busy it is reads as the tenant's own part; lists of devices name the
// claim's; nothing is changed.

#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "devices.h"
#include "hooks.h"
#include "hooks_nvml.h"

// --- how busy -------------------------------------------------------------------------------------------------

// NVML's own shortest period. source: NVML API Reference, nvmlUtilization_t: between 1/6 s and 1 s.
#define PERIOD_NS UINT64_C(166000000)

static uint64_t busy_of_all(const jvgpu_process_t *self, uint32_t device)
{
  const uint32_t count = __atomic_load_n(&self->control->slot_count, __ATOMIC_ACQUIRE);
  uint64_t       busy_ns = 0;
  for (uint32_t i = 0; i < count && i < JVGPU_MAX_SLOTS; i++) {
    busy_ns += __atomic_load_n(&self->usage->slots[i].devices[device].busy_ns, __ATOMIC_RELAXED);
  }
  return busy_ns;
}

// Bring the figure up to date if a period has gone by since the last look.
// returns: whether there is a figure.
static bool look(jvgpu_process_t *self, uint32_t device, unsigned int *percent)
{
  jvgpu_own_busy_t *own = &self->own_busy[device];
  jvgpu_lock(&self->own_busy_lock);
  const uint64_t now_ns = jvgpu_now_ns();
  const uint64_t busy_ns = busy_of_all(self, device);
  const bool     is_first = own->at_ns == 0;
  if (is_first || now_ns - own->at_ns >= PERIOD_NS) {
    // The total falls when a process ends.
    const uint64_t more_ns = busy_ns > own->busy_ns ? busy_ns - own->busy_ns : 0;
    const uint64_t part = is_first ? 0 : more_ns * 100 / (now_ns - own->at_ns);
    own->is_known = !is_first;
    own->percent = part > 100 ? 100 : (uint32_t)part;
    own->at_ns = now_ns;
    own->busy_ns = busy_ns;
  }
  *percent = own->percent;
  const bool is_known = own->is_known;
  jvgpu_unlock(&self->own_busy_lock);
  return is_known;
}

// A program that asks once, as nvidia-smi does, waits one period for its answer.
static unsigned int own_percent(jvgpu_process_t *self, uint32_t device)
{
  const struct timespec period = {.tv_nsec = (long)PERIOD_NS};
  unsigned int          percent = 0;
  if (!look(self, device, &percent)) {
    nanosleep(&period, NULL);
    (void)look(self, device, &percent);
  }
  return percent;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
  if (!JVGPU_HAS_NVML(nvmlDeviceGetUtilizationRates)) {
    return JVGPU_NO_SUCH_NVML;
  }
  jvgpu_process_t   *self = jvgpu_tenant();
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetUtilizationRates(device, rates);
  const int          index = result == NVML_SUCCESS ? jvgpu_nvml_device(self, device) : JVGPU_NO_DEVICE;
  if (index != JVGPU_NO_DEVICE) {
    const unsigned int own = own_percent(self, (uint32_t)index);
    // Whose memory traffic it was nobody says: as much of it as of the time.
    const unsigned int memory = rates->gpu == 0 ? 0 : rates->memory * own / rates->gpu;
    *rates = (nvmlUtilization_t){.gpu = own, .memory = memory > 100 ? 100 : memory};
  }
  return result;
}

// The history of the whole device's load is nobody's own.
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long since, int *kind,
                                  unsigned int *count, void *samples)
{
  if (!JVGPU_HAS_NVML(nvmlDeviceGetSamples)) {
    return JVGPU_NO_SUCH_NVML;
  }
  if (type == NVML_GPU_UTILIZATION_SAMPLES || type == NVML_MEMORY_UTILIZATION_SAMPLES) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  return jvgpu_real.nvmlDeviceGetSamples(device, type, since, kind, count, samples);
}

// --- devices near others ----------------------------------------------------------------------------------------

#define MOST_DEVICES 64u

// `all` has `found` handles of the machine's; the claim's go out.
static nvmlReturn_t hand_out_own(const nvmlDevice_t *all, unsigned int found, unsigned int *count,
                                 nvmlDevice_t *devices)
{
  const jvgpu_process_t *self = jvgpu_tenant();
  unsigned int           own = 0;
  for (unsigned int i = 0; i < found && i < MOST_DEVICES; i++) {
    if (jvgpu_nvml_device(self, all[i]) == JVGPU_NO_DEVICE) {
      continue;
    }
    if (devices != NULL && own < *count) {
      devices[own] = all[i];
    }
    own += 1;
  }
  const bool fits = devices == NULL || own <= *count;
  *count = own;
  return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, int level, unsigned int *count,
                                              nvmlDevice_t *devices)
{
  nvmlDevice_t all[MOST_DEVICES];
  unsigned int found = MOST_DEVICES;
  if (!JVGPU_HAS_NVML(nvmlDeviceGetTopologyNearestGpus)) {
    return JVGPU_NO_SUCH_NVML;
  }
  if (count == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetTopologyNearestGpus(device, level, &found, all);
  return result == NVML_SUCCESS ? hand_out_own(all, found, count, devices) : result;
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int *count, nvmlDevice_t *devices)
{
  nvmlDevice_t all[MOST_DEVICES];
  unsigned int found = MOST_DEVICES;
  if (!JVGPU_HAS_NVML(nvmlSystemGetTopologyGpuSet)) {
    return JVGPU_NO_SUCH_NVML;
  }
  if (count == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const nvmlReturn_t result = jvgpu_real.nvmlSystemGetTopologyGpuSet(cpu, &found, all);
  return result == NVML_SUCCESS ? hand_out_own(all, found, count, devices) : result;
}

nvmlReturn_t nvmlUnitGetDevices(void *unit, unsigned int *count, nvmlDevice_t *devices)
{
  nvmlDevice_t all[MOST_DEVICES];
  unsigned int found = MOST_DEVICES;
  if (!JVGPU_HAS_NVML(nvmlUnitGetDevices)) {
    return JVGPU_NO_SUCH_NVML;
  }
  if (count == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const nvmlReturn_t result = jvgpu_real.nvmlUnitGetDevices(unit, &found, all);
  return result == NVML_SUCCESS ? hand_out_own(all, found, count, devices) : result;
}

// --- settings -----------------------------------------------------------------------------------------------------

#define SETS(name)                                                               \
  nvmlReturn_t name(void)                                                        \
  {                                                                              \
    return JVGPU_HAS_NVML(name) ? NVML_ERROR_NO_PERMISSION : JVGPU_NO_SUCH_NVML; \
  }
#include "nvml_settings.def"
#undef SETS
