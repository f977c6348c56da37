// Many copies in one call: one after the other, in the order in which they are told. Between addresses only: no arrays.

#include "cuda_abi_memory.h"
#include "driver.h"

// What a call that fails says of which copy it was, where it was none in particular.
#define NONE_IN_PARTICULAR SIZE_MAX

static bool is_order(CUmemcpySrcAccessOrder order)
{
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static CUresult refused(CUresult result, size_t *failed, size_t which)
{
  if (failed != NULL) {
    *failed = which;
  }
  return result;
}

// The first set of attributes is for the first copy, the next for a later one, and so on.
// source: CUDA Driver API 13.0, cuMemcpyBatchAsync.
static bool are_attributes(const CUmemcpyAttributes *attributes, const size_t *from, size_t sets, size_t count)
{
  if (attributes == NULL || from == NULL || sets == 0 || sets > count || from[0] != 0) {
    return false;
  }
  for (size_t i = 0; i < sets; i++) {
    if (!is_order(attributes[i].srcAccessOrder) || from[i] >= count || (i > 0 && from[i] <= from[i - 1])) {
      return false;
    }
  }
  return true;
}

// The legacy default stream will not do.
static bool is_stream(CUstream stream, sim_face_t face)
{
  return (stream != NULL && (uintptr_t)stream != 1) || (stream == NULL && face == SIM_PER_THREAD);
}

static CUresult batch(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes, size_t count,
                      const CUmemcpyAttributes *attributes, const size_t *attributes_from, size_t sets, size_t *failed,
                      CUstream stream, sim_face_t face)
{
  if (to == NULL || from == NULL || bytes == NULL || !is_stream(stream, face) ||
      !are_attributes(attributes, attributes_from, sets, count)) {
    return refused(CUDA_ERROR_INVALID_VALUE, failed, NONE_IN_PARTICULAR);
  }
  for (size_t i = 0; i < count; i++) {
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = from[i],
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = to[i],
                                .WidthInBytes = bytes[i],
                                .Height = 1,
                                .Depth = 1};
    const CUresult      result = sim_copy_async(&copy, stream, face);
    if (result != CUDA_SUCCESS) {
      return refused(result, failed, i);
    }
  }
  return CUDA_SUCCESS;
}

SIM_TWINS(cuMemcpyBatchAsync, ptsz,
          (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, CUmemcpyAttributes *attributes,
           size_t *attributes_from, size_t sets, size_t *failed, CUstream stream),
          batch(to, from, bytes, count, attributes, attributes_from, sets, failed, stream, face))
SIM_TWINS(cuMemcpyBatchAsync_v2, ptsz,
          (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, CUmemcpyAttributes *attributes,
           size_t *attributes_from, size_t sets, CUstream stream),
          batch(to, from, bytes, count, attributes, attributes_from, sets, NULL, stream, face))

static CUresult block(const CUDA_MEMCPY3D_BATCH_OP *block, CUstream stream, sim_face_t face)
{
  if (!is_order(block->srcAccessOrder) || block->extent.width == 0 || block->extent.height == 0 ||
      block->extent.depth == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (block->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || block->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .srcDevice = block->src.op.ptr.ptr,
                              .srcPitch = block->src.op.ptr.rowLength,
                              .srcHeight = block->src.op.ptr.layerHeight,
                              .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .dstDevice = block->dst.op.ptr.ptr,
                              .dstPitch = block->dst.op.ptr.rowLength,
                              .dstHeight = block->dst.op.ptr.layerHeight,
                              .WidthInBytes = block->extent.width,
                              .Height = block->extent.height,
                              .Depth = block->extent.depth};
  return sim_copy_async(&copy, stream, face);
}

static CUresult blocks(size_t count, const CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags,
                       CUstream stream, sim_face_t face)
{
  if (count == 0 || list == NULL || flags != 0 || !is_stream(stream, face)) {
    return refused(CUDA_ERROR_INVALID_VALUE, failed, NONE_IN_PARTICULAR);
  }
  for (size_t i = 0; i < count; i++) {
    const CUresult result = block(&list[i], stream, face);
    if (result != CUDA_SUCCESS) {
      return refused(result, failed, i);
    }
  }
  return CUDA_SUCCESS;
}

SIM_TWINS(cuMemcpy3DBatchAsync, ptsz,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags, CUstream stream),
          blocks(count, list, failed, flags, stream, face))
SIM_TWINS(cuMemcpy3DBatchAsync_v2, ptsz,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream),
          blocks(count, list, NULL, flags, stream, face))
