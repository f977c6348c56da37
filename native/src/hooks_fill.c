// Fills: work like a launch, charged, sampled and held back as one, but not counted as one. A shape is the kind and the
// number of bytes.

#define _GNU_SOURCE
#include <stddef.h>

#include "hooks.h"
#include "work.h"

enum { SET_8, SET_16, SET_32, SET_ROWS_8, SET_ROWS_16, SET_ROWS_32 };

static jvgpu_launch_t begin(uint64_t kind, uint64_t bytes, CUstream stream, const jvgpu_stream_calls_t *calls)
{
  const jvgpu_work_t work = {.key = jvgpu_shape_key(&jvgpu_real, kind, bytes, 1), .is_no_launch = true};
  return jvgpu_work_begin(&work, stream, calls);
}

#define WORKS(name, parameters, arguments, kind, bytes, stream, calls)     \
  CUresult name parameters                                                 \
  {                                                                        \
    if (!JVGPU_HAS_CU(name)) {                                             \
      return JVGPU_NO_SUCH_CU;                                             \
    }                                                                      \
    const jvgpu_launch_t fill = begin(kind, bytes, stream, calls);         \
    return jvgpu_work_end(fill, stream, calls, jvgpu_real.name arguments); \
  }

#define FILLS(name, value_t, kind, calls)                                                                              \
  WORKS(name, (CUdeviceptr dptr, value_t value, size_t count), (dptr, value, count), kind, count * sizeof value, NULL, \
        calls)
// The 32-bit addresses of CUDA < 3.2, which a program can still have memory at.
#define FILLS_LOW(name, value_t, kind)                                                              \
  WORKS(name, (CUdeviceptr_v1 dptr, value_t value, unsigned int count), (dptr, value, count), kind, \
        count * sizeof value, NULL, JVGPU_LEGACY)
#define FILLS_ROWS_LOW(name, value_t, kind)                                                                      \
  WORKS(name, (CUdeviceptr_v1 dptr, unsigned int pitch, value_t value, unsigned int width, unsigned int height), \
        (dptr, pitch, value, width, height), kind, (uint64_t)width * height * sizeof value, NULL, JVGPU_LEGACY)
#define FILLS_ASYNC(name, value_t, kind, calls)                                                                     \
  WORKS(name, (CUdeviceptr dptr, value_t value, size_t count, CUstream stream), (dptr, value, count, stream), kind, \
        count * sizeof value, stream, calls)
#define FILLS_ROWS(name, value_t, kind, calls)                                              \
  WORKS(name, (CUdeviceptr dptr, size_t pitch, value_t value, size_t width, size_t height), \
        (dptr, pitch, value, width, height), kind, width * height * sizeof value, NULL, calls)
#define FILLS_ROWS_ASYNC(name, value_t, kind, calls)                                                         \
  WORKS(name, (CUdeviceptr dptr, size_t pitch, value_t value, size_t width, size_t height, CUstream stream), \
        (dptr, pitch, value, width, height, stream), kind, width * height * sizeof value, stream, calls)

FILLS_LOW(cuMemsetD8, unsigned char, SET_8)
FILLS(cuMemsetD8_v2, unsigned char, SET_8, JVGPU_LEGACY)
FILLS(cuMemsetD8_v2_ptds, unsigned char, SET_8, JVGPU_PER_THREAD)
FILLS_ASYNC(cuMemsetD8Async, unsigned char, SET_8, JVGPU_LEGACY)
FILLS_ASYNC(cuMemsetD8Async_ptsz, unsigned char, SET_8, JVGPU_PER_THREAD)
FILLS_ROWS_LOW(cuMemsetD2D8, unsigned char, SET_ROWS_8)
FILLS_ROWS(cuMemsetD2D8_v2, unsigned char, SET_ROWS_8, JVGPU_LEGACY)
FILLS_ROWS(cuMemsetD2D8_v2_ptds, unsigned char, SET_ROWS_8, JVGPU_PER_THREAD)
FILLS_ROWS_ASYNC(cuMemsetD2D8Async, unsigned char, SET_ROWS_8, JVGPU_LEGACY)
FILLS_ROWS_ASYNC(cuMemsetD2D8Async_ptsz, unsigned char, SET_ROWS_8, JVGPU_PER_THREAD)

FILLS_LOW(cuMemsetD16, unsigned short, SET_16)
FILLS(cuMemsetD16_v2, unsigned short, SET_16, JVGPU_LEGACY)
FILLS(cuMemsetD16_v2_ptds, unsigned short, SET_16, JVGPU_PER_THREAD)
FILLS_ASYNC(cuMemsetD16Async, unsigned short, SET_16, JVGPU_LEGACY)
FILLS_ASYNC(cuMemsetD16Async_ptsz, unsigned short, SET_16, JVGPU_PER_THREAD)
FILLS_ROWS_LOW(cuMemsetD2D16, unsigned short, SET_ROWS_16)
FILLS_ROWS(cuMemsetD2D16_v2, unsigned short, SET_ROWS_16, JVGPU_LEGACY)
FILLS_ROWS(cuMemsetD2D16_v2_ptds, unsigned short, SET_ROWS_16, JVGPU_PER_THREAD)
FILLS_ROWS_ASYNC(cuMemsetD2D16Async, unsigned short, SET_ROWS_16, JVGPU_LEGACY)
FILLS_ROWS_ASYNC(cuMemsetD2D16Async_ptsz, unsigned short, SET_ROWS_16, JVGPU_PER_THREAD)

FILLS_LOW(cuMemsetD32, unsigned int, SET_32)
FILLS(cuMemsetD32_v2, unsigned int, SET_32, JVGPU_LEGACY)
FILLS(cuMemsetD32_v2_ptds, unsigned int, SET_32, JVGPU_PER_THREAD)
FILLS_ASYNC(cuMemsetD32Async, unsigned int, SET_32, JVGPU_LEGACY)
FILLS_ASYNC(cuMemsetD32Async_ptsz, unsigned int, SET_32, JVGPU_PER_THREAD)
FILLS_ROWS_LOW(cuMemsetD2D32, unsigned int, SET_ROWS_32)
FILLS_ROWS(cuMemsetD2D32_v2, unsigned int, SET_ROWS_32, JVGPU_LEGACY)
FILLS_ROWS(cuMemsetD2D32_v2_ptds, unsigned int, SET_ROWS_32, JVGPU_PER_THREAD)
FILLS_ROWS_ASYNC(cuMemsetD2D32Async, unsigned int, SET_ROWS_32, JVGPU_LEGACY)
FILLS_ROWS_ASYNC(cuMemsetD2D32Async_ptsz, unsigned int, SET_ROWS_32, JVGPU_PER_THREAD)
