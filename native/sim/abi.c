// The layouts that our own declarations must share with NVIDIA's: compiled against both (see cuda_abi.h).

#include "cuda_abi_graph.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field)

SIZE(CUuuid, 16);
SIZE(CUdevprop, 56);
SIZE(CUDA_MEMCPY2D, 128);
AT(CUDA_MEMCPY2D, dstXInBytes, 56);
AT(CUDA_MEMCPY2D, WidthInBytes, 112);
SIZE(CUDA_MEMCPY3D, 200);
AT(CUDA_MEMCPY3D, srcPitch, 72);
AT(CUDA_MEMCPY3D, dstXInBytes, 88);
AT(CUDA_MEMCPY3D, WidthInBytes, 176);
SIZE(CUDA_MEMCPY3D_PEER, 200);
AT(CUDA_MEMCPY3D_PEER, dstXInBytes, 88);
AT(CUDA_MEMCPY3D_PEER, WidthInBytes, 176);
SIZE(CUmemcpyAttributes, 24);
SIZE(CUDA_MEMCPY3D_BATCH_OP, 112);
AT(CUDA_MEMCPY3D_BATCH_OP, extent, 80);
SIZE(CUmemLocation, 8);
SIZE(CUmemAccessDesc, 12);
SIZE(CUmemPoolProps, 88);
AT(CUmemPoolProps, maxSize, 24);
SIZE(CUmemAllocationProp, 32);
AT(CUmemAllocationProp, allocFlags, 24);
SIZE(CUlaunchAttribute, 72);
SIZE(CUlaunchConfig, 56);
AT(CUlaunchConfig, hStream, 32);
SIZE(CUgraphEdgeData, 8);
SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS, 32);
SIZE(CUDA_KERNEL_NODE_PARAMS_v2, 72);
SIZE(CUDA_MEMSET_NODE_PARAMS, 40);
SIZE(CUDA_HOST_NODE_PARAMS, 16);
SIZE(CUDA_MEM_ALLOC_NODE_PARAMS, 120);
AT(CUDA_MEM_ALLOC_NODE_PARAMS, dptr, 112);
SIZE(CUgraphExecUpdateResultInfo, 24);
SIZE(CUgraphNodeParams, 256);
AT(CUgraphNodeParams, alloc, 16);
SIZE(CUDA_ARRAY_MEMORY_REQUIREMENTS, 32);
SIZE(CUDA_ARRAY_SPARSE_PROPERTIES, 48);
SIZE(CUarrayMapInfo, 96);
AT(CUarrayMapInfo, memHandle, 64);
SIZE(CUmemPoolPtrExportData, 64);
SIZE(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, 104);
AT(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size, 24);
SIZE(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, 88);
