// What a stream can be asked and told, apart from its work (stream.c).

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
