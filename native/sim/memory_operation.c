// Stream memory operations: values written to memory in the order of the stream.
//
// A wait for a value that is not there yet would need a device that looks again later; it is answered as not
// supported, and the device attributes say so. A wait that is already fulfilled succeeds.

#include <string.h>

#include "driver.h"
#include "graph.h"

static CUresult write_value(CUstream handle, CUdeviceptr address, uint64_t value, unsigned int bytes, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (address % bytes != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMSET_NODE_PARAMS low = {
      .dst = address, .value = (unsigned int)value, .elementSize = 4, .width = 1, .height = 1};
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEMSET, .of.fill = low};
  const CUresult   first = sim_stream_do(stream, &work);
  if (first != CUDA_SUCCESS || bytes == 4) {
    return first;
  }
  sim_work_t high = work;
  high.of.fill.dst = address + 4;
  high.of.fill.value = (unsigned int)(value >> 32);
  return sim_stream_do(stream, &high);
}

SIM_TWINS(cuStreamWriteValue32_v2, ptsz,
          (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags __attribute__((unused))),
          write_value(stream, address, value, 4, face))
SIM_TWINS(cuStreamWriteValue64_v2, ptsz,
          (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags __attribute__((unused))),
          write_value(stream, address, value, 8, face))
SIM_TWINS(cuStreamWriteValue32, ptsz,
          (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags __attribute__((unused))),
          write_value(stream, address, value, 4, face))
SIM_TWINS(cuStreamWriteValue64, ptsz,
          (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags __attribute__((unused))),
          write_value(stream, address, value, 8, face))

// source: CUDA Driver API 13.0, CUstreamWaitValue_flags: GEQ 0 (cyclic), EQ 1, AND 2, NOR 3
static bool is_fulfilled(uint64_t seen, uint64_t value, unsigned int condition, unsigned int bytes)
{
  const uint64_t mask = bytes == 4 ? UINT32_MAX : UINT64_MAX;
  switch (condition & 3u) {
    case 0: return bytes == 4 ? (int32_t)(seen - value) >= 0 : (int64_t)(seen - value) >= 0;
    case 1: return (seen & mask) == (value & mask);
    case 2: return (seen & value) != 0;
    default: return (~(seen | value) & mask) != 0;
  }
}

static CUresult wait_value(CUstream handle, CUdeviceptr address, uint64_t value, unsigned int flags, unsigned int bytes,
                           sim_face_t face)
{
  CUstream stream;
  uint64_t seen = 0;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS) {
    result = sim_capture_refuse(stream);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (address % bytes != 0 || !sim_is_reachable(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  memcpy(&seen, (const void *)(uintptr_t)address, bytes);
  return is_fulfilled(seen, value, flags, bytes) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_TWINS(cuStreamWaitValue32_v2, ptsz, (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),
          wait_value(stream, address, value, flags, 4, face))
SIM_TWINS(cuStreamWaitValue64_v2, ptsz, (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
          wait_value(stream, address, value, flags, 8, face))
