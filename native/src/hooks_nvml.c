// NVML, devices: a program sees the claim's devices, numbered from 0, with the slice's memory.

#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>

#include "attach.h"
#include "devices.h"
#include "hooks.h"
#include "hooks_nvml.h"
#include "view.h"

// --- start: with no slice NVML works and shows no device ------------------------------------------------

static nvmlReturn_t start(nvmlReturn_t result)
{
  if (result == NVML_SUCCESS) {
    (void)jvgpu_attach();
  }
  return result;
}

nvmlReturn_t nvmlInit(void)
{
  return JVGPU_HAS_NVML(nvmlInit) ? start(jvgpu_real.nvmlInit()) : JVGPU_NO_SUCH_NVML;
}

nvmlReturn_t nvmlInit_v2(void)
{
  return JVGPU_HAS_NVML(nvmlInit_v2) ? start(jvgpu_real.nvmlInit_v2()) : JVGPU_NO_SUCH_NVML;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
  return JVGPU_HAS_NVML(nvmlInitWithFlags) ? start(jvgpu_real.nvmlInitWithFlags(flags)) : JVGPU_NO_SUCH_NVML;
}

// --- which devices -------------------------------------------------------------------------------------------

int jvgpu_nvml_device(const jvgpu_process_t *self, nvmlDevice_t device)
{
  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
  if (self == NULL || jvgpu_real.nvmlDeviceGetUUID == NULL ||
      jvgpu_real.nvmlDeviceGetUUID(device, uuid, sizeof uuid) != NVML_SUCCESS) {
    return JVGPU_NO_DEVICE;
  }
  return jvgpu_device_with_uuid(self->control, uuid);
}

// Walk the machine's devices in NVML's order; those of the claim are the ones that count.
// returns: how many of the claim's devices there are; *found is the one numbered `wanted`, and
// *position the number of the one whose handle is `known`.
static unsigned int walk(const jvgpu_process_t *self, unsigned int wanted, nvmlDevice_t *found, nvmlDevice_t known,
                         unsigned int *position)
{
  unsigned int machine_count = 0;
  unsigned int count = 0;
  if (self == NULL || jvgpu_real.nvmlDeviceGetCount_v2(&machine_count) != NVML_SUCCESS) {
    return 0;
  }
  for (unsigned int i = 0; i < machine_count; i++) {
    nvmlDevice_t device;
    if (jvgpu_real.nvmlDeviceGetHandleByIndex_v2(i, &device) != NVML_SUCCESS ||
        jvgpu_nvml_device(self, device) == JVGPU_NO_DEVICE) {
      continue;
    }
    if (found != NULL && count == wanted) {
      *found = device;
    }
    if (position != NULL && device == known) {
      *position = count;
    }
    count += 1;
  }
  return count;
}

static bool can_walk(void)
{
  return JVGPU_HAS_NVML(nvmlDeviceGetCount_v2) && JVGPU_HAS_NVML(nvmlDeviceGetHandleByIndex_v2);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
  if (!can_walk()) {
    return JVGPU_NO_SUCH_NVML;
  }
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetCount_v2(count);
  if (result == NVML_SUCCESS) {
    *count = walk(jvgpu_tenant(), 0, NULL, NULL, NULL);
  }
  return result;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
  return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
  if (!can_walk()) {
    return JVGPU_NO_SUCH_NVML;
  }
  unsigned int       machine_count = 0;
  nvmlDevice_t       found = NULL;
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetCount_v2(&machine_count);
  if (result != NVML_SUCCESS || device == NULL) {
    return jvgpu_real.nvmlDeviceGetHandleByIndex_v2(index, device);
  }
  if (index >= walk(jvgpu_tenant(), index, &found, NULL, NULL) || found == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *device = found;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
  if (!JVGPU_HAS_NVML(nvmlDeviceGetIndex) || !can_walk()) {
    return JVGPU_NO_SUCH_NVML;
  }
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetIndex(device, index);
  if (result == NVML_SUCCESS) {
    (void)walk(jvgpu_tenant(), 0, NULL, device, index);
  }
  return result;
}

// A handle found by name is a handle only if the device is in the claim.
static nvmlReturn_t only_ours(nvmlReturn_t result, nvmlDevice_t *device)
{
  if (result == NVML_SUCCESS && jvgpu_nvml_device(jvgpu_tenant(), *device) == JVGPU_NO_DEVICE) {
    return NVML_ERROR_NOT_FOUND;
  }
  return result;
}

#define FINDS(name, key_t)                                                                              \
  nvmlReturn_t name(const key_t *key, nvmlDevice_t *device)                                             \
  {                                                                                                     \
    return JVGPU_HAS_NVML(name) ? only_ours(jvgpu_real.name(key, device), device) : JVGPU_NO_SUCH_NVML; \
  }

FINDS(nvmlDeviceGetHandleByUUID, char)
FINDS(nvmlDeviceGetHandleByUUIDV, void)
FINDS(nvmlDeviceGetHandleBySerial, char)
FINDS(nvmlDeviceGetHandleByPciBusId, char)
FINDS(nvmlDeviceGetHandleByPciBusId_v2, char)

// --- memory ---------------------------------------------------------------------------------------------------

// The older structure: the whole device's figures, with which NVML has filled it, become the slice's.
static nvmlReturn_t as_slice(nvmlReturn_t result, nvmlDevice_t device, nvmlMemory_t *memory)
{
  jvgpu_process_t *self = jvgpu_tenant();
  const int        index = result == NVML_SUCCESS ? jvgpu_nvml_device(self, device) : JVGPU_NO_DEVICE;
  if (index != JVGPU_NO_DEVICE) {
    const jvgpu_view_t view = jvgpu_view(self, (uint32_t)index, memory->total, memory->free);
    *memory =
        (nvmlMemory_t){.total = view.total_bytes, .free = view.free_bytes, .used = view.total_bytes - view.free_bytes};
  }
  return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
  return JVGPU_HAS_NVML(nvmlDeviceGetMemoryInfo)
             ? as_slice(jvgpu_real.nvmlDeviceGetMemoryInfo(device, memory), device, memory)
             : JVGPU_NO_SUCH_NVML;
}

nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory)
{
  return JVGPU_HAS_NVML(nvmlDeviceGetConfComputeProtectedMemoryUsage)
             ? as_slice(jvgpu_real.nvmlDeviceGetConfComputeProtectedMemoryUsage(device, memory), device, memory)
             : JVGPU_NO_SUCH_NVML;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
  if (!JVGPU_HAS_NVML(nvmlDeviceGetMemoryInfo_v2)) {
    return JVGPU_NO_SUCH_NVML;
  }
  jvgpu_process_t   *self = jvgpu_tenant();
  const nvmlReturn_t result = jvgpu_real.nvmlDeviceGetMemoryInfo_v2(device, memory);
  const int          index = result == NVML_SUCCESS ? jvgpu_nvml_device(self, device) : JVGPU_NO_DEVICE;
  if (index != JVGPU_NO_DEVICE) {
    const jvgpu_view_t view = jvgpu_view(self, (uint32_t)index, memory->total, memory->free);
    memory->total = view.total_bytes;
    memory->free = view.free_bytes;
    memory->used = view.total_bytes - view.free_bytes;
    // The driver's own part of the card is nobody's slice.
    memory->reserved = 0;
  }
  return result;
}
