// Start and look-up: cuInit asks for the slice; cuGetProcAddress hands out hooks.

#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"
#include "devices.h"
#include "hooks.h"
#include "route.h"
#include "trace.h"

#define VISIBLE "CUDA_VISIBLE_DEVICES"

// The driver reads CUDA_VISIBLE_DEVICES once, in cuInit. What the user wrote counts within the slice
// ("0" is the slice's first device), so the driver is shown the same in UUIDs, and only then. Usually
// the value is in that form already and the environment is not touched.
static CUresult init_within(const jvgpu_control_t *control, unsigned int flags)
{
  char        visible[JVGPU_UUID_TEXT * JVGPU_MAX_DEVICES + 1];
  const char *wanted = getenv(VISIBLE);

  if (!jvgpu_visible_devices(control, wanted, visible, sizeof visible)) {
    return CUDA_ERROR_NO_DEVICE;
  }
  if (wanted != NULL && strcmp(wanted, visible) == 0) {
    return jvgpu_real.cuInit(flags);
  }
  char *kept = wanted == NULL ? NULL : strdup(wanted);
  if (setenv(VISIBLE, visible, 1) != 0) {
    free(kept);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = jvgpu_real.cuInit(flags);
  if (kept == NULL) {
    unsetenv(VISIBLE);
  } else {
    setenv(VISIBLE, kept, 1);
    free(kept);
  }
  return result;
}

CUresult cuInit(unsigned int flags)
{
  if (!JVGPU_HAS_CU(cuInit)) {
    return CUDA_ERROR_NO_DEVICE;
  }
  const jvgpu_process_t *self = jvgpu_attach();
  if (self == NULL) {
    return CUDA_ERROR_NO_DEVICE;
  }
  return init_within(self->control, flags);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
  if (!JVGPU_HAS_CU(cuGetProcAddress)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_trace("proc", symbol);
  const CUresult result = jvgpu_real.cuGetProcAddress(symbol, pfn, version, flags);
  if (result == CUDA_SUCCESS && pfn != NULL) {
    *pfn = jvgpu_route_pointer(*pfn);
  }
  return result;
}

static CUresult look_up(CUresult (*real)(const char *, void **, int, cuuint64_t, int *), const char *symbol, void **pfn,
                        int version, cuuint64_t flags, int *status)
{
  jvgpu_trace("proc", symbol);
  const CUresult result = real(symbol, pfn, version, flags, status);
  if (result == CUDA_SUCCESS && pfn != NULL) {
    *pfn = jvgpu_route_pointer(*pfn);
  }
  return result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags, int *status)
{
  return JVGPU_HAS_CU(cuGetProcAddress_v2)
             ? look_up(jvgpu_real.cuGetProcAddress_v2, symbol, pfn, version, flags, status)
             : JVGPU_NO_SUCH_CU;
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int version, cuuint64_t flags, int *status)
{
  return JVGPU_HAS_CU(cuGetProcAddress_v2_ptsz)
             ? look_up(jvgpu_real.cuGetProcAddress_v2_ptsz, symbol, pfn, version, flags, status)
             : JVGPU_NO_SUCH_CU;
}
