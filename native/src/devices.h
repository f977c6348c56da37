// Devices: which of the claim's devices a CUDA ordinal, a context or an NVML handle means.

#ifndef JVGPU_DEVICES_H
#define JVGPU_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process.h"

#define JVGPU_NO_DEVICE (-1)
// "GPU-" and 36 characters and NUL.
#define JVGPU_UUID_TEXT 41

// Write the UUID as NVML and CUDA_VISIBLE_DEVICES spell it.
void jvgpu_uuid_format(const uint8_t uuid[JVGPU_UUID_BYTES], char text[JVGPU_UUID_TEXT]);

// Work out CUDA_VISIBLE_DEVICES for the driver: what `wanted` (the user's value, NULL = unset) asks
// for, counted within the claim. As in the driver, an entry that means nothing ends the list.
// returns: false when `text` is too small.
bool jvgpu_visible_devices(const jvgpu_control_t *control, const char *wanted, char *text, size_t bytes);

// returns: index in the claim of a CUDA device, or JVGPU_NO_DEVICE.
int jvgpu_device_of(jvgpu_process_t *self, CUdevice dev);
// As the next, where the driver has to be asked.
int jvgpu_ask_current_device(jvgpu_process_t *self);
// returns: index in the claim of the current context's device, or JVGPU_NO_DEVICE.
static inline int jvgpu_current_device(jvgpu_process_t *self)
{
  // One device visible, and in the claim: no need to ask which.
  return __atomic_load_n(&self->devices_known, __ATOMIC_ACQUIRE) != 0 && self->ordinals == 1 && self->device_of[0] != 0
             ? self->device_of[0] - 1
             : jvgpu_ask_current_device(self);
}
// returns: index in the claim of the device whose memory is at `location`, JVGPU_ON_HOST, or JVGPU_NO_DEVICE. `kind` is
// CU_MEM_ALLOCATION_TYPE_*: managed memory is on the device when it is used there, wherever else it may be; so is, for us,
// what is at a place that we do not know: of the current context's.
int jvgpu_device_at(jvgpu_process_t *self, int kind, const CUmemLocation *location);
// returns: index in the claim of the device with this UUID in NVML's spelling, or JVGPU_NO_DEVICE.
int jvgpu_device_with_uuid(const jvgpu_control_t *control, const char *text);

#endif
