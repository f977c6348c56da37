// Copies: those that stay within a device are work like a launch, charged, sampled and held back as one, but not counted
// as one. All others are left alone. Which is which: copy.h.

#define _GNU_SOURCE
#include <stddef.h>

#include "copy.h"
#include "hooks.h"
#include "work.h"

// returns: who is asked where memory is; NULL where nobody need be: what is captured becomes part of a graph.
static const jvgpu_process_t *asking(CUstream stream, const jvgpu_stream_calls_t *calls)
{
  const jvgpu_process_t *self = jvgpu_tenant();
  return self == NULL || jvgpu_is_captured(self, stream, calls->is_capturing) ? NULL : self;
}

static jvgpu_launch_t begin(uint64_t key, CUstream stream, const jvgpu_stream_calls_t *calls)
{
  if (key == 0) {
    return (jvgpu_launch_t){.meter = NULL};
  }
  const jvgpu_work_t work = {.key = key, .is_no_launch = true};
  return jvgpu_work_begin(&work, stream, calls);
}

static CUresult end(jvgpu_launch_t copy, CUstream stream, const jvgpu_stream_calls_t *calls, CUresult result)
{
  return jvgpu_work_end(copy, stream, calls, result);
}

// `key_of_it` may name `self`.
#define COPIES(name, parameters, arguments, key_of_it, stream, calls) \
  CUresult name parameters                                            \
  {                                                                   \
    if (!JVGPU_HAS_CU(name)) {                                        \
      return JVGPU_NO_SUCH_CU;                                        \
    }                                                                 \
    const jvgpu_process_t *self = asking(stream, calls);              \
    const uint64_t         key = self == NULL ? 0 : (key_of_it);      \
    const jvgpu_launch_t   launch = begin(key, stream, calls);        \
    return end(launch, stream, calls, jvgpu_real.name arguments);     \
  }

// --- bytes in a row ---------------------------------------------------------------------------------------------------

#define WITHIN(name, address_t, bytes_t, calls) \
  COPIES(name, (address_t to, address_t from, bytes_t bytes), (to, from, bytes), jvgpu_copy_within(bytes), NULL, calls)
#define WITHIN_ASYNC(name, address_t, bytes_t, calls)                                                     \
  COPIES(name, (address_t to, address_t from, bytes_t bytes, CUstream stream), (to, from, bytes, stream), \
         jvgpu_copy_within(bytes), stream, calls)
#define ANYWHERE(name, calls)                                                       \
  COPIES(name, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes), \
         jvgpu_copy_anywhere(self, to, from, bytes), NULL, calls)
#define ANYWHERE_ASYNC(name, calls)                                                                          \
  COPIES(name, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream), \
         jvgpu_copy_anywhere(self, to, from, bytes), stream, calls)
#define ANYWHERE_BY(name, calls)                                                             \
  COPIES(name, (CUdeviceptr to, CUdeviceptr from, size_t bytes, void *how, CUstream stream), \
         (to, from, bytes, how, stream), jvgpu_copy_anywhere(self, to, from, bytes), stream, calls)
#define PEERS(name, calls)                                                                             \
  COPIES(name, (CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t bytes), \
         (to, to_ctx, from, from_ctx, bytes), jvgpu_copy_anywhere(self, to, from, bytes), NULL, calls)
#define PEERS_ASYNC(name, calls)                                                                                  \
  COPIES(name,                                                                                                    \
         (CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t bytes, CUstream stream), \
         (to, to_ctx, from, from_ctx, bytes, stream), jvgpu_copy_anywhere(self, to, from, bytes), stream, calls)

WITHIN(cuMemcpyDtoD, CUdeviceptr_v1, unsigned int, JVGPU_LEGACY)
WITHIN(cuMemcpyDtoD_v2, CUdeviceptr, size_t, JVGPU_LEGACY)
WITHIN(cuMemcpyDtoD_v2_ptds, CUdeviceptr, size_t, JVGPU_PER_THREAD)
WITHIN_ASYNC(cuMemcpyDtoDAsync, CUdeviceptr_v1, unsigned int, JVGPU_LEGACY)
WITHIN_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, size_t, JVGPU_LEGACY)
WITHIN_ASYNC(cuMemcpyDtoDAsync_v2_ptsz, CUdeviceptr, size_t, JVGPU_PER_THREAD)
ANYWHERE(cuMemcpy, JVGPU_LEGACY)
ANYWHERE(cuMemcpy_ptds, JVGPU_PER_THREAD)
ANYWHERE_ASYNC(cuMemcpyAsync, JVGPU_LEGACY)
ANYWHERE_ASYNC(cuMemcpyAsync_ptsz, JVGPU_PER_THREAD)
ANYWHERE_BY(cuMemcpyWithAttributesAsync, JVGPU_LEGACY)
ANYWHERE_BY(cuMemcpyWithAttributesAsync_ptsz, JVGPU_PER_THREAD)
PEERS(cuMemcpyPeer, JVGPU_LEGACY)
PEERS(cuMemcpyPeer_ptds, JVGPU_PER_THREAD)
PEERS_ASYNC(cuMemcpyPeerAsync, JVGPU_LEGACY)
PEERS_ASYNC(cuMemcpyPeerAsync_ptsz, JVGPU_PER_THREAD)

// --- to, from and between arrays --------------------------------------------------------------------------------------

#define IN_ARRAY                \
  (jvgpu_copy_end_t)            \
  {                             \
    .type = CU_MEMORYTYPE_ARRAY \
  }
#define PLAIN                    \
  (jvgpu_copy_end_t)             \
  {                              \
    .type = CU_MEMORYTYPE_DEVICE \
  }

#define TO_ARRAY(name, address_t, bytes_t, calls)                                              \
  COPIES(name, (CUarray to, bytes_t at, address_t from, bytes_t bytes), (to, at, from, bytes), \
         jvgpu_copy_rows(self, IN_ARRAY, PLAIN, bytes, 1), NULL, calls)
#define FROM_ARRAY(name, address_t, bytes_t, calls)                                            \
  COPIES(name, (address_t to, CUarray from, bytes_t at, bytes_t bytes), (to, from, at, bytes), \
         jvgpu_copy_rows(self, PLAIN, IN_ARRAY, bytes, 1), NULL, calls)
#define BETWEEN_ARRAYS(name, bytes_t, calls)                                                                           \
  COPIES(name, (CUarray to, bytes_t at, CUarray from, bytes_t from_at, bytes_t bytes), (to, at, from, from_at, bytes), \
         jvgpu_copy_rows(self, IN_ARRAY, IN_ARRAY, bytes, 1), NULL, calls)

TO_ARRAY(cuMemcpyDtoA, CUdeviceptr_v1, unsigned int, JVGPU_LEGACY)
TO_ARRAY(cuMemcpyDtoA_v2, CUdeviceptr, size_t, JVGPU_LEGACY)
TO_ARRAY(cuMemcpyDtoA_v2_ptds, CUdeviceptr, size_t, JVGPU_PER_THREAD)
FROM_ARRAY(cuMemcpyAtoD, CUdeviceptr_v1, unsigned int, JVGPU_LEGACY)
FROM_ARRAY(cuMemcpyAtoD_v2, CUdeviceptr, size_t, JVGPU_LEGACY)
FROM_ARRAY(cuMemcpyAtoD_v2_ptds, CUdeviceptr, size_t, JVGPU_PER_THREAD)
BETWEEN_ARRAYS(cuMemcpyAtoA, unsigned int, JVGPU_LEGACY)
BETWEEN_ARRAYS(cuMemcpyAtoA_v2, size_t, JVGPU_LEGACY)
BETWEEN_ARRAYS(cuMemcpyAtoA_v2_ptds, size_t, JVGPU_PER_THREAD)

// --- called the host's ------------------------------------------------------------------------------------------------

#define AT_HOST(pointer)                                                     \
  (jvgpu_copy_end_t)                                                         \
  {                                                                          \
    .type = CU_MEMORYTYPE_HOST, .address = (CUdeviceptr)(uintptr_t)(pointer) \
  }

#define TO_DEVICE(name, address_t, bytes_t, calls)                                 \
  COPIES(name, (address_t to, const void *from, bytes_t bytes), (to, from, bytes), \
         jvgpu_copy_rows(self, PLAIN, AT_HOST(from), bytes, 1), NULL, calls)
#define TO_DEVICE_ASYNC(name, address_t, bytes_t, calls)                                                    \
  COPIES(name, (address_t to, const void *from, bytes_t bytes, CUstream stream), (to, from, bytes, stream), \
         jvgpu_copy_rows(self, PLAIN, AT_HOST(from), bytes, 1), stream, calls)
#define FROM_DEVICE(name, address_t, bytes_t, calls)                         \
  COPIES(name, (void *to, address_t from, bytes_t bytes), (to, from, bytes), \
         jvgpu_copy_rows(self, AT_HOST(to), PLAIN, bytes, 1), NULL, calls)
#define FROM_DEVICE_ASYNC(name, address_t, bytes_t, calls)                                            \
  COPIES(name, (void *to, address_t from, bytes_t bytes, CUstream stream), (to, from, bytes, stream), \
         jvgpu_copy_rows(self, AT_HOST(to), PLAIN, bytes, 1), stream, calls)
#define INTO_ARRAY(name, bytes_t, calls)                                                         \
  COPIES(name, (CUarray to, bytes_t at, const void *from, bytes_t bytes), (to, at, from, bytes), \
         jvgpu_copy_rows(self, IN_ARRAY, AT_HOST(from), bytes, 1), NULL, calls)
#define INTO_ARRAY_ASYNC(name, bytes_t, calls)                                             \
  COPIES(name, (CUarray to, bytes_t at, const void *from, bytes_t bytes, CUstream stream), \
         (to, at, from, bytes, stream), jvgpu_copy_rows(self, IN_ARRAY, AT_HOST(from), bytes, 1), stream, calls)
#define OUT_OF_ARRAY(name, bytes_t, calls)                                                 \
  COPIES(name, (void *to, CUarray from, bytes_t at, bytes_t bytes), (to, from, at, bytes), \
         jvgpu_copy_rows(self, AT_HOST(to), IN_ARRAY, bytes, 1), NULL, calls)
#define OUT_OF_ARRAY_ASYNC(name, bytes_t, calls)                                                                    \
  COPIES(name, (void *to, CUarray from, bytes_t at, bytes_t bytes, CUstream stream), (to, from, at, bytes, stream), \
         jvgpu_copy_rows(self, AT_HOST(to), IN_ARRAY, bytes, 1), stream, calls)

TO_DEVICE(cuMemcpyHtoD, CUdeviceptr_v1, unsigned int, JVGPU_LEGACY)
TO_DEVICE(cuMemcpyHtoD_v2, CUdeviceptr, size_t, JVGPU_LEGACY)
TO_DEVICE(cuMemcpyHtoD_v2_ptds, CUdeviceptr, size_t, JVGPU_PER_THREAD)
TO_DEVICE_ASYNC(cuMemcpyHtoDAsync, CUdeviceptr_v1, unsigned int, JVGPU_LEGACY)
TO_DEVICE_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, size_t, JVGPU_LEGACY)
TO_DEVICE_ASYNC(cuMemcpyHtoDAsync_v2_ptsz, CUdeviceptr, size_t, JVGPU_PER_THREAD)
FROM_DEVICE(cuMemcpyDtoH, CUdeviceptr_v1, unsigned int, JVGPU_LEGACY)
FROM_DEVICE(cuMemcpyDtoH_v2, CUdeviceptr, size_t, JVGPU_LEGACY)
FROM_DEVICE(cuMemcpyDtoH_v2_ptds, CUdeviceptr, size_t, JVGPU_PER_THREAD)
FROM_DEVICE_ASYNC(cuMemcpyDtoHAsync, CUdeviceptr_v1, unsigned int, JVGPU_LEGACY)
FROM_DEVICE_ASYNC(cuMemcpyDtoHAsync_v2, CUdeviceptr, size_t, JVGPU_LEGACY)
FROM_DEVICE_ASYNC(cuMemcpyDtoHAsync_v2_ptsz, CUdeviceptr, size_t, JVGPU_PER_THREAD)
INTO_ARRAY(cuMemcpyHtoA, unsigned int, JVGPU_LEGACY)
INTO_ARRAY(cuMemcpyHtoA_v2, size_t, JVGPU_LEGACY)
INTO_ARRAY(cuMemcpyHtoA_v2_ptds, size_t, JVGPU_PER_THREAD)
INTO_ARRAY_ASYNC(cuMemcpyHtoAAsync, unsigned int, JVGPU_LEGACY)
INTO_ARRAY_ASYNC(cuMemcpyHtoAAsync_v2, size_t, JVGPU_LEGACY)
INTO_ARRAY_ASYNC(cuMemcpyHtoAAsync_v2_ptsz, size_t, JVGPU_PER_THREAD)
OUT_OF_ARRAY(cuMemcpyAtoH, unsigned int, JVGPU_LEGACY)
OUT_OF_ARRAY(cuMemcpyAtoH_v2, size_t, JVGPU_LEGACY)
OUT_OF_ARRAY(cuMemcpyAtoH_v2_ptds, size_t, JVGPU_PER_THREAD)
OUT_OF_ARRAY_ASYNC(cuMemcpyAtoHAsync, unsigned int, JVGPU_LEGACY)
OUT_OF_ARRAY_ASYNC(cuMemcpyAtoHAsync_v2, size_t, JVGPU_LEGACY)
OUT_OF_ARRAY_ASYNC(cuMemcpyAtoHAsync_v2_ptsz, size_t, JVGPU_PER_THREAD)

// --- rectangles and blocks --------------------------------------------------------------------------------------------

#define ADDRESS_OF(end, copy) \
  (copy->end##MemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)copy->end##Host : copy->end##Device)
#define TARGET_OF(copy)                                        \
  (jvgpu_copy_end_t)                                           \
  {                                                            \
    copy->dstMemoryType, ADDRESS_OF(dst, copy), copy->dstPitch \
  }
#define SOURCE_OF(copy)                                        \
  (jvgpu_copy_end_t)                                           \
  {                                                            \
    copy->srcMemoryType, ADDRESS_OF(src, copy), copy->srcPitch \
  }
#define KEY_OF_ROWS(rows) \
  copy == NULL ? 0 : jvgpu_copy_rows(self, TARGET_OF(copy), SOURCE_OF(copy), copy->WidthInBytes, rows)

#define FLAT(name, copy_t, calls) COPIES(name, (const copy_t *copy), (copy), KEY_OF_ROWS(copy->Height), NULL, calls)
#define FLAT_ASYNC(name, copy_t, calls) \
  COPIES(name, (const copy_t *copy, CUstream stream), (copy, stream), KEY_OF_ROWS(copy->Height), stream, calls)
#define SOLID(name, copy_t, calls) \
  COPIES(name, (const copy_t *copy), (copy), KEY_OF_ROWS((uint64_t)copy->Height * copy->Depth), NULL, calls)
#define SOLID_ASYNC(name, copy_t, calls)                              \
  COPIES(name, (const copy_t *copy, CUstream stream), (copy, stream), \
         KEY_OF_ROWS((uint64_t)copy->Height * copy->Depth), stream, calls)

FLAT(cuMemcpy2D, CUDA_MEMCPY2D_v1, JVGPU_LEGACY)
FLAT(cuMemcpy2D_v2, CUDA_MEMCPY2D, JVGPU_LEGACY)
FLAT(cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D, JVGPU_PER_THREAD)
FLAT(cuMemcpy2DUnaligned, CUDA_MEMCPY2D_v1, JVGPU_LEGACY)
FLAT(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, JVGPU_LEGACY)
FLAT(cuMemcpy2DUnaligned_v2_ptds, CUDA_MEMCPY2D, JVGPU_PER_THREAD)
FLAT_ASYNC(cuMemcpy2DAsync, CUDA_MEMCPY2D_v1, JVGPU_LEGACY)
FLAT_ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, JVGPU_LEGACY)
FLAT_ASYNC(cuMemcpy2DAsync_v2_ptsz, CUDA_MEMCPY2D, JVGPU_PER_THREAD)
SOLID(cuMemcpy3D, CUDA_MEMCPY3D_v1, JVGPU_LEGACY)
SOLID(cuMemcpy3D_v2, CUDA_MEMCPY3D, JVGPU_LEGACY)
SOLID(cuMemcpy3D_v2_ptds, CUDA_MEMCPY3D, JVGPU_PER_THREAD)
SOLID_ASYNC(cuMemcpy3DAsync, CUDA_MEMCPY3D_v1, JVGPU_LEGACY)
SOLID_ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, JVGPU_LEGACY)
SOLID_ASYNC(cuMemcpy3DAsync_v2_ptsz, CUDA_MEMCPY3D, JVGPU_PER_THREAD)

// Between devices, or within one: memory of a device is asked for like any other, since it may be of either.
static uint64_t key_of_peers(const jvgpu_process_t *self, const CUDA_MEMCPY3D_PEER *copy)
{
  if (copy == NULL) {
    return 0;
  }
  jvgpu_copy_end_t to = TARGET_OF(copy);
  jvgpu_copy_end_t from = SOURCE_OF(copy);
  to.type = to.type == CU_MEMORYTYPE_DEVICE ? CU_MEMORYTYPE_UNIFIED : to.type;
  from.type = from.type == CU_MEMORYTYPE_DEVICE ? CU_MEMORYTYPE_UNIFIED : from.type;
  return jvgpu_copy_rows(self, to, from, copy->WidthInBytes, copy->Height * copy->Depth);
}

#define SOLID_PEERS(name, calls) \
  COPIES(name, (const CUDA_MEMCPY3D_PEER *copy), (copy), key_of_peers(self, copy), NULL, calls)
#define SOLID_PEERS_ASYNC(name, calls)                                                                              \
  COPIES(name, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), (copy, stream), key_of_peers(self, copy), stream, \
         calls)

SOLID_PEERS(cuMemcpy3DPeer, JVGPU_LEGACY)
SOLID_PEERS(cuMemcpy3DPeer_ptds, JVGPU_PER_THREAD)
SOLID_PEERS_ASYNC(cuMemcpy3DPeerAsync, JVGPU_LEGACY)
SOLID_PEERS_ASYNC(cuMemcpy3DPeerAsync_ptsz, JVGPU_PER_THREAD)

// --- many at once -----------------------------------------------------------------------------------------------------

// The driver looks at no list of copies that is not said how to be made, and no more must we.
#define KEY_OF_BATCH \
  how == NULL || how_count == 0 || how_count > count ? 0 : jvgpu_copy_batch(self, to, from, bytes, count)

#define BATCHES_TELLING(name, calls)                                                                      \
  COPIES(name,                                                                                            \
         (CUdeviceptr * to, CUdeviceptr * from, size_t *bytes, size_t count, void *how, size_t *how_from, \
          size_t how_count, size_t *failed, CUstream stream),                                             \
         (to, from, bytes, count, how, how_from, how_count, failed, stream), KEY_OF_BATCH, stream, calls)
#define BATCHES(name, calls)                                                                              \
  COPIES(name,                                                                                            \
         (CUdeviceptr * to, CUdeviceptr * from, size_t *bytes, size_t count, void *how, size_t *how_from, \
          size_t how_count, CUstream stream),                                                             \
         (to, from, bytes, count, how, how_from, how_count, stream), KEY_OF_BATCH, stream, calls)
#define BLOCKS_TELLING(name, calls)                                                                                 \
  COPIES(name,                                                                                                      \
         (size_t count, CUDA_MEMCPY3D_BATCH_OP *blocks, size_t *failed, unsigned long long flags, CUstream stream), \
         (count, blocks, failed, flags, stream), jvgpu_copy_blocks(self, blocks, count), stream, calls)
#define BLOCKS(name, calls)                                                                               \
  COPIES(name, (size_t count, CUDA_MEMCPY3D_BATCH_OP *blocks, unsigned long long flags, CUstream stream), \
         (count, blocks, flags, stream), jvgpu_copy_blocks(self, blocks, count), stream, calls)
#define ONE_BLOCK(name, calls)                                                                                      \
  COPIES(name, (CUDA_MEMCPY3D_BATCH_OP * block, unsigned long long flags, CUstream stream), (block, flags, stream), \
         jvgpu_copy_blocks(self, block, 1), stream, calls)

BATCHES_TELLING(cuMemcpyBatchAsync, JVGPU_LEGACY)
BATCHES_TELLING(cuMemcpyBatchAsync_ptsz, JVGPU_PER_THREAD)
BATCHES(cuMemcpyBatchAsync_v2, JVGPU_LEGACY)
BATCHES(cuMemcpyBatchAsync_v2_ptsz, JVGPU_PER_THREAD)
BLOCKS_TELLING(cuMemcpy3DBatchAsync, JVGPU_LEGACY)
BLOCKS_TELLING(cuMemcpy3DBatchAsync_ptsz, JVGPU_PER_THREAD)
BLOCKS(cuMemcpy3DBatchAsync_v2, JVGPU_LEGACY)
BLOCKS(cuMemcpy3DBatchAsync_v2_ptsz, JVGPU_PER_THREAD)
ONE_BLOCK(cuMemcpy3DWithAttributesAsync, JVGPU_LEGACY)
ONE_BLOCK(cuMemcpy3DWithAttributesAsync_ptsz, JVGPU_PER_THREAD)
