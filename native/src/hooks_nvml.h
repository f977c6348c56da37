// What the NVML hooks share.

#ifndef JVGPU_HOOKS_NVML_H
#define JVGPU_HOOKS_NVML_H

#include "process.h"

// returns: index in the claim of an NVML handle's device, or JVGPU_NO_DEVICE.
int jvgpu_nvml_device(const jvgpu_process_t *self, nvmlDevice_t device);

#endif
