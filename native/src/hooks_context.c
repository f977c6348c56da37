// Contexts: a context that goes takes its plain allocations with it.

#define _GNU_SOURCE
#include <stddef.h>

#include "charge.h"
#include "devices.h"
#include "hooks.h"
#include "pools.h"

static void forget_context(jvgpu_process_t *self, CUcontext ctx)
{
  uint64_t freed[JVGPU_MAX_DEVICES] = {0};
  if (ctx != NULL) {
    jvgpu_ledger_take_owner(&self->pointers, (uint64_t)(uintptr_t)ctx, freed);
    jvgpu_charge_give_back(self, freed);
  }
  jvgpu_pools_look(self);
}

static CUresult destroy(CUresult (*real)(CUcontext), CUcontext ctx)
{
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = real(ctx);
  if (result == CUDA_SUCCESS && self != NULL) {
    forget_context(self, ctx);
  }
  return result;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
  return JVGPU_HAS_CU(cuCtxDestroy_v2) ? destroy(jvgpu_real.cuCtxDestroy_v2, ctx) : JVGPU_NO_SUCH_CU;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
  return JVGPU_HAS_CU(cuCtxDestroy) ? destroy(jvgpu_real.cuCtxDestroy, ctx) : JVGPU_NO_SUCH_CU;
}

// --- primary contexts ------------------------------------------------------------------------------------

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
  if (!JVGPU_HAS_CU(cuDevicePrimaryCtxRetain)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuDevicePrimaryCtxRetain(ctx, dev);
  if (result == CUDA_SUCCESS && self != NULL && dev >= 0 && dev < JVGPU_MOST_ORDINALS) {
    __atomic_store_n(&self->primary[dev], *ctx, __ATOMIC_RELAXED);
  }
  return result;
}

// Released or reset; gone only if nobody else in the process holds it.
static CUresult leave(CUresult (*real)(CUdevice), CUdevice dev)
{
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = real(dev);
  unsigned int     flags = 0;
  int              active = 1;
  if (result != CUDA_SUCCESS || self == NULL || dev < 0 || dev >= JVGPU_MOST_ORDINALS ||
      jvgpu_real.cuDevicePrimaryCtxGetState == NULL) {
    return result;
  }
  if (jvgpu_real.cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && active == 0) {
    forget_context(self, __atomic_load_n(&self->primary[dev], __ATOMIC_RELAXED));
  }
  return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
  return JVGPU_HAS_CU(cuDevicePrimaryCtxRelease_v2) ? leave(jvgpu_real.cuDevicePrimaryCtxRelease_v2, dev)
                                                    : JVGPU_NO_SUCH_CU;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
  return JVGPU_HAS_CU(cuDevicePrimaryCtxRelease) ? leave(jvgpu_real.cuDevicePrimaryCtxRelease, dev) : JVGPU_NO_SUCH_CU;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
  return JVGPU_HAS_CU(cuDevicePrimaryCtxReset_v2) ? leave(jvgpu_real.cuDevicePrimaryCtxReset_v2, dev)
                                                  : JVGPU_NO_SUCH_CU;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
  return JVGPU_HAS_CU(cuDevicePrimaryCtxReset) ? leave(jvgpu_real.cuDevicePrimaryCtxReset, dev) : JVGPU_NO_SUCH_CU;
}
