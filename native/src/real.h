// The driver's own functions, typed. Filled by the loader; NULL where this driver has no such symbol.

#ifndef JVGPU_REAL_H
#define JVGPU_REAL_H

#include "cuda_abi.h"
#include "cuda_abi_copy.h"

typedef struct jvgpu_real_s {
#define CU(name, parameters, arguments) CUresult(*name) parameters;
#define NVML(name, parameters, arguments) nvmlReturn_t(*name) parameters;
#include "entrypoints.def"
#undef CU
#undef NVML
  // Asked, never answered for.
  CUresult (*cuCtxGetCurrent)(CUcontext *ctx);
  CUresult (*cuCtxGetDevice)(CUdevice *dev);
  CUresult (*cuDeviceGetCount)(int *count);
  CUresult (*cuDeviceGet)(CUdevice *dev, int ordinal);
  CUresult (*cuDeviceGetUuid_v2)(CUuuid *uuid, CUdevice dev);
  CUresult (*cuDeviceGetMemPool)(CUmemoryPool *pool, CUdevice dev);
  CUresult (*cuDevicePrimaryCtxGetState)(CUdevice dev, unsigned int *flags, int *active);
  CUresult (*cuStreamIsCapturing)(CUstream stream, int *status);
  CUresult (*cuStreamIsCapturing_ptsz)(CUstream stream, int *status);
  CUresult (*cuMemPoolGetAttribute)(CUmemoryPool pool, int attribute, void *value);
  CUresult (*cuMemPoolSetAttribute)(CUmemoryPool pool, int attribute, void *value);
  CUresult (*cuCtxSetCurrent)(CUcontext ctx);
  CUresult (*cuEventCreate)(CUevent *event, unsigned int flags);
  CUresult (*cuEventRecord)(CUevent event, CUstream stream);
  CUresult (*cuEventRecord_ptsz)(CUevent event, CUstream stream);
  CUresult (*cuEventQuery)(CUevent event);
  CUresult (*cuEventElapsedTime)(float *ms, CUevent begun, CUevent ended);
  CUresult (*cuStreamCreate)(CUstream *stream, unsigned int flags);
  CUresult (*cuStreamCreateWithPriority)(CUstream *stream, unsigned int flags, int priority);
  CUresult (*cuStreamQuery)(CUstream stream);
  CUresult (*cuThreadExchangeStreamCaptureMode)(int *mode);
  CUresult (*cuArrayGetMemoryRequirements)(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, CUarray array, CUdevice dev);
  CUresult (*cuMipmappedArrayGetMemoryRequirements)(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, CUmipmappedArray mipmap,
                                                    CUdevice dev);
  CUresult (*cuCtxGetApiVersion)(CUcontext ctx, unsigned int *version);
  CUresult (*cuCtxGetLimit)(size_t *value, int limit);
  CUresult (*cuCtxFromGreenCtx)(CUcontext *ctx, CUgreenCtx green);
  CUresult (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int *blocks, CUfunction f, int threads, size_t shared);
  CUresult (*cuDeviceGetAttribute)(int *value, int attribute, CUdevice dev);
  CUresult (*cuDeviceGetDefaultMemPool)(CUmemoryPool *pool, CUdevice dev);
  CUresult (*cuMemGetDefaultMemPool)(CUmemoryPool *pool, CUmemLocation *location, int kind);
  CUresult (*cuDeviceGetGraphMemAttribute)(CUdevice dev, int attribute, void *value);
  CUresult (*cuGraphChildGraphNodeGetGraph)(CUgraphNode node, CUgraph *graph);
  CUresult (*cuGraphGetNodes)(CUgraph graph, CUgraphNode *nodes, size_t *count);
  CUresult (*cuGraphMemAllocNodeGetParams)(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params);
  CUresult (*cuGraphNodeGetType)(CUgraphNode node, int *type);
  CUresult (*cuStreamGetDevice)(CUstream stream, CUdevice *dev);
  CUresult (*cuMemGetAddressRange_v2)(CUdeviceptr *base, size_t *bytes, CUdeviceptr dptr);
  CUresult (*cuPointerGetAttributes)(unsigned int count, int *attributes, void **values, CUdeviceptr dptr);
  nvmlReturn_t (*nvmlDeviceGetUUID)(nvmlDevice_t device, char *uuid, unsigned int length);
} jvgpu_real_t;

extern jvgpu_real_t jvgpu_real;

// The hooks, under the driver's own names: what a program calls.
#pragma GCC visibility push(default)
#define CU(name, parameters, arguments) CUresult name parameters;
#define NVML(name, parameters, arguments) nvmlReturn_t name parameters;
#include "entrypoints.def"
#undef CU
#undef NVML
#pragma GCC visibility pop

#endif
