// Virtual memory management: physical memory is charged when it is created and given back when
// neither a handle nor a mapping refers to it any more.

#define _GNU_SOURCE
#include <stddef.h>

#include "account.h"
#include "charge.h"
#include "devices.h"
#include "hooks.h"

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
  if (!JVGPU_HAS_CU(cuMemCreate)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  // Memory of the host is not the slice's, and bad arguments are the driver's to refuse.
  if (self == NULL || handle == NULL || prop == NULL || bytes == 0) {
    return jvgpu_real.cuMemCreate(handle, bytes, prop, flags);
  }
  const int device = jvgpu_device_at(self, prop->type, &prop->location);
  if (device == JVGPU_ON_HOST) {
    return jvgpu_real.cuMemCreate(handle, bytes, prop, flags);
  }
  const jvgpu_charge_t charge = jvgpu_charge_begin_on(self, device, bytes);
  if (charge.refused) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = jvgpu_real.cuMemCreate(handle, bytes, prop, flags);
  if (result != CUDA_SUCCESS) {
    jvgpu_account_cancel(charge.slot, (uint32_t)charge.device, charge.bytes);
    return result;
  }
  jvgpu_account_commit(charge.slot, (uint32_t)charge.device, charge.bytes, bytes);
  jvgpu_account_count(charge.slot, (uint32_t)charge.device, 1);
  // Without host memory for the record the charge stays until the process ends: less, never more.
  (void)jvgpu_vmm_create(&self->vmm, *handle, bytes, (uint32_t)charge.device);
  return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
  if (!JVGPU_HAS_CU(cuMemRelease)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_freed_t    freed = {0};
  if (self == NULL) {
    return jvgpu_real.cuMemRelease(handle);
  }
  // Forgotten before the driver can hand the same handle to another thread; a handle that the driver
  // then refuses to release was not in the ledger either.
  jvgpu_vmm_release(&self->vmm, handle, &freed);
  const CUresult result = jvgpu_real.cuMemRelease(handle);
  jvgpu_charge_give_back(self, &freed);
  return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
  if (!JVGPU_HAS_CU(cuMemRetainAllocationHandle)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuMemRetainAllocationHandle(handle, addr);
  if (result == CUDA_SUCCESS && self != NULL) {
    jvgpu_vmm_retain(&self->vmm, *handle, (uint64_t)(uintptr_t)addr);
  }
  return result;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
  if (!JVGPU_HAS_CU(cuMemMap)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuMemMap(ptr, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS && self != NULL) {
    jvgpu_vmm_map(&self->vmm, ptr, bytes, handle);
  }
  return result;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
  if (!JVGPU_HAS_CU(cuMemUnmap)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_freed_t    freed = {0};
  const CUresult   result = jvgpu_real.cuMemUnmap(ptr, bytes);
  if (result == CUDA_SUCCESS && self != NULL) {
    jvgpu_vmm_unmap(&self->vmm, ptr, bytes, &freed);
    jvgpu_charge_give_back(self, &freed);
  }
  return result;
}
