// Modules and libraries: what their code and variables take is known half a second later, so it is not reserved; but
// who has passed the limit gets no module more.

#define _GNU_SOURCE
#include <stddef.h>

#include "charge.h"
#include "devices.h"
#include "hooks.h"

static bool has_passed(void)
{
  jvgpu_process_t *self = jvgpu_tenant();
  const int        device = self == NULL ? JVGPU_NO_DEVICE : jvgpu_current_device(self);
  return device != JVGPU_NO_DEVICE && jvgpu_charge_left(self, device) < 0;
}

#define LOADS(name, parameters, arguments)                                      \
  CUresult name parameters                                                      \
  {                                                                             \
    if (!JVGPU_HAS_CU(name)) {                                                  \
      return JVGPU_NO_SUCH_CU;                                                  \
    }                                                                           \
    return has_passed() ? CUDA_ERROR_OUT_OF_MEMORY : jvgpu_real.name arguments; \
  }

LOADS(cuModuleLoad, (void **module, const char *path), (module, path))
LOADS(cuModuleLoadData, (void **module, const void *image), (module, image))
LOADS(cuModuleLoadDataEx, (void **module, const void *image, unsigned int count, int *options, void **values),
      (module, image, count, options, values))
LOADS(cuModuleLoadFatBinary, (void **module, const void *image), (module, image))
LOADS(cuLibraryLoadData,
      (void **library, const void *image, int *options, void **values, unsigned int count, int *library_options,
       void **library_values, unsigned int library_count),
      (library, image, options, values, count, library_options, library_values, library_count))
LOADS(cuLibraryLoadFromFile,
      (void **library, const char *path, int *options, void **values, unsigned int count, int *library_options,
       void **library_values, unsigned int library_count),
      (library, path, options, values, count, library_options, library_values, library_count))
