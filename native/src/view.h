// View: the one consistent picture of a slice. Never total > physical, never free > total.

#ifndef JVGPU_VIEW_H
#define JVGPU_VIEW_H

#include <stdint.h>

#include "process.h"

typedef struct jvgpu_view_s {
  uint64_t total_bytes;
  uint64_t used_bytes;  // the tenant's, overhead included; at most total
  uint64_t free_bytes;  // at most what the physical device has free
} jvgpu_view_t;

// pre: device is an index of the claim. physical_*: what the driver says of the whole device.
jvgpu_view_t jvgpu_view(jvgpu_process_t *self, uint32_t device, uint64_t physical_total_bytes,
                        uint64_t physical_free_bytes);

#endif
