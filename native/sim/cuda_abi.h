// The part of the CUDA driver's ABI that the simulated libcuda.so.1 speaks.
//
// Our own declarations: names, numbers and layouts are the interface, taken from the documentation of the
// CUDA Driver API 13.0. With JVGPU_SIM_CHECK_HEADERS the real cuda.h takes this file's place, so that the
// compiler compares every definition of ours with it (`cmake -DJVGPU_SIM_CUDA_INCLUDE=...`); abi.c asserts
// the same sizes and offsets in both modes.

#ifndef JVGPU_SIM_CUDA_ABI_H
#define JVGPU_SIM_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef JVGPU_SIM_CHECK_HEADERS
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#else

typedef int                CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned int       CUdeviceptr_v1;
typedef uint32_t           cuuint32_t;
typedef uint64_t           cuuint64_t;

typedef struct CUctx_st            *CUcontext;
typedef struct CUmod_st            *CUmodule;
typedef struct CUfunc_st           *CUfunction;
typedef struct CUlib_st            *CUlibrary;
typedef struct CUkern_st           *CUkernel;
typedef struct CUstream_st         *CUstream;
typedef struct CUevent_st          *CUevent;
typedef struct CUarray_st          *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUlinkState_st      *CUlinkState;
typedef struct CUgraph_st          *CUgraph;
typedef struct CUgraphNode_st      *CUgraphNode;
typedef struct CUgraphExec_st      *CUgraphExec;
typedef struct CUuserObject_st     *CUuserObject;
typedef struct CUmemPoolHandle_st  *CUmemoryPool;
typedef unsigned long long          CUmemGenericAllocationHandle;

typedef void (*CUhostFn)(void *user_data);
typedef size_t (*CUoccupancyB2DSize)(int block_size);

typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;

typedef enum cudaError_enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_ERROR_FILE_NOT_FOUND = 301,
  CUDA_ERROR_OPERATING_SYSTEM = 304,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
  CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_CAPTURED_EVENT = 907,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
  CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
  CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
  CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
  CUDA_ERROR_UNKNOWN = 999
} CUresult;

typedef enum CUdevice_attribute_enum { CU_DEVICE_ATTRIBUTE_MAX = 148 } CUdevice_attribute;
typedef enum CUdriverProcAddressQueryResult_enum {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
} CUdriverProcAddressQueryResult;
enum { CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2 };

typedef struct CUdevprop_st {
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int sharedMemPerBlock;
  int totalConstantMemory;
  int SIMDWidth;
  int memPitch;
  int regsPerBlock;
  int clockRate;
  int textureAlign;
} CUdevprop;

typedef enum CUlimit_enum { CU_LIMIT_MAX = 10 } CUlimit;
typedef enum CUfunc_cache_enum { CU_FUNC_CACHE_PREFER_NONE = 0 } CUfunc_cache;
typedef enum CUsharedconfig_enum { CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE = 0 } CUsharedconfig;
typedef enum CUfunction_attribute_enum { CU_FUNC_ATTRIBUTE_MAX = 16 } CUfunction_attribute;
typedef enum CUjit_option_enum { CU_JIT_MAX_REGISTERS = 0 } CUjit_option;
typedef enum CUjitInputType_enum { CU_JIT_INPUT_CUBIN = 0, CU_JIT_INPUT_PTX = 1 } CUjitInputType;
typedef enum CUlibraryOption_enum { CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0 } CUlibraryOption;
typedef enum CUmoduleLoadingMode_enum { CU_MODULE_EAGER_LOADING = 1, CU_MODULE_LAZY_LOADING = 2 } CUmoduleLoadingMode;
typedef enum CUdevice_P2PAttribute_enum { CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1 } CUdevice_P2PAttribute;

typedef struct CUctxCreateParams_st   CUctxCreateParams;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;

typedef enum CUmemorytype_enum {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_MEMORYTYPE_ARRAY = 3,
  CU_MEMORYTYPE_UNIFIED = 4
} CUmemorytype;

typedef struct CUDA_MEMCPY2D_st {
  size_t       srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void  *srcHost;
  CUdeviceptr  srcDevice;
  CUarray      srcArray;
  size_t       srcPitch;
  size_t       dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void        *dstHost;
  CUdeviceptr  dstDevice;
  CUarray      dstArray;
  size_t       dstPitch;
  size_t       WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUDA_MEMCPY3D_st {
  size_t       srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void  *srcHost;
  CUdeviceptr  srcDevice;
  CUarray      srcArray;
  void        *reserved0;
  size_t       srcPitch, srcHeight;
  size_t       dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void        *dstHost;
  CUdeviceptr  dstDevice;
  CUarray      dstArray;
  void        *reserved1;
  size_t       dstPitch, dstHeight;
  size_t       WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct CUDA_MEMCPY3D_PEER_st {
  size_t       srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void  *srcHost;
  CUdeviceptr  srcDevice;
  CUarray      srcArray;
  CUcontext    srcContext;
  size_t       srcPitch, srcHeight;
  size_t       dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void        *dstHost;
  CUdeviceptr  dstDevice;
  CUarray      dstArray;
  CUcontext    dstContext;
  size_t       dstPitch, dstHeight;
  size_t       WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER;

#endif  // JVGPU_SIM_CHECK_HEADERS

#define SIM_API __attribute__((visibility("default")))

#endif
