// Copies: memcpy between places that are all host memory in the end, after a look at where they lie.

#include <string.h>

#include "driver.h"
#include "graph.h"

bool sim_is_reachable(CUdeviceptr start, size_t bytes)
{
  bool ok = true;
  pthread_mutex_lock(&sim_lock);
  // Mapped pieces may stand side by side: a span may run over several.
  for (uintptr_t at = (uintptr_t)start; ok && at < (uintptr_t)start + bytes;) {
    const sim_range_t *range = sim_range_find(at);
    ok = range != NULL && range->kind != SIM_RANGE_UNUSED &&
         (range->kind != SIM_RANGE_MAPPED || range->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    at = ok ? range->start + range->bytes : at;
  }
  pthread_mutex_unlock(&sim_lock);
  return ok;
}

// One end of a three-dimensional copy.
typedef struct sim_end_s {
  char  *base;
  size_t pitch, height;
} sim_end_t;

static bool end_of(CUmemorytype kind, const void *host, CUdeviceptr device, CUarray array, size_t pitch, size_t height,
                   const size_t offset[3], const size_t extent[3], sim_end_t *end)
{
  if (kind == CU_MEMORYTYPE_ARRAY) {
    if (!sim_array_memory(array, &device, &pitch, &height)) {
      return false;
    }
    kind = CU_MEMORYTYPE_DEVICE;
  }
  if (kind != CU_MEMORYTYPE_HOST && kind != CU_MEMORYTYPE_DEVICE && kind != CU_MEMORYTYPE_UNIFIED) {
    return false;
  }
  const bool is_host = kind == CU_MEMORYTYPE_HOST;
  end->pitch = pitch != 0 ? pitch : offset[0] + extent[0];
  end->height = height != 0 ? height : offset[1] + extent[1];
  char *origin = is_host ? (char *)(uintptr_t)host : (char *)(uintptr_t)device;
  if (origin == NULL || end->pitch < extent[0]) {
    return false;
  }
  end->base = origin + (offset[2] * end->height + offset[1]) * end->pitch + offset[0];
  // In a unified copy an address the driver does not know is pageable host memory.
  const size_t span = ((extent[2] - 1) * end->height + extent[1] - 1) * end->pitch + extent[0];
  return kind != CU_MEMORYTYPE_DEVICE || sim_is_reachable((uintptr_t)end->base, span);
}

CUresult sim_copy_run(const CUDA_MEMCPY3D *copy)
{
  const size_t extent[3] = {copy->WidthInBytes, copy->Height, copy->Depth};
  const size_t from[3] = {copy->srcXInBytes, copy->srcY, copy->srcZ};
  const size_t to[3] = {copy->dstXInBytes, copy->dstY, copy->dstZ};
  sim_end_t    source;
  sim_end_t    target;
  if (extent[0] == 0 || extent[1] == 0 || extent[2] == 0) {
    return CUDA_SUCCESS;
  }
  if (!end_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray, copy->srcPitch, copy->srcHeight,
              from, extent, &source) ||
      !end_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray, copy->dstPitch, copy->dstHeight, to,
              extent, &target)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t z = 0; z < extent[2]; z++) {
    for (size_t y = 0; y < extent[1]; y++) {
      memmove(target.base + (z * target.height + y) * target.pitch,
              source.base + (z * source.height + y) * source.pitch, extent[0]);
    }
  }
  return CUDA_SUCCESS;
}

// ---- the calls

CUresult sim_copy_async(const CUDA_MEMCPY3D *copy, CUstream handle, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || copy == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEMCPY, .of.copy = *copy};
  return sim_stream_do(stream, &work);
}

// A synchronous copy runs on the caller's default stream, behind what is queued there. Within the device nobody waits
// for it. source: CUDA Driver API 13.0, "API synchronization behavior".
CUresult sim_copy_now(const CUDA_MEMCPY3D *copy, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(NULL, face, &stream);
  if (result == CUDA_SUCCESS) {
    result = sim_capture_check_unsafe();
  }
  if (result == CUDA_SUCCESS) {
    result = sim_capture_refuse(stream);
  }
  if (result != CUDA_SUCCESS || copy == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  if (!sim_copy_crosses(copy)) {
    const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEMCPY, .of.copy = *copy};
    return sim_stream_do(stream, &work);
  }
  sim_stream_wait(stream);
  // The copy engines take no turns with others' work, and the host waits for what comes or goes over its link.
  const uint64_t due_ns = sim_now_ns() + sim_copy_ns(copy, stream->context->device);
  result = sim_copy_run(copy);
  if (result == CUDA_SUCCESS) {
    sim_sleep_until(due_ns);
    sim_host_resume(due_ns);
  }
  return result;
}

static CUDA_MEMCPY3D linear(CUmemorytype to, uintptr_t destination, CUmemorytype from, uintptr_t source, size_t bytes)
{
  return (CUDA_MEMCPY3D){.srcMemoryType = from,
                         .srcHost = (const void *)source,
                         .srcDevice = source,
                         .dstMemoryType = to,
                         .dstHost = (void *)destination,
                         .dstDevice = destination,
                         .WidthInBytes = bytes,
                         .Height = 1,
                         .Depth = 1};
}

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

static CUresult linear_now(CUmemorytype to, uintptr_t destination, CUmemorytype from, uintptr_t source, size_t bytes,
                           sim_face_t face)
{
  const CUDA_MEMCPY3D copy = linear(to, destination, from, source, bytes);
  return sim_copy_now(&copy, face);
}

static CUresult linear_async(CUmemorytype to, uintptr_t destination, CUmemorytype from, uintptr_t source, size_t bytes,
                             CUstream stream, sim_face_t face)
{
  const CUDA_MEMCPY3D copy = linear(to, destination, from, source, bytes);
  return sim_copy_async(&copy, stream, face);
}

SIM_TWINS(cuMemcpy, ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
          linear_now(UNIFIED, to, UNIFIED, from, bytes, face))
SIM_TWINS(cuMemcpyHtoD_v2, ptds, (CUdeviceptr to, const void *from, size_t bytes),
          linear_now(DEVICE, to, HOST, (uintptr_t)from, bytes, face))
SIM_TWINS(cuMemcpyDtoH_v2, ptds, (void *to, CUdeviceptr from, size_t bytes),
          linear_now(HOST, (uintptr_t)to, DEVICE, from, bytes, face))
SIM_TWINS(cuMemcpyDtoD_v2, ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
          linear_now(DEVICE, to, DEVICE, from, bytes, face))
SIM_TWINS(cuMemcpyPeer, ptds,
          (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
          ((void)to_context, (void)from_context, linear_now(DEVICE, to, DEVICE, from, bytes, face)))
SIM_TWINS(cuMemcpyAsync, ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
          linear_async(UNIFIED, to, UNIFIED, from, bytes, stream, face))
SIM_TWINS(cuMemcpyHtoDAsync_v2, ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
          linear_async(DEVICE, to, HOST, (uintptr_t)from, bytes, stream, face))
SIM_TWINS(cuMemcpyDtoHAsync_v2, ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
          linear_async(HOST, (uintptr_t)to, DEVICE, from, bytes, stream, face))
SIM_TWINS(cuMemcpyDtoDAsync_v2, ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
          linear_async(DEVICE, to, DEVICE, from, bytes, stream, face))
SIM_TWINS(cuMemcpyPeerAsync, ptsz,
          (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
           CUstream stream),
          ((void)to_context, (void)from_context, linear_async(DEVICE, to, DEVICE, from, bytes, stream, face)))

static CUDA_MEMCPY3D solid(const CUDA_MEMCPY2D *flat)
{
  return (CUDA_MEMCPY3D){.srcXInBytes = flat->srcXInBytes,
                         .srcY = flat->srcY,
                         .srcMemoryType = flat->srcMemoryType,
                         .srcHost = flat->srcHost,
                         .srcDevice = flat->srcDevice,
                         .srcArray = flat->srcArray,
                         .srcPitch = flat->srcPitch,
                         .dstXInBytes = flat->dstXInBytes,
                         .dstY = flat->dstY,
                         .dstMemoryType = flat->dstMemoryType,
                         .dstHost = flat->dstHost,
                         .dstDevice = flat->dstDevice,
                         .dstArray = flat->dstArray,
                         .dstPitch = flat->dstPitch,
                         .WidthInBytes = flat->WidthInBytes,
                         .Height = flat->Height,
                         .Depth = 1};
}

static CUresult flat_now(const CUDA_MEMCPY2D *flat, sim_face_t face)
{
  if (flat == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMCPY3D copy = solid(flat);
  return sim_copy_now(&copy, face);
}

static CUresult flat_async(const CUDA_MEMCPY2D *flat, CUstream stream, sim_face_t face)
{
  if (flat == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMCPY3D copy = solid(flat);
  return sim_copy_async(&copy, stream, face);
}

SIM_TWINS(cuMemcpy2D_v2, ptds, (const CUDA_MEMCPY2D *copy), flat_now(copy, face))
SIM_TWINS(cuMemcpy2DUnaligned_v2, ptds, (const CUDA_MEMCPY2D *copy), flat_now(copy, face))
SIM_TWINS(cuMemcpy2DAsync_v2, ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream), flat_async(copy, stream, face))
SIM_TWINS(cuMemcpy3D_v2, ptds, (const CUDA_MEMCPY3D *copy), sim_copy_now(copy, face))
SIM_TWINS(cuMemcpy3DAsync_v2, ptsz, (const CUDA_MEMCPY3D *copy, CUstream stream), sim_copy_async(copy, stream, face))

// All devices share one address space, so whose context an address is of says nothing more.
static CUDA_MEMCPY3D of_peers(const CUDA_MEMCPY3D_PEER *peers)
{
  _Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof *peers, "the same but for the contexts, in place of what is reserved");
  CUDA_MEMCPY3D copy;
  memcpy(&copy, peers, sizeof copy);
  copy.reserved0 = NULL;
  copy.reserved1 = NULL;
  return copy;
}

static CUresult peers_now(const CUDA_MEMCPY3D_PEER *peers, sim_face_t face)
{
  if (peers == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMCPY3D copy = of_peers(peers);
  return sim_copy_now(&copy, face);
}

static CUresult peers_async(const CUDA_MEMCPY3D_PEER *peers, CUstream stream, sim_face_t face)
{
  if (peers == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMCPY3D copy = of_peers(peers);
  return sim_copy_async(&copy, stream, face);
}

SIM_TWINS(cuMemcpy3DPeer, ptds, (const CUDA_MEMCPY3D_PEER *copy), peers_now(copy, face))
SIM_TWINS(cuMemcpy3DPeerAsync, ptsz, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), peers_async(copy, stream, face))
