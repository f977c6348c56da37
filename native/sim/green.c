// Green contexts: a part of the SMs, taken from the device or split from another part.
//
// source: CUDA Driver API 13.0, "Green Contexts". On a real board their work runs beside the primary context's; here
// each is a context of its own and takes turns.

#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define GREEN_MAGIC 0x4752454eu

struct CUgreenCtx_st {
  uint32_t     magic;
  CUcontext    context;
  unsigned int sm_count;
};

struct CUdevResourceDesc_st {
  uint32_t     magic;
  unsigned int sm_count;
};

// Groups of SMs that cannot be split, by generation.
static unsigned int smallest_part(CUdevice device)
{
  return sim_board(device)->capability_major >= 9 ? 8 : sim_board(device)->capability_major == 8 ? 4 : 2;
}

static CUresult describe(CUdevResource *resource, CUdevResourceType type, CUdevice device, unsigned int sm_count)
{
  if (resource == NULL || (int)type != CU_DEV_RESOURCE_TYPE_SM) {
    return resource == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_RESOURCE_TYPE;
  }
  memset(resource, 0, sizeof *resource);
  resource->type = CU_DEV_RESOURCE_TYPE_SM;
  resource->sm.smCount = sm_count;
  resource->sm.minSmPartitionSize = smallest_part(device);
  resource->sm.smCoscheduledAlignment = smallest_part(device);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
  const CUresult result = sim_check_device(device);
  return result != CUDA_SUCCESS ? result : describe(resource, type, device, sim_board(device)->sm_count);
}

SIM_API CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource, CUdevResourceType type)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || !sim_context_is_alive(context)) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_CONTEXT;
  }
  return describe(resource, type, context->device, context->sm_count);
}

static bool is_green(CUgreenCtx green)
{
  return green != NULL && green->magic == GREEN_MAGIC;
}

SIM_API CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)
{
  return is_green(green) ? describe(resource, type, green->context->device, green->sm_count)
                         : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API CUresult cuDevSmResourceSplitByCount(CUdevResource *parts, unsigned int *count, const CUdevResource *whole,
                                             CUdevResource *rest, unsigned int flags, unsigned int least)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (count == NULL || whole == NULL || (int)whole->type != CU_DEV_RESOURCE_TYPE_SM || flags > 3) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned int unit = whole->sm.minSmPartitionSize == 0 ? 1 : whole->sm.minSmPartitionSize;
  const unsigned int size = least == 0 ? unit : (least + unit - 1) / unit * unit;
  if (size > whole->sm.smCount) {
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  }
  const unsigned int most = whole->sm.smCount / size;
  const unsigned int made = parts == NULL || *count > most ? most : *count;
  for (unsigned int i = 0; parts != NULL && i < made; i++) {
    parts[i] = *whole;
    parts[i].sm.smCount = size;
  }
  if (rest != NULL) {
    const unsigned int left = whole->sm.smCount - made * size;
    *rest = *whole;
    rest->type = left == 0 ? CU_DEV_RESOURCE_TYPE_INVALID : CU_DEV_RESOURCE_TYPE_SM;
    rest->sm.smCount = left;
  }
  *count = made;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources, unsigned int count)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || out == NULL || resources == NULL || count == 0) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_VALUE;
  }
  CUdevResourceDesc made = calloc(1, sizeof *made);
  if (made == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made->magic = GREEN_MAGIC;
  for (unsigned int i = 0; i < count; i++) {
    if ((int)resources[i].type != CU_DEV_RESOURCE_TYPE_SM) {
      free(made);
      return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    made->sm_count += resources[i].sm.smCount;
  }
  // Never freed: the API has no call for it.
  *out = made;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
  enum { DEFAULT_STREAM = 1 };
  CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS || out == NULL || desc == NULL || desc->magic != GREEN_MAGIC || flags != DEFAULT_STREAM ||
      desc->sm_count > sim_board(device)->sm_count) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  CUgreenCtx green = calloc(1, sizeof *green);
  CUcontext  primary;
  if (green == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  result = sim_context_primary(device, &primary);
  if (result == CUDA_SUCCESS) {
    result = sim_context_green(device, desc->sm_count, &green->context);
  }
  if (result != CUDA_SUCCESS) {
    free(green);
    return result;
  }
  green->magic = GREEN_MAGIC;
  green->sm_count = desc->sm_count;
  *out = green;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || !is_green(green)) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_HANDLE;
  }
  const CUdevice device = green->context->device;
  green->magic = SIM_DEAD_MAGIC;
  sim_context_green_destroy(green->context);
  free(green);
  return cuDevicePrimaryCtxRelease_v2(device);
}

SIM_API CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
  if (context == NULL || !is_green(green)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *context = green->context;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
  if (stream == NULL || !is_green(green) || flags != SIM_STREAM_NON_BLOCKING) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUstream made = sim_stream_new(green->context, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
  if (made == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_lock(&sim_lock);
  made->next = green->context->streams;
  green->context->streams = made;
  pthread_mutex_unlock(&sim_lock);
  *stream = made;
  return CUDA_SUCCESS;
}
