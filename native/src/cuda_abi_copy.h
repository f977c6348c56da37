// As cuda_abi.h: what copies are told by.

#ifndef JVGPU_CUDA_ABI_COPY_H
#define JVGPU_CUDA_ABI_COPY_H

#include "cuda_abi.h"

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3, CU_MEMORYTYPE_UNIFIED = 4 };

enum {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
};

// The 32-bit numbers of CUDA < 3.2; handles are as wide as today.
typedef struct CUDA_MEMCPY2D_v1_st {
  unsigned int   srcXInBytes, srcY;
  int            srcMemoryType;
  const void    *srcHost;
  CUdeviceptr_v1 srcDevice;
  CUarray        srcArray;
  unsigned int   srcPitch;
  unsigned int   dstXInBytes, dstY;
  int            dstMemoryType;
  void          *dstHost;
  CUdeviceptr_v1 dstDevice;
  CUarray        dstArray;
  unsigned int   dstPitch;
  unsigned int   WidthInBytes, Height;
} CUDA_MEMCPY2D_v1;

typedef struct CUDA_MEMCPY3D_v1_st {
  unsigned int   srcXInBytes, srcY, srcZ, srcLOD;
  int            srcMemoryType;
  const void    *srcHost;
  CUdeviceptr_v1 srcDevice;
  CUarray        srcArray;
  void          *reserved0;
  unsigned int   srcPitch, srcHeight;
  unsigned int   dstXInBytes, dstY, dstZ, dstLOD;
  int            dstMemoryType;
  void          *dstHost;
  CUdeviceptr_v1 dstDevice;
  CUarray        dstArray;
  void          *reserved1;
  unsigned int   dstPitch, dstHeight;
  unsigned int   WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v1;

typedef struct CUDA_MEMCPY2D_st {
  size_t      srcXInBytes, srcY;
  int         srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  CUarray     srcArray;
  size_t      srcPitch;
  size_t      dstXInBytes, dstY;
  int         dstMemoryType;
  void       *dstHost;
  CUdeviceptr dstDevice;
  CUarray     dstArray;
  size_t      dstPitch;
  size_t      WidthInBytes, Height;
} CUDA_MEMCPY2D;

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER: the contexts are nothing, and have to be NULL, in the former.
typedef struct CUDA_MEMCPY3D_st {
  size_t      srcXInBytes, srcY, srcZ, srcLOD;
  int         srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  CUarray     srcArray;
  CUcontext   srcContext;
  size_t      srcPitch, srcHeight;
  size_t      dstXInBytes, dstY, dstZ, dstLOD;
  int         dstMemoryType;
  void       *dstHost;
  CUdeviceptr dstDevice;
  CUarray     dstArray;
  CUcontext   dstContext;
  size_t      dstPitch, dstHeight;
  size_t      WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
typedef CUDA_MEMCPY3D CUDA_MEMCPY3D_PEER;

enum { CU_MEMCPY_OPERAND_TYPE_POINTER = 1, CU_MEMCPY_OPERAND_TYPE_ARRAY = 2 };

typedef struct CUmemcpy3DOperand_st {
  int type;
  union {
    struct {
      CUdeviceptr   ptr;
      size_t        rowLength;
      size_t        layerHeight;
      CUmemLocation locHint;
    } ptr;
    struct {
      CUarray array;
      size_t  offset[3];
    } array;
  } op;
} CUmemcpy3DOperand;

typedef struct CUDA_MEMCPY3D_BATCH_OP_st {
  CUmemcpy3DOperand src;
  CUmemcpy3DOperand dst;
  size_t            extent[3];
  int               srcAccessOrder;
  unsigned int      flags;
} CUDA_MEMCPY3D_BATCH_OP;

_Static_assert(sizeof(CUDA_MEMCPY2D_v1) == 96 && offsetof(CUDA_MEMCPY2D_v1, srcMemoryType) == 8 &&
                   offsetof(CUDA_MEMCPY2D_v1, srcDevice) == 24 && offsetof(CUDA_MEMCPY2D_v1, srcPitch) == 40 &&
                   offsetof(CUDA_MEMCPY2D_v1, dstMemoryType) == 52 && offsetof(CUDA_MEMCPY2D_v1, dstDevice) == 64 &&
                   offsetof(CUDA_MEMCPY2D_v1, dstPitch) == 80 && offsetof(CUDA_MEMCPY2D_v1, WidthInBytes) == 84,
               "as tests/abi_check_cuda.c has it of NVIDIA's header");
_Static_assert(sizeof(CUDA_MEMCPY3D_v1) == 144 && offsetof(CUDA_MEMCPY3D_v1, srcMemoryType) == 16 &&
                   offsetof(CUDA_MEMCPY3D_v1, srcDevice) == 32 && offsetof(CUDA_MEMCPY3D_v1, srcPitch) == 56 &&
                   offsetof(CUDA_MEMCPY3D_v1, dstMemoryType) == 80 && offsetof(CUDA_MEMCPY3D_v1, dstDevice) == 96 &&
                   offsetof(CUDA_MEMCPY3D_v1, dstPitch) == 120 && offsetof(CUDA_MEMCPY3D_v1, WidthInBytes) == 128,
               "as tests/abi_check_cuda.c has it of NVIDIA's header");
_Static_assert(sizeof(CUDA_MEMCPY2D) == 128 && offsetof(CUDA_MEMCPY2D, srcMemoryType) == 16 &&
                   offsetof(CUDA_MEMCPY2D, srcDevice) == 32 && offsetof(CUDA_MEMCPY2D, srcPitch) == 48 &&
                   offsetof(CUDA_MEMCPY2D, dstMemoryType) == 72 && offsetof(CUDA_MEMCPY2D, dstDevice) == 88 &&
                   offsetof(CUDA_MEMCPY2D, dstPitch) == 104 && offsetof(CUDA_MEMCPY2D, WidthInBytes) == 112,
               "as tests/abi_check_cuda.c has it of NVIDIA's header");
_Static_assert(sizeof(CUDA_MEMCPY3D) == 200 && offsetof(CUDA_MEMCPY3D, srcMemoryType) == 32 &&
                   offsetof(CUDA_MEMCPY3D, srcDevice) == 48 && offsetof(CUDA_MEMCPY3D, srcPitch) == 72 &&
                   offsetof(CUDA_MEMCPY3D, dstMemoryType) == 120 && offsetof(CUDA_MEMCPY3D, dstDevice) == 136 &&
                   offsetof(CUDA_MEMCPY3D, dstPitch) == 160 && offsetof(CUDA_MEMCPY3D, WidthInBytes) == 176,
               "as tests/abi_check_cuda.c has it of NVIDIA's header");
_Static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == 112 && offsetof(CUDA_MEMCPY3D_BATCH_OP, dst) == 40 &&
                   offsetof(CUDA_MEMCPY3D_BATCH_OP, extent) == 80 && offsetof(CUmemcpy3DOperand, op) == 8,
               "as tests/abi_check_cuda.c has it of NVIDIA's header");

#endif
