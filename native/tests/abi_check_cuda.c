// Our own declarations of the driver's structures against NVIDIA's header, where it is installed.
// Nothing to run: it compiles or it does not.

#define __CUDA_API_VERSION_INTERNAL  // what CUDA < 3.2 had, too
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

// What cuda_abi.h says, under other names, since both cannot be included together.
typedef struct {
  int type;
  int id;
} location_t;

typedef struct {
  int        type;
  int        requestedHandleTypes;
  location_t location;
} allocation_prop_t;

typedef struct {
  int        allocType;
  int        handleTypes;
  location_t location;
} pool_props_t;

typedef struct {
  unsigned int dimensions[7];
  CUstream     stream;
} launch_config_t;

_Static_assert(sizeof(CUdeviceptr) == 8 && sizeof(CUdevice) == sizeof(int) && sizeof(CUresult) == sizeof(int),
               "scalars");
_Static_assert(offsetof(CUmemAllocationProp, location) == offsetof(allocation_prop_t, location), "CUmemAllocationProp");
_Static_assert(offsetof(CUmemPoolProps, location) == offsetof(pool_props_t, location), "CUmemPoolProps");
_Static_assert(offsetof(CUmemLocation, id) == offsetof(location_t, id), "CUmemLocation");
_Static_assert(offsetof(CUlaunchConfig, hStream) == offsetof(launch_config_t, stream), "CUlaunchConfig");
_Static_assert(sizeof(CUuuid) == 16, "CUuuid");
_Static_assert(CU_MEM_ALLOCATION_TYPE_PINNED == 1 && CU_MEM_LOCATION_TYPE_DEVICE == 1 &&
                   CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT == 5,
               "constants");
_Static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_NO_DEVICE == 100 && CUDA_ERROR_NOT_FOUND == 500, "results");
_Static_assert(CU_STREAM_CAPTURE_STATUS_NONE == 0, "capture");

// Arrays.
_Static_assert(offsetof(CUDA_ARRAY3D_DESCRIPTOR, Format) == 24 && offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags) == 32 &&
                   offsetof(CUDA_ARRAY_DESCRIPTOR, Format) == 16,
               "array descriptors");
_Static_assert(offsetof(CUDA_ARRAY_MEMORY_REQUIREMENTS, size) == 0 && sizeof(CUDA_ARRAY_MEMORY_REQUIREMENTS) == 32,
               "CUDA_ARRAY_MEMORY_REQUIREMENTS");
_Static_assert(CUDA_ARRAY3D_SPARSE == 0x40 && CUDA_ARRAY3D_DEFERRED_MAPPING == 0x80 && CUDA_ARRAY3D_LAYERED == 1 &&
                   CUDA_ARRAY3D_CUBEMAP == 4,
               "flags of arrays");
_Static_assert(offsetof(CUarrayMapInfo, resource) == 8 && offsetof(CUarrayMapInfo, subresourceType) == 16 &&
                   offsetof(CUarrayMapInfo, subresource) == 24 && offsetof(CUarrayMapInfo, memOperationType) == 56 &&
                   offsetof(CUarrayMapInfo, memHandle) == 64 && sizeof(CUarrayMapInfo) == 96,
               "CUarrayMapInfo");

// Graphs.
_Static_assert(offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize) == 104 &&
                   offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps) == 0 && sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == 120,
               "CUDA_MEM_ALLOC_NODE_PARAMS");
_Static_assert(offsetof(CUgraphNodeParams, type) == 0 && CU_GRAPH_NODE_TYPE_MEM_ALLOC == 10 &&
                   CU_GRAPH_NODE_TYPE_GRAPH == 4 && CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT == 2,
               "graph nodes");
_Static_assert(offsetof(CUDA_GRAPH_INSTANTIATE_PARAMS, flags) == 0 &&
                   offsetof(CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out) == 16 &&
                   offsetof(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out) == 24 &&
                   CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD == 2 && CUDA_GRAPH_INSTANTIATE_ERROR == 1,
               "CUDA_GRAPH_INSTANTIATE_PARAMS");

// Copies.
_Static_assert(sizeof(CUDA_MEMCPY2D_v1) == 96 && offsetof(CUDA_MEMCPY2D_v1, srcMemoryType) == 8 &&
                   offsetof(CUDA_MEMCPY2D_v1, srcDevice) == 24 && offsetof(CUDA_MEMCPY2D_v1, srcPitch) == 40 &&
                   offsetof(CUDA_MEMCPY2D_v1, dstMemoryType) == 52 && offsetof(CUDA_MEMCPY2D_v1, dstDevice) == 64 &&
                   offsetof(CUDA_MEMCPY2D_v1, dstPitch) == 80 && offsetof(CUDA_MEMCPY2D_v1, WidthInBytes) == 84 &&
                   offsetof(CUDA_MEMCPY2D_v1, Height) == 88,
               "CUDA_MEMCPY2D_v1");
_Static_assert(sizeof(CUDA_MEMCPY3D_v1) == 144 && offsetof(CUDA_MEMCPY3D_v1, srcMemoryType) == 16 &&
                   offsetof(CUDA_MEMCPY3D_v1, srcDevice) == 32 && offsetof(CUDA_MEMCPY3D_v1, srcPitch) == 56 &&
                   offsetof(CUDA_MEMCPY3D_v1, dstMemoryType) == 80 && offsetof(CUDA_MEMCPY3D_v1, dstDevice) == 96 &&
                   offsetof(CUDA_MEMCPY3D_v1, dstPitch) == 120 && offsetof(CUDA_MEMCPY3D_v1, WidthInBytes) == 128 &&
                   offsetof(CUDA_MEMCPY3D_v1, Depth) == 136,
               "CUDA_MEMCPY3D_v1");
_Static_assert(sizeof(CUDA_MEMCPY2D) == 128 && offsetof(CUDA_MEMCPY2D, srcMemoryType) == 16 &&
                   offsetof(CUDA_MEMCPY2D, srcDevice) == 32 && offsetof(CUDA_MEMCPY2D, srcPitch) == 48 &&
                   offsetof(CUDA_MEMCPY2D, dstMemoryType) == 72 && offsetof(CUDA_MEMCPY2D, dstDevice) == 88 &&
                   offsetof(CUDA_MEMCPY2D, dstPitch) == 104 && offsetof(CUDA_MEMCPY2D, WidthInBytes) == 112 &&
                   offsetof(CUDA_MEMCPY2D, Height) == 120,
               "CUDA_MEMCPY2D");
#define SOLID_IS_AS_OURS(type)                                                                                    \
  _Static_assert(sizeof(type) == 200 && offsetof(type, srcMemoryType) == 32 && offsetof(type, srcDevice) == 48 && \
                     offsetof(type, srcPitch) == 72 && offsetof(type, dstMemoryType) == 120 &&                    \
                     offsetof(type, dstDevice) == 136 && offsetof(type, dstPitch) == 160 &&                       \
                     offsetof(type, WidthInBytes) == 176 && offsetof(type, Height) == 184 &&                      \
                     offsetof(type, Depth) == 192,                                                                \
                 #type)
SOLID_IS_AS_OURS(CUDA_MEMCPY3D);
SOLID_IS_AS_OURS(CUDA_MEMCPY3D_PEER);
_Static_assert(CU_MEMORYTYPE_HOST == 1 && CU_MEMORYTYPE_DEVICE == 2 && CU_MEMORYTYPE_ARRAY == 3 &&
                   CU_MEMORYTYPE_UNIFIED == 4 && CU_POINTER_ATTRIBUTE_MEMORY_TYPE == 2 &&
                   CU_POINTER_ATTRIBUTE_IS_MANAGED == 8 && CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == 9,
               "where memory is");
#if CUDA_VERSION >= 12080
_Static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == 112 && offsetof(CUDA_MEMCPY3D_BATCH_OP, dst) == 40 &&
                   offsetof(CUDA_MEMCPY3D_BATCH_OP, extent) == 80 && offsetof(CUmemcpy3DOperand, op) == 8 &&
                   CU_MEMCPY_OPERAND_TYPE_POINTER == 1 && CU_MEMCPY_OPERAND_TYPE_ARRAY == 2,
               "CUDA_MEMCPY3D_BATCH_OP");
#endif

// Contexts.
_Static_assert(CU_LIMIT_STACK_SIZE == 0 && CU_LIMIT_PRINTF_FIFO_SIZE == 1 && CU_LIMIT_MALLOC_HEAP_SIZE == 2 &&
                   CU_LIMIT_MAX_L2_FETCH_GRANULARITY == 5 && CU_LIMIT_PERSISTING_L2_CACHE_SIZE == 6,
               "limits");
_Static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16 &&
                   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR == 39,
               "attributes");
// A pointer as a number is a constant to most compilers; to clang before 16 it is none.
#if !defined(__clang__) || __clang_major__ >= 16
_Static_assert((uintptr_t)CU_STREAM_LEGACY == 1 && (uintptr_t)CU_STREAM_PER_THREAD == 2, "default streams");
#endif
