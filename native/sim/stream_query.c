// What a stream can be asked and told, apart from its work (stream.c).

#include <string.h>

#include "driver.h"
#include "range.h"

// A getter and its per-thread twin: the answer is `value`, in which `of` is the stream.
#define STREAM_GETTER(name, type, value)                                              \
  static CUresult get_by_##name(CUstream handle, type *out, sim_face_t face)          \
  {                                                                                   \
    CUstream       of;                                                                \
    const CUresult result = sim_stream_of(handle, face, &of);                         \
    if (result == CUDA_SUCCESS && out != NULL) {                                      \
      *out = (value);                                                                 \
    }                                                                                 \
    return result == CUDA_SUCCESS && out == NULL ? CUDA_ERROR_INVALID_VALUE : result; \
  }                                                                                   \
  SIM_TWINS(name, ptsz, (CUstream stream, type * out), get_by_##name(stream, out, face))

STREAM_GETTER(cuStreamGetFlags, unsigned int, of->flags)
STREAM_GETTER(cuStreamGetPriority, int, of->priority)
STREAM_GETTER(cuStreamGetId, unsigned long long, of->stream_id)
STREAM_GETTER(cuStreamGetCtx, CUcontext, of->context)
STREAM_GETTER(cuStreamGetDevice, CUdevice, of->context->device)

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
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find(address);
  result = range != NULL && range->kind == SIM_RANGE_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_unlock(&sim_lock);
  return result;
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
