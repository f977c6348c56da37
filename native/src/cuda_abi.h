// The part of the CUDA driver's and NVML's binary interface that the hooks need, in our own words.
//
// NVIDIA's headers may not be shipped; tests/abi_check_cuda.c compares these declarations with the real
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

typedef struct CUctx_st            *CUcontext;
typedef struct CUevent_st          *CUevent;
typedef struct CUstream_st         *CUstream;
typedef struct CUfunc_st           *CUfunction;
typedef struct CUgraph_st          *CUgraph;
typedef struct CUgraphExec_st      *CUgraphExec;
typedef struct CUgraphNode_st      *CUgraphNode;
typedef struct CUmemPoolHandle_st  *CUmemoryPool;
typedef struct CUarray_st          *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUgreenCtx_st       *CUgreenCtx;

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

enum {
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_LOCATION_TYPE_HOST = 2,
  CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
  CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
  CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN =
      6,  // of a device: `id` is its number and, above the first byte, the part's
};

enum { CU_MEM_ALLOCATION_TYPE_PINNED = 1, CU_MEM_ALLOCATION_TYPE_MANAGED = 2 };

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

// CUDA_MEM_ALLOC_NODE_PARAMS: version 1 and 2 alike.
typedef struct CUDA_MEM_ALLOC_NODE_PARAMS_st {
  CUmemPoolProps poolProps;
  char           poolPropsRest[72];
  const void    *accessDescs;
  size_t         accessDescCount;
  size_t         bytesize;
  CUdeviceptr    dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
  cuuint64_t  flags;
  CUstream    hUploadStream;
  CUgraphNode hErrNode_out;
  int         result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

enum { CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2, CUDA_GRAPH_INSTANTIATE_ERROR = 1 };

// CUgraphNodeParams, up to what is read.
typedef struct CUgraphNodeParams_st {
  int type;
} CUgraphNodeParams;

enum { CU_GRAPH_NODE_TYPE_GRAPH = 4, CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10 };
enum { CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2 };

enum {
  CU_LIMIT_STACK_SIZE = 0,
  CU_LIMIT_PRINTF_FIFO_SIZE = 1,
  CU_LIMIT_MALLOC_HEAP_SIZE = 2,
  CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 5,
  CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6,
};

enum {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
};

enum {
  CUDA_ARRAY3D_LAYERED = 0x01,
  CUDA_ARRAY3D_CUBEMAP = 0x04,
  CUDA_ARRAY3D_SPARSE = 0x40,
  CUDA_ARRAY3D_DEFERRED_MAPPING = 0x80,
};

typedef struct CUDA_ARRAY_DESCRIPTOR_v1_st {
  unsigned int Width;
  unsigned int Height;
  int          Format;
  unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct CUDA_ARRAY_DESCRIPTOR_st {
  size_t       Width;
  size_t       Height;
  int          Format;
  unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_v1_st {
  unsigned int Width;
  unsigned int Height;
  unsigned int Depth;
  int          Format;
  unsigned int NumChannels;
  unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
  size_t       Width;
  size_t       Height;
  size_t       Depth;
  int          Format;
  unsigned int NumChannels;
  unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st {
  size_t       size;
  size_t       alignment;
  unsigned int reserved[4];
} CUDA_ARRAY_MEMORY_REQUIREMENTS;

enum { CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL = 0, CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL = 1 };
enum { CU_MEM_OPERATION_TYPE_MAP = 1, CU_MEM_OPERATION_TYPE_UNMAP = 2 };

typedef struct CUarrayMapInfo_st {
  int   resourceType;
  void *resource;  // CUarray or CUmipmappedArray
  int   subresourceType;
  union {
    struct jvgpu_sparse_level_s {
      unsigned int level;
      unsigned int layer;
      unsigned int offsetX;
      unsigned int offsetY;
      unsigned int offsetZ;
      unsigned int extentWidth;
      unsigned int extentHeight;
      unsigned int extentDepth;
    } sparseLevel;
    struct {
      unsigned int       layer;
      unsigned long long offset;
      unsigned long long size;
    } miptail;
  } subresource;
  int                          memOperationType;
  int                          memHandleType;
  CUmemGenericAllocationHandle memHandle;
  unsigned long long           offset;
  unsigned int                 deviceBitMask;
  unsigned int                 flags;
  unsigned int                 reserved[2];
} CUarrayMapInfo;

enum { CU_STREAM_CAPTURE_STATUS_NONE = 0 };

// --- NVML -----------------------------------------------------------------------------------------

typedef int                   nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;

enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
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

_Static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == 120 && offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize) == 104 &&
                   sizeof(CUarrayMapInfo) == 96 && offsetof(CUarrayMapInfo, memHandle) == 64 &&
                   offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags) == 32 && sizeof(CUDA_ARRAY_MEMORY_REQUIREMENTS) == 32,
               "as tests/abi_check_cuda.c has it of NVIDIA's header");

typedef struct nvmlProcessDetail_v1_st {
  unsigned int       pid;
  unsigned long long usedGpuMemory;
  unsigned int       gpuInstanceId;
  unsigned int       computeInstanceId;
  unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct nvmlProcessDetailList_st {
  unsigned int            version;
  unsigned int            mode;
  unsigned int            numProcArrayEntries;
  nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_t;

typedef struct nvmlEncoderSessionInfo_st {
  unsigned int sessionId;
  unsigned int pid;
  unsigned int rest[6];
} nvmlEncoderSessionInfo_t;

typedef struct nvmlFBCSessionInfo_st {
  unsigned int sessionId;
  unsigned int pid;
  unsigned int rest[10];
} nvmlFBCSessionInfo_t;

// nvmlAccountingStats_v2_t, up to what is read.
typedef struct nvmlAccountingStats_v2_st {
  unsigned int pid;
} nvmlAccountingStats_v2_t;

typedef struct nvmlUtilization_st {
  unsigned int gpu;
  unsigned int memory;
} nvmlUtilization_t;

typedef struct nvmlProcessUtilizationSample_st {
  unsigned int       pid;
  unsigned long long timeStamp;
  unsigned int       rest[4];
} nvmlProcessUtilizationSample_t;

typedef struct nvmlProcessUtilizationInfo_v1_st {
  unsigned long long timeStamp;
  unsigned int       pid;
  unsigned int       rest[6];
} nvmlProcessUtilizationInfo_v1_t;

typedef struct nvmlProcessesUtilizationInfo_st {
  unsigned int                     version;
  unsigned int                     processSamplesCount;
  unsigned long long               lastSeenTimeStamp;
  nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_t;

enum { NVML_GPU_UTILIZATION_SAMPLES = 1, NVML_MEMORY_UTILIZATION_SAMPLES = 2 };

#endif
