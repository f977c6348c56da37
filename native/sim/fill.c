// Fills of device memory with 8, 16 or 32 bit values, flat or pitched.

#include <string.h>

#include "driver.h"
#include "graph.h"

static void fill_row(char *row, unsigned int value, unsigned int element_bytes, size_t width)
{
  if (element_bytes == 1) {
    memset(row, (int)value, width);
    return;
  }
  for (size_t i = 0; i < width; i++) {
    memcpy(row + i * element_bytes, &value, element_bytes);  // little-endian hosts only, as CUDA's
  }
}

CUresult sim_fill_run(const CUDA_MEMSET_NODE_PARAMS *fill)
{
  if (fill->width == 0 || fill->height == 0) {
    return CUDA_SUCCESS;
  }
  const size_t row_bytes = fill->width * fill->elementSize;
  if (fill->height > 1 && fill->pitch < row_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (fill->dst % fill->elementSize != 0 ||
      !sim_is_reachable(fill->dst, (fill->height - 1) * fill->pitch + row_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find(fill->dst);
  if (range != NULL && range->kind == SIM_RANGE_MANAGED) {
    sim_managed_move(range, fill->height * row_bytes, range->device);  // the device writes there
  }
  pthread_mutex_unlock(&sim_lock);
  for (size_t y = 0; y < fill->height; y++) {
    fill_row((char *)(uintptr_t)fill->dst + y * fill->pitch, fill->value, fill->elementSize, fill->width);
  }
  return CUDA_SUCCESS;
}

static CUDA_MEMSET_NODE_PARAMS params_of(CUdeviceptr dptr, size_t pitch, unsigned int value, unsigned int element_bytes,
                                         size_t width, size_t height)
{
  return (CUDA_MEMSET_NODE_PARAMS){
      .dst = dptr, .pitch = pitch, .value = value, .elementSize = element_bytes, .width = width, .height = height};
}

// A fill is queued even where its call looks synchronous: the real driver returns before it is done, too.
static CUresult fill(CUDA_MEMSET_NODE_PARAMS params, CUstream handle, sim_face_t face, bool is_sync)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS && is_sync) {
    result = sim_capture_check_unsafe();
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEMSET, .of.fill = params};
  return sim_stream_do(stream, &work);
}

#define FILL(bits, type)                                                                                             \
  SIM_TWINS(cuMemsetD##bits##_v2, ptds, (CUdeviceptr dptr, type value, size_t count),                                \
            fill(params_of(dptr, 0, value, bits / 8, count, 1), NULL, face, true))                                   \
  SIM_TWINS(cuMemsetD##bits##Async, ptsz, (CUdeviceptr dptr, type value, size_t count, CUstream stream),             \
            fill(params_of(dptr, 0, value, bits / 8, count, 1), stream, face, false))                                \
  SIM_TWINS(cuMemsetD2D##bits##_v2, ptds, (CUdeviceptr dptr, size_t pitch, type value, size_t width, size_t height), \
            fill(params_of(dptr, pitch, value, bits / 8, width, height), NULL, face, true))                          \
  SIM_TWINS(cuMemsetD2D##bits##Async, ptsz,                                                                          \
            (CUdeviceptr dptr, size_t pitch, type value, size_t width, size_t height, CUstream stream),              \
            fill(params_of(dptr, pitch, value, bits / 8, width, height), stream, face, false))

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
