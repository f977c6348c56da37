// What a context can be asked and told, apart from its life (context.c).

#include "driver.h"
#include "graph.h"

SIM_API CUresult cuCtxGetDevice(CUdevice *device)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result == CUDA_SUCCESS && device != NULL) {
    *device = context->device;
  }
  return result == CUDA_SUCCESS && device == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

// returns: `context` if it lives, the current one if it is NULL
static CUresult named_or_current(CUcontext context, CUcontext *found)
{
  if (context == NULL) {
    return sim_current(found);
  }
  const CUresult ready = sim_ready();
  *found = context;
  return ready != CUDA_SUCCESS || sim_context_is_alive(context) ? ready : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_API CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
  CUcontext      found;
  const CUresult result = named_or_current(context, &found);
  if (result == CUDA_SUCCESS && device != NULL) {
    *device = found->device;
  }
  return result == CUDA_SUCCESS && device == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

SIM_API CUresult cuCtxGetFlags(unsigned int *flags)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result == CUDA_SUCCESS && flags != NULL) {
    *flags = context->flags;
  }
  return result == CUDA_SUCCESS && flags == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

SIM_API CUresult cuCtxSetFlags(unsigned int flags)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result == CUDA_SUCCESS) {
    context->flags = flags;
  }
  return result;
}

SIM_API CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
  CUcontext      found;
  const CUresult result = named_or_current(context, &found);
  if (result == CUDA_SUCCESS && id != NULL) {
    *id = found->context_id;
  }
  return result == CUDA_SUCCESS && id == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

SIM_API CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
  CUcontext      found;
  const CUresult result = named_or_current(context, &found);
  if (result == CUDA_SUCCESS && version != NULL) {
    *version = found->api_version;
  }
  return result == CUDA_SUCCESS && version == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

// source: CUDA Driver API 13.0, cuCtxSetLimit: launches from the device wait for each other up to Ampere and Ada only;
// a limit that does not exist is an invalid value to a driver 580.159.04.
static CUresult check_limit(CUcontext context, CUlimit limit)
{
  enum { SYNC_DEPTH = 3 };
  if ((unsigned int)limit >= SIM_LIMITS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool is_gone = (int)limit == SYNC_DEPTH && sim_board(context->device)->capability_major >= 9;
  return is_gone ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
  CUcontext context;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (value == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  result = check_limit(context, limit);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *value = context->limits[limit];
  return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
  CUcontext context;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  result = check_limit(context, limit);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result == CUDA_SUCCESS && least != NULL) {
    *least = 0;
  }
  if (result == CUDA_SUCCESS && greatest != NULL) {
    *greatest = -5;
  }
  return result;
}

SIM_API CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result == CUDA_SUCCESS && config != NULL) {
    *config = CU_FUNC_CACHE_PREFER_NONE;
  }
  return result == CUDA_SUCCESS && config == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

SIM_API CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
  CUcontext context;
  (void)config;
  return sim_current(&context);
}

SIM_API CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result == CUDA_SUCCESS && config != NULL) {
    *config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
  }
  return result;
}

SIM_API CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
  CUcontext context;
  (void)config;
  return sim_current(&context);
}

SIM_API CUresult cuCtxResetPersistingL2Cache(void)
{
  CUcontext context;
  return sim_current(&context);
}

SIM_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!sim_context_is_alive(peer)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (peer->device == context->device) {
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;  // no device is its own peer
  }
  // All simulated memory is host memory: peers reach it anyway.
  const unsigned int bit = 1u << peer->device;
  if ((context->peers & bit) != 0) {
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  }
  context->peers |= bit;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (!sim_context_is_alive(peer)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const unsigned int bit = 1u << peer->device;
  if ((context->peers & bit) == 0) {
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  }
  context->peers &= ~bit;
  return CUDA_SUCCESS;
}

// returns: a stream of the context that still works, NULL when all are idle
static CUstream busy_stream(CUcontext context)
{
  pthread_mutex_lock(&sim_lock);
  CUstream busy = sim_stream_is_done(context->legacy) ? NULL : context->legacy;
  for (CUstream stream = context->streams; stream != NULL && busy == NULL; stream = stream->next) {
    busy = sim_stream_is_done(stream) ? NULL : stream;
  }
  pthread_mutex_unlock(&sim_lock);
  return busy;
}

static CUresult synchronize(CUcontext context)
{
  CUresult result = sim_capture_check_context(context);
  if (result == CUDA_SUCCESS) {
    result = sim_capture_check_unsafe();
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  for (CUstream busy = busy_stream(context); busy != NULL; busy = busy_stream(context)) {
    sim_stream_wait(busy);
  }
  sim_pools_trim();
  return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxSynchronize(void)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  return result == CUDA_SUCCESS ? synchronize(context) : result;
}

SIM_API CUresult cuCtxSynchronize_v2(CUcontext context)
{
  CUcontext      found;
  const CUresult result = named_or_current(context, &found);
  return result == CUDA_SUCCESS ? synchronize(found) : result;
}

// A profiler has nothing to see here; that it is switched on and off is no error.
SIM_API CUresult cuProfilerStart(void)
{
  CUcontext context;
  return sim_current(&context);
}

SIM_API CUresult cuProfilerStop(void)
{
  CUcontext context;
  return sim_current(&context);
}
