// What CUDA says of memory: the slice's figures.

#define _GNU_SOURCE
#include <limits.h>
#include <stddef.h>

#include "devices.h"
#include "hooks.h"
#include "view.h"

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
  if (!JVGPU_HAS_CU(cuMemGetInfo_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuMemGetInfo_v2(free_bytes, total_bytes);
  const int        device = self == NULL || result != CUDA_SUCCESS ? JVGPU_NO_DEVICE : jvgpu_current_device(self);
  if (device == JVGPU_NO_DEVICE) {
    return result;
  }
  // A caller may leave out either; the call costs microseconds, so it is made again only then.
  size_t physical_free = free_bytes == NULL ? 0 : *free_bytes;
  size_t physical_total = total_bytes == NULL ? 0 : *total_bytes;
  if ((free_bytes == NULL || total_bytes == NULL) &&
      jvgpu_real.cuMemGetInfo_v2(&physical_free, &physical_total) != CUDA_SUCCESS) {
    return result;
  }
  const jvgpu_view_t view = jvgpu_view(self, (uint32_t)device, physical_total, physical_free);
  if (free_bytes != NULL) {
    *free_bytes = view.free_bytes;
  }
  if (total_bytes != NULL) {
    *total_bytes = view.total_bytes;
  }
  return result;
}

static unsigned int as_32_bits(uint64_t bytes)
{
  return bytes > UINT_MAX ? UINT_MAX : (unsigned int)bytes;
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
  if (!JVGPU_HAS_CU(cuMemGetInfo)) {
    return JVGPU_NO_SUCH_CU;
  }
  size_t         free_64 = 0;
  size_t         total_64 = 0;
  const CUresult result = jvgpu_real.cuMemGetInfo(free_bytes, total_bytes);
  if (result != CUDA_SUCCESS || jvgpu_tenant() == NULL || cuMemGetInfo_v2(&free_64, &total_64) != CUDA_SUCCESS) {
    return result;
  }
  if (free_bytes != NULL) {
    *free_bytes = as_32_bits(free_64);
  }
  if (total_bytes != NULL) {
    *total_bytes = as_32_bits(total_64);
  }
  return result;
}

// returns: the claim's limit if it is below `physical_bytes`, otherwise that.
static uint64_t at_most_the_limit(CUdevice dev, uint64_t physical_bytes)
{
  jvgpu_process_t *self = jvgpu_tenant();
  const int        device = self == NULL ? JVGPU_NO_DEVICE : jvgpu_device_of(self, dev);
  if (device == JVGPU_NO_DEVICE) {
    return physical_bytes;
  }
  const uint64_t limit = __atomic_load_n(&self->control->devices[device].memory_limit_bytes, __ATOMIC_RELAXED);
  return limit < physical_bytes ? limit : physical_bytes;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
  if (!JVGPU_HAS_CU(cuDeviceTotalMem_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const CUresult result = jvgpu_real.cuDeviceTotalMem_v2(bytes, dev);
  if (result == CUDA_SUCCESS) {
    *bytes = at_most_the_limit(dev, *bytes);
  }
  return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
  if (!JVGPU_HAS_CU(cuDeviceTotalMem)) {
    return JVGPU_NO_SUCH_CU;
  }
  const CUresult result = jvgpu_real.cuDeviceTotalMem(bytes, dev);
  if (result == CUDA_SUCCESS) {
    *bytes = as_32_bits(at_most_the_limit(dev, *bytes));
  }
  return result;
}
