// What a stream can be asked and told, apart from its work (stream.c).

#include <string.h>

#include "driver.h"

static CUresult flags_of(CUstream handle, unsigned int *flags, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS && flags != NULL) {
    *flags = stream->flags;
  }
  return result == CUDA_SUCCESS && flags == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult priority_of(CUstream handle, int *priority, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS && priority != NULL) {
    *priority = stream->priority;
  }
  return result == CUDA_SUCCESS && priority == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult id_of(CUstream handle, unsigned long long *id, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS && id != NULL) {
    *id = stream->stream_id;
  }
  return result == CUDA_SUCCESS && id == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult context_of(CUstream handle, CUcontext *context, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS && context != NULL) {
    *context = stream->context;
  }
  return result == CUDA_SUCCESS && context == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult device_of(CUstream handle, CUdevice *device, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS && device != NULL) {
    *device = stream->context->device;
  }
  return result == CUDA_SUCCESS && device == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

SIM_TWINS(cuStreamGetFlags, ptsz, (CUstream stream, unsigned int *flags), flags_of(stream, flags, face))
SIM_TWINS(cuStreamGetPriority, ptsz, (CUstream stream, int *priority), priority_of(stream, priority, face))
SIM_TWINS(cuStreamGetId, ptsz, (CUstream stream, unsigned long long *id), id_of(stream, id, face))
SIM_TWINS(cuStreamGetCtx, ptsz, (CUstream stream, CUcontext *context), context_of(stream, context, face))
SIM_TWINS(cuStreamGetDevice, ptsz, (CUstream stream, CUdevice *device), device_of(stream, device, face))

static CUresult get_attribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || value == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  memset(value, 0, sizeof *value);
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    value->priority = stream->priority;
  }
  return CUDA_SUCCESS;
}

// Attributes are hints to hardware that is not there: taken, and apart from the priority forgotten.
static CUresult set_attribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value,
                              sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || value == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    stream->priority = value->priority;
  }
  return CUDA_SUCCESS;
}

static CUresult copy_attributes(CUstream to_handle, CUstream from_handle, sim_face_t face)
{
  CUstream to;
  CUstream from;
  CUresult result = sim_stream_of(to_handle, face, &to);
  if (result == CUDA_SUCCESS) {
    result = sim_stream_of(from_handle, face, &from);
  }
  if (result == CUDA_SUCCESS) {
    to->priority = from->priority;
  }
  return result;
}

static CUresult attach(CUstream handle, CUdeviceptr address, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  return result == CUDA_SUCCESS && !sim_is_reachable(address, 1) ? CUDA_ERROR_INVALID_VALUE : result;
}

SIM_TWINS(cuStreamGetAttribute, ptsz, (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value),
          get_attribute(stream, attribute, value, face))
SIM_TWINS(cuStreamSetAttribute, ptsz, (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),
          set_attribute(stream, attribute, value, face))
SIM_TWINS(cuStreamCopyAttributes, ptsz, (CUstream to, CUstream from), copy_attributes(to, from, face))
SIM_TWINS(cuStreamAttachMemAsync, ptsz,
          (CUstream stream, CUdeviceptr address, size_t bytes __attribute__((unused)),
           unsigned int flags __attribute__((unused))),
          attach(stream, address, face))
