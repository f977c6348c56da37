// Linear copies to, from and between arrays: an offset in bytes into an array takes the place of an address.

#include "driver.h"

static CUDA_MEMCPY3D to_array(CUarray array, size_t offset, CUmemorytype from, uintptr_t source, size_t bytes)
{
  return (CUDA_MEMCPY3D){.srcMemoryType = from,
                         .srcHost = (const void *)source,
                         .srcDevice = source,
                         .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                         .dstArray = array,
                         .dstXInBytes = offset,
                         .WidthInBytes = bytes,
                         .Height = 1,
                         .Depth = 1};
}

static CUDA_MEMCPY3D from_array(CUmemorytype to, uintptr_t destination, CUarray array, size_t offset, size_t bytes)
{
  return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                         .srcArray = array,
                         .srcXInBytes = offset,
                         .dstMemoryType = to,
                         .dstHost = (void *)destination,
                         .dstDevice = destination,
                         .WidthInBytes = bytes,
                         .Height = 1,
                         .Depth = 1};
}

static CUresult put(CUarray array, size_t offset, CUmemorytype from, uintptr_t source, size_t bytes, sim_face_t face)
{
  const CUDA_MEMCPY3D copy = to_array(array, offset, from, source, bytes);
  return sim_copy_now(&copy, face);
}

static CUresult get(CUmemorytype to, uintptr_t destination, CUarray array, size_t offset, size_t bytes, sim_face_t face)
{
  const CUDA_MEMCPY3D copy = from_array(to, destination, array, offset, bytes);
  return sim_copy_now(&copy, face);
}

static CUresult move(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes, sim_face_t face)
{
  CUDA_MEMCPY3D copy = to_array(to, to_offset, CU_MEMORYTYPE_ARRAY, 0, bytes);
  copy.srcArray = from;
  copy.srcXInBytes = from_offset;
  return sim_copy_now(&copy, face);
}

static CUresult put_async(CUarray array, size_t offset, const void *source, size_t bytes, CUstream stream,
                          sim_face_t face)
{
  const CUDA_MEMCPY3D copy = to_array(array, offset, CU_MEMORYTYPE_HOST, (uintptr_t)source, bytes);
  return sim_copy_async(&copy, stream, face);
}

static CUresult get_async(void *destination, CUarray array, size_t offset, size_t bytes, CUstream stream,
                          sim_face_t face)
{
  const CUDA_MEMCPY3D copy = from_array(CU_MEMORYTYPE_HOST, (uintptr_t)destination, array, offset, bytes);
  return sim_copy_async(&copy, stream, face);
}

SIM_TWINS(cuMemcpyDtoA_v2, ptds, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
          put(to, offset, CU_MEMORYTYPE_DEVICE, from, bytes, face))
SIM_TWINS(cuMemcpyHtoA_v2, ptds, (CUarray to, size_t offset, const void *from, size_t bytes),
          put(to, offset, CU_MEMORYTYPE_HOST, (uintptr_t)from, bytes, face))
SIM_TWINS(cuMemcpyAtoD_v2, ptds, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
          get(CU_MEMORYTYPE_DEVICE, to, from, offset, bytes, face))
SIM_TWINS(cuMemcpyAtoH_v2, ptds, (void *to, CUarray from, size_t offset, size_t bytes),
          get(CU_MEMORYTYPE_HOST, (uintptr_t)to, from, offset, bytes, face))
SIM_TWINS(cuMemcpyAtoA_v2, ptds, (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes),
          move(to, to_offset, from, from_offset, bytes, face))
SIM_TWINS(cuMemcpyHtoAAsync_v2, ptsz, (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream),
          put_async(to, offset, from, bytes, stream, face))
SIM_TWINS(cuMemcpyAtoHAsync_v2, ptsz, (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream),
          get_async(to, from, offset, bytes, stream, face))
