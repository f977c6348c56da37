// Limits of a context that are memory of the device (hooks_limits.c).

#ifndef JVGPU_OWN_LIMITS_H
#define JVGPU_OWN_LIMITS_H

#include "process.h"

// What a context had by itself, by limit; key 0 = not noted.
typedef struct jvgpu_own_limits_s {
  jvgpu_record_t had[CU_LIMIT_MALLOC_HEAP_SIZE + 1];
} jvgpu_own_limits_t;

// Forget what a context had by itself, before the driver destroys it; remember it again, where it did not.
void jvgpu_limits_forget(jvgpu_process_t *self, CUcontext ctx, jvgpu_own_limits_t *own);
void jvgpu_limits_remember(jvgpu_process_t *self, const jvgpu_own_limits_t *own);

#endif
