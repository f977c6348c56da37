// Limits of a context that are memory of the device (hooks_limits.c).

#ifndef JVGPU_OWN_LIMITS_H
#define JVGPU_OWN_LIMITS_H

#include "process.h"

// Forget what a context had by itself. To be called when the context is gone.
void jvgpu_limits_forget(jvgpu_process_t *self, CUcontext ctx);

#endif
