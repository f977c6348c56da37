// The part of the CUDA driver's and NVML's binary interface that the hooks need, in our own words.
//
// NVIDIA's headers may not be shipped; tests/abi_check.c compares these declarations with the real
// ones where they are installed. Handles are opaque pointers; only what is read is declared.
// source: CUDA Driver API 13.0 and NVML API 13.0 reference manuals.

#ifndef JVGPU_CUDA_ABI_H
#define JVGPU_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int                CUresult;
typedef int                CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned int       CUdeviceptr_v1;  // the 32-bit pointers of CUDA < 3.2
typedef uint64_t           cuuint64_t;
typedef unsigned long long CUmemGenericAllocationHandle;

typedef struct CUctx_st           *CUcontext;
typedef struct CUevent_st         *CUevent;
typedef struct CUstream_st        *CUstream;
typedef struct CUfunc_st          *CUfunction;
typedef struct CUgraph_st         *CUgraph;
typedef struct CUgraphExec_st     *CUgraphExec;
typedef struct CUgraphNode_st     *CUgraphNode;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_NOT_READY = 600,
};

typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;

enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };

typedef struct CUmemLocation_st {
  int type;
  int id;
} CUmemLocation;

// CUmemAllocationProp, up to what is read.
typedef struct CUmemAllocationProp_st {
  int           type;
  int           requestedHandleTypes;
  CUmemLocation location;
  // more follows in the driver's structure; it is passed on untouched
} CUmemAllocationProp;

// CUmemPoolProps, up to what is read.
typedef struct CUmemPoolProps_st {
  int           allocType;
  int           handleTypes;
  CUmemLocation location;
} CUmemPoolProps;

enum { CU_STREAM_CAPTURE_STATUS_NONE = 0 };

// --- NVML -----------------------------------------------------------------------------------------

typedef int                   nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;

enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_UNKNOWN = 999,
};

#define NVML_DEVICE_UUID_V2_BUFFER_SIZE 96

typedef struct nvmlMemory_st {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
  unsigned int       version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
} nvmlMemory_v2_t;

typedef struct nvmlProcessInfo_v1_st {
  unsigned int       pid;
  unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo_v2_st {
  unsigned int       pid;
  unsigned long long usedGpuMemory;
  unsigned int       gpuInstanceId;
  unsigned int       computeInstanceId;
} nvmlProcessInfo_v2_t;

#endif
