// Hooks: what stands in for the driver's functions. A hook is: step aside? decide, call the real one,
// record. It returns only what the driver itself could return.

#ifndef JVGPU_HOOKS_H
#define JVGPU_HOOKS_H

#include "loader.h"
#include "real.h"

// What the driver answers for a function that it does not have.
#define JVGPU_NO_SUCH_CU 500    // CUDA_ERROR_NOT_FOUND
#define JVGPU_NO_SUCH_NVML 13   // NVML_ERROR_FUNCTION_NOT_FOUND

// returns: whether the real function is there to be called. One load on the hot path; a program that
// was linked against the driver may come here before anything was looked up.
#define JVGPU_HAS_CU(name) (jvgpu_real.name != NULL || (jvgpu_loaded(JVGPU_CUDA) && jvgpu_real.name != NULL))
#define JVGPU_HAS_NVML(name) (jvgpu_real.name != NULL || (jvgpu_loaded(JVGPU_NVML) && jvgpu_real.name != NULL))

#endif
