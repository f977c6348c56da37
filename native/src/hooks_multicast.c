// Multicast objects: they take no memory themselves; what is bound to one stays charged while it is bound.

#define _GNU_SOURCE
#include <stddef.h>

#include "charge.h"
#include "devices.h"
#include "hooks.h"

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const void *prop)
{
  if (!JVGPU_HAS_CU(cuMulticastCreate)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuMulticastCreate(handle, prop);
  if (result == CUDA_SUCCESS && self != NULL) {
    (void)jvgpu_vmm_create(&self->vmm, *handle, 0, 0);
  }
  return result;
}

static CUresult bound(CUmemGenericAllocationHandle group, size_t offset, CUmemGenericAllocationHandle handle,
                      CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_freed_t    freed = {0};
  if (result == CUDA_SUCCESS && self != NULL) {
    jvgpu_vmm_bind(&self->vmm, group, offset, handle, &freed);
    jvgpu_charge_give_back(self, &freed);
  }
  return result;
}

static CUresult bound_at(CUmemGenericAllocationHandle group, size_t offset, CUdeviceptr ptr, CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_freed_t    freed = {0};
  if (result == CUDA_SUCCESS && self != NULL) {
    jvgpu_vmm_bind_at(&self->vmm, group, offset, ptr, &freed);
    jvgpu_charge_give_back(self, &freed);
  }
  return result;
}

#define BINDS(name, how, what, parameters, arguments)                                                   \
  CUresult name parameters                                                                              \
  {                                                                                                     \
    return JVGPU_HAS_CU(name) ? how(group, offset, what, jvgpu_real.name arguments) : JVGPU_NO_SUCH_CU; \
  }

BINDS(cuMulticastBindMem, bound, handle,
      (CUmemGenericAllocationHandle group, size_t offset, CUmemGenericAllocationHandle handle, size_t mem_offset,
       size_t bytes, unsigned long long flags),
      (group, offset, handle, mem_offset, bytes, flags))
BINDS(cuMulticastBindMem_v2, bound, handle,
      (CUmemGenericAllocationHandle group, CUdevice dev, size_t offset, CUmemGenericAllocationHandle handle,
       size_t mem_offset, size_t bytes, unsigned long long flags),
      (group, dev, offset, handle, mem_offset, bytes, flags))
BINDS(cuMulticastBindAddr, bound_at, ptr,
      (CUmemGenericAllocationHandle group, size_t offset, CUdeviceptr ptr, size_t bytes, unsigned long long flags),
      (group, offset, ptr, bytes, flags))
BINDS(cuMulticastBindAddr_v2, bound_at, ptr,
      (CUmemGenericAllocationHandle group, CUdevice dev, size_t offset, CUdeviceptr ptr, size_t bytes,
       unsigned long long flags),
      (group, dev, offset, ptr, bytes, flags))

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle group, CUdevice dev, size_t offset, size_t bytes)
{
  if (!JVGPU_HAS_CU(cuMulticastUnbind)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_freed_t    freed = {0};
  const CUresult   result = jvgpu_real.cuMulticastUnbind(group, dev, offset, bytes);
  const int        device = self == NULL ? JVGPU_NO_DEVICE : jvgpu_device_of(self, dev);
  if (result == CUDA_SUCCESS && device != JVGPU_NO_DEVICE) {
    jvgpu_vmm_unbind(&self->vmm, group, offset, (uint32_t)device, &freed);
    jvgpu_charge_give_back(self, &freed);
  }
  return result;
}
