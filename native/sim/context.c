// The life of contexts: one primary context per device, and what each costs on the board.

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "range.h"

static struct {
  CUcontext    primary[SIM_MAX_BOARDS];
  unsigned int primary_flags[SIM_MAX_BOARDS];
  uint64_t     next_id;
} contexts;

// source: measured, H200, driver 580.159.04: raised by 64 MiB its buffer of printf has more than 71 MiB and at most 73.
static const size_t default_limits[SIM_LIMITS] = {1024, 8388608, 8388608, 2, 2048, 64, 0, 0, 0, 0};

bool sim_context_is_alive(CUcontext context)
{
  return context != NULL && context->magic == SIM_CONTEXT_MAGIC;
}

static sim_use_t *use_of(CUdevice device)
{
  return &sim_process.slot->uses[sim_process.board_of[device]];
}

// An MPS server lets a client have a part of the SMs.
// source: NVIDIA, Multi-Process Service, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
static uint32_t sm_share(CUdevice device)
{
  const uint32_t sm_count = sim_board(device)->sm_count;
  const char    *text =
      atomic_load(&sim_control(device)->is_mps) != 0 ? getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") : NULL;
  const double percent = text == NULL ? 0 : strtod(text, NULL);
  if (!(percent > 0 && percent < 100)) {
    return sm_count;
  }
  const uint32_t share = (uint32_t)(sm_count * percent / 100 + 0.999);
  return share < 1 ? 1 : share;
}

// pre: sim_lock held
static CUresult make(CUdevice device, unsigned int flags, unsigned int api_version, uint64_t cost_bytes,
                     CUcontext *made)
{
  CUcontext context = calloc(1, sizeof *context);
  if (context == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->charged_bytes = cost_bytes;
  if (cost_bytes > 0 && !sim_charge(device, cost_bytes)) {
    free(context);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->magic = SIM_CONTEXT_MAGIC;
  context->flags = flags;
  context->device = device;
  context->api_version = api_version;
  context->references = 1;
  context->context_id = ++contexts.next_id;
  context->domain = sim_process.board_of[device] * (1 + SIM_MIG_INSTANCES) + sim_process.instance_of[device];
  context->lane = SIM_LANES;
  context->sm_count = sm_share(device);
  context->control = sim_control(device);
  context->fault_serial = atomic_load(&context->control->fault_serial);
  memcpy(context->limits, default_limits, sizeof default_limits);
  context->legacy = sim_stream_new(context, 0, 0);
  if (context->legacy == NULL) {
    sim_uncharge(device, context->charged_bytes);
    free(context);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->legacy->is_legacy = true;
  context->legacy->is_internal = true;
  atomic_fetch_add(&use_of(device)->contexts, 1);
  *made = context;
  return CUDA_SUCCESS;
}

// The handle stays readable for ever, so that a late use is answered instead of crashing.
// pre: sim_lock held
static void unmake(CUcontext context)
{
  while (context->ranges != NULL) {
    sim_range_t *range = context->ranges;
    if (range->kind == SIM_RANGE_IMPORTED) {
      sim_imported_give(range);
    } else if (range->kind == SIM_RANGE_HOST || range->kind == SIM_RANGE_MANAGED ||
               range->kind == SIM_RANGE_REGISTERED) {
      sim_host_give(range);
    } else {
      sim_heap_give(range);
    }
  }
  sim_lane_drop(context);
  sim_streams_drop(context);
  context->magic = SIM_DEAD_MAGIC;
  sim_uncharge(context->device, context->charged_bytes);
  atomic_fetch_sub(&use_of(context->device)->contexts, 1);
}

static CUresult create(CUcontext *out, unsigned int flags, CUdevice device, unsigned int api_version)
{
  CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (out == NULL || flags > 0x1ff) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  result = make(device, flags, api_version, sim_board(device)->context_bytes, out);
  pthread_mutex_unlock(&sim_lock);
  return result == CUDA_SUCCESS ? sim_stack_push(*out) : result;
}

SIM_API CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
  return create(context, flags, device, 3010);
}

SIM_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
  return create(context, flags, device, 3020);
}

SIM_API CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinities, int count, unsigned int flags,
                                CUdevice device)
{
  if (count != 0 && affinities != NULL) {
    return CUDA_ERROR_NOT_SUPPORTED;  // SM affinity needs MPS, which a simulated board has not
  }
  return create(context, flags, device, 3020);
}

SIM_API CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
  (void)params;
  return create(context, flags, device, 3020);
}

static CUresult destroy(CUcontext context)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (!sim_context_is_alive(context) || context->is_primary) {
    return sim_context_refusal(context);
  }
  sim_stack_leave(context);
  pthread_mutex_lock(&sim_lock);
  unmake(context);
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxDestroy_v2(CUcontext context)
{
  return destroy(context);
}

SIM_API CUresult cuCtxDestroy(CUcontext context)
{
  return destroy(context);
}

SIM_API CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
  const CUresult result = flags != 0 || context == NULL ? CUDA_ERROR_INVALID_VALUE : sim_current(context);
  if (result == CUDA_SUCCESS) {
    (*context)->references++;
  }
  return result;
}

SIM_API CUresult cuCtxDetach(CUcontext context)
{
  if (!sim_context_is_alive(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return --context->references > 0 ? CUDA_SUCCESS : destroy(context);
}

CUresult sim_context_primary(CUdevice device, CUcontext *out)
{
  CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  CUcontext *place = &contexts.primary[device];
  if (sim_context_is_alive(*place)) {
    (*place)->references++;
  } else {
    result = make(device, contexts.primary_flags[device], 3020, sim_board(device)->context_bytes, place);
    if (result == CUDA_SUCCESS) {
      (*place)->is_primary = true;
    } else {
      *place = NULL;
    }
  }
  *out = *place;
  pthread_mutex_unlock(&sim_lock);
  return result;
}

CUresult sim_context_green(CUdevice device, uint32_t sm_count, CUcontext *context)
{
  pthread_mutex_lock(&sim_lock);
  const CUresult result = make(device, 0, 3020, 0, context);
  if (result == CUDA_SUCCESS) {
    (*context)->sm_count = sm_count < (*context)->sm_count ? sm_count : (*context)->sm_count;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

void sim_context_green_destroy(CUcontext context)
{
  sim_stack_leave(context);
  pthread_mutex_lock(&sim_lock);
  unmake(context);
  pthread_mutex_unlock(&sim_lock);
}

SIM_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
  return context == NULL ? CUDA_ERROR_INVALID_VALUE : sim_context_primary(device, context);
}

static CUresult release_primary(CUdevice device, bool reset)
{
  CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  CUcontext context = contexts.primary[device];
  if (!sim_context_is_alive(context)) {
    result = reset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  } else if (reset || --context->references == 0) {
    unmake(context);
    contexts.primary[device] = NULL;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
  return release_primary(device, false);
}

SIM_API CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
  return release_primary(device, false);
}

SIM_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
  return release_primary(device, true);
}

SIM_API CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
  return release_primary(device, true);
}

SIM_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
  const CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (flags == NULL || active == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  *active = sim_context_is_alive(contexts.primary[device]);
  *flags = contexts.primary_flags[device];
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
  const CUresult result = sim_check_device(device);
  if (result == CUDA_SUCCESS) {
    contexts.primary_flags[device] = flags;
  }
  return result;
}

SIM_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
