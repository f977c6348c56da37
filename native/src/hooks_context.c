// Contexts: what one takes itself is known half a second later, so it is not reserved; but who has nothing left gets
// no context more. One that goes takes its plain allocations with it.

#define _GNU_SOURCE
#include <stddef.h>

#include "charge.h"
#include "devices.h"
#include "hooks.h"
#include "own_limits.h"
#include "pool_table.h"
#include "pools.h"

// --- made -------------------------------------------------------------------------------------------------

static bool has_none_left(CUdevice dev)
{
  jvgpu_process_t *self = jvgpu_tenant();
  const int        device = self == NULL ? JVGPU_NO_DEVICE : jvgpu_device_of(self, dev);
  return device != JVGPU_NO_DEVICE && jvgpu_charge_left(self, device) <= 0;
}

#define CREATES(name, parameters, arguments)                                          \
  CUresult name parameters                                                            \
  {                                                                                   \
    if (!JVGPU_HAS_CU(name)) {                                                        \
      return JVGPU_NO_SUCH_CU;                                                        \
    }                                                                                 \
    return has_none_left(dev) ? CUDA_ERROR_OUT_OF_MEMORY : jvgpu_real.name arguments; \
  }

CREATES(cuCtxCreate, (CUcontext * ctx, unsigned int flags, CUdevice dev), (ctx, flags, dev))
CREATES(cuCtxCreate_v2, (CUcontext * ctx, unsigned int flags, CUdevice dev), (ctx, flags, dev))
CREATES(cuCtxCreate_v3, (CUcontext * ctx, void *affinities, int count, unsigned int flags, CUdevice dev),
        (ctx, affinities, count, flags, dev))
CREATES(cuCtxCreate_v4, (CUcontext * ctx, void *params, unsigned int flags, CUdevice dev), (ctx, params, flags, dev))
CREATES(cuGLCtxCreate, (CUcontext * ctx, unsigned int flags, CUdevice dev), (ctx, flags, dev))
CREATES(cuGLCtxCreate_v2, (CUcontext * ctx, unsigned int flags, CUdevice dev), (ctx, flags, dev))
CREATES(cuVDPAUCtxCreate, (CUcontext * ctx, unsigned int flags, CUdevice dev, uint32_t vdp, void *address),
        (ctx, flags, dev, vdp, address))
CREATES(cuVDPAUCtxCreate_v2, (CUcontext * ctx, unsigned int flags, CUdevice dev, uint32_t vdp, void *address),
        (ctx, flags, dev, vdp, address))

// --- gone -------------------------------------------------------------------------------------------------

//
// Another thread may be given the same handle for a context of its own as soon as the driver has destroyed this one. So
// what is the context's is set apart before, under a name that nobody else has.

typedef struct departure_s {
  CUcontext          ctx;  // NULL = there is nothing to set apart
  uint64_t           name;
  jvgpu_own_limits_t own;
} departure_t;

static departure_t depart(jvgpu_process_t *self, CUcontext ctx)
{
  departure_t departure = {.ctx = self == NULL ? NULL : ctx};
  if (departure.ctx != NULL) {
    // Odd: no handle is.
    departure.name = 2 * __atomic_fetch_add(&self->departures, 1, __ATOMIC_RELAXED) + 1;
    jvgpu_ledger_hand_over(&self->pointers, (uint64_t)(uintptr_t)ctx, departure.name);
    jvgpu_limits_forget(self, ctx, &departure.own);
  }
  return departure;
}

static void stay(jvgpu_process_t *self, const departure_t *departure)
{
  if (departure->ctx != NULL) {
    jvgpu_ledger_hand_over(&self->pointers, departure->name, (uint64_t)(uintptr_t)departure->ctx);
    jvgpu_limits_remember(self, &departure->own);
  }
}

static void gone(jvgpu_process_t *self, const departure_t *departure)
{
  jvgpu_freed_t freed = {0};
  if (departure->ctx != NULL) {
    jvgpu_ledger_take_owner(&self->pointers, departure->name, &freed);
    jvgpu_charge_give_back(self, &freed);
  }
  jvgpu_pool_use_changed(self);
  jvgpu_pools_look(self);
}

static void settle(jvgpu_process_t *self, const departure_t *departure, bool is_gone)
{
  if (self != NULL && is_gone) {
    gone(self, departure);
  } else if (self != NULL) {
    stay(self, departure);
  }
}

static CUresult destroy(CUresult (*real)(CUcontext), CUcontext ctx)
{
  jvgpu_process_t  *self = jvgpu_tenant();
  const departure_t departure = depart(self, ctx);
  const CUresult    result = real(ctx);
  settle(self, &departure, result == CUDA_SUCCESS);
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

// The last of the references that cuCtxAttach counts destroys a context; then the driver does not know it any more.
static bool is_destroyed(CUcontext ctx)
{
  unsigned int version = 0;
  return jvgpu_real.cuCtxGetApiVersion != NULL && jvgpu_real.cuCtxGetApiVersion(ctx, &version) != CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx)
{
  if (!JVGPU_HAS_CU(cuCtxDetach)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t  *self = jvgpu_tenant();
  const departure_t departure = depart(self, ctx);
  const CUresult    result = jvgpu_real.cuCtxDetach(ctx);
  settle(self, &departure, self != NULL && result == CUDA_SUCCESS && is_destroyed(ctx));
  return result;
}

// --- primary contexts ------------------------------------------------------------------------------------

static bool is_active(CUdevice dev)
{
  unsigned int flags = 0;
  int          active = 1;
  return jvgpu_real.cuDevicePrimaryCtxGetState == NULL ||
         jvgpu_real.cuDevicePrimaryCtxGetState(dev, &flags, &active) != CUDA_SUCCESS || active != 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
  if (!JVGPU_HAS_CU(cuDevicePrimaryCtxRetain)) {
    return JVGPU_NO_SUCH_CU;
  }
  if (has_none_left(dev) && !is_active(dev)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
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
  jvgpu_process_t  *self = jvgpu_tenant();
  const bool        is_one = self != NULL && dev >= 0 && dev < JVGPU_MOST_ORDINALS;
  const departure_t departure = depart(self, is_one ? __atomic_load_n(&self->primary[dev], __ATOMIC_RELAXED) : NULL);
  const CUresult    result = real(dev);
  settle(self, &departure, is_one && result == CUDA_SUCCESS && !is_active(dev));
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

// --- green contexts: parts of the device's SMs beside its primary context ------------------------------------

CUresult cuGreenCtxCreate(CUgreenCtx *green, void *desc, CUdevice dev, unsigned int flags)
{
  if (!JVGPU_HAS_CU(cuGreenCtxCreate)) {
    return JVGPU_NO_SUCH_CU;
  }
  return has_none_left(dev) ? CUDA_ERROR_OUT_OF_MEMORY : jvgpu_real.cuGreenCtxCreate(green, desc, dev, flags);
}

// Whether memory that was allocated under a green context goes with it, the manual does not say: the driver is asked
// of each piece whether it still knows it.
static bool is_known(uint64_t key)
{
  CUdeviceptr base;
  size_t      bytes;
  return jvgpu_real.cuMemGetAddressRange_v2 == NULL ||
         jvgpu_real.cuMemGetAddressRange_v2(&base, &bytes, key) == CUDA_SUCCESS;
}

static CUdevice device_of_green(CUcontext ctx)
{
  CUdevice  dev = 0;
  CUcontext current = NULL;
  if (ctx == NULL || jvgpu_real.cuCtxGetDevice == NULL || jvgpu_real.cuCtxSetCurrent == NULL ||
      jvgpu_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || jvgpu_real.cuCtxSetCurrent(ctx) != CUDA_SUCCESS) {
    return 0;
  }
  const bool is_known_device = jvgpu_real.cuCtxGetDevice(&dev) == CUDA_SUCCESS;
  (void)jvgpu_real.cuCtxSetCurrent(current);
  return is_known_device && dev >= 0 && dev < JVGPU_MOST_ORDINALS ? dev : 0;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
  if (!JVGPU_HAS_CU(cuGreenCtxDestroy)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t   *self = jvgpu_tenant();
  jvgpu_freed_t      freed = {0};
  jvgpu_own_limits_t own = {.had = {{.key = 0}}};
  CUcontext          ctx = NULL;
  CUdevice           dev = 0;
  if (self != NULL && green != NULL && jvgpu_real.cuCtxFromGreenCtx != NULL) {
    (void)jvgpu_real.cuCtxFromGreenCtx(&ctx, green);
    dev = device_of_green(ctx);
  }
  if (ctx != NULL) {
    jvgpu_limits_forget(self, ctx, &own);
  }
  const CUresult result = jvgpu_real.cuGreenCtxDestroy(green);
  if (result == CUDA_SUCCESS && ctx != NULL) {
    // What stays is the primary context's, under which green ones share the device.
    const uint64_t heir = (uint64_t)(uintptr_t)__atomic_load_n(&self->primary[dev], __ATOMIC_RELAXED);
    jvgpu_ledger_take_unknown(&self->pointers, (uint64_t)(uintptr_t)ctx, heir, is_known, &freed);
    jvgpu_charge_give_back(self, &freed);
    jvgpu_pools_look(self);
  } else if (ctx != NULL) {
    jvgpu_limits_remember(self, &own);
  }
  return result;
}
