// Fills and copies within the device: work like a launch, charged, sampled and held back as one, but not
// counted as one. Copies from and to the host go by engines of their own and are left alone. A shape is the
// kind and the number of bytes.

#define _GNU_SOURCE
#include <stddef.h>

#include "hooks.h"
#include "work.h"

enum { SET_8, SET_16, SET_32, SET_ROWS_8, SET_ROWS_16, SET_ROWS_32, COPY };

static jvgpu_work_t bytes_of(uint64_t kind, uint64_t bytes)
{
  return (jvgpu_work_t){.key = jvgpu_shape_key(&jvgpu_real, kind, bytes, 1), .is_no_launch = true};
}

#define WORKS(name, parameters, arguments, kind, bytes, stream, calls)                  \
  CUresult name parameters                                                              \
  {                                                                                     \
    if (!JVGPU_HAS_CU(name)) {                                                          \
      return JVGPU_NO_SUCH_CU;                                                          \
    }                                                                                   \
    const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(kind, bytes), stream, calls); \
    return jvgpu_work_end(work, stream, calls, jvgpu_real.name arguments);              \
  }

#define FILLS(name, value_t, kind, calls)                                                                              \
  WORKS(name, (CUdeviceptr dptr, value_t value, size_t count), (dptr, value, count), kind, count * sizeof value, NULL, \
        calls)
#define FILLS_ASYNC(name, value_t, kind, calls)                                                                     \
  WORKS(name, (CUdeviceptr dptr, value_t value, size_t count, CUstream stream), (dptr, value, count, stream), kind, \
        count * sizeof value, stream, calls)
#define FILLS_ROWS(name, value_t, kind, calls)                                              \
  WORKS(name, (CUdeviceptr dptr, size_t pitch, value_t value, size_t width, size_t height), \
        (dptr, pitch, value, width, height), kind, width * height * sizeof value, NULL, calls)
#define FILLS_ROWS_ASYNC(name, value_t, kind, calls)                                                         \
  WORKS(name, (CUdeviceptr dptr, size_t pitch, value_t value, size_t width, size_t height, CUstream stream), \
        (dptr, pitch, value, width, height, stream), kind, width * height * sizeof value, stream, calls)
#define COPIES(name, calls) \
  WORKS(name, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes), COPY, bytes, NULL, calls)
#define COPIES_ASYNC(name, calls)                                                                                 \
  WORKS(name, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream), COPY, \
        bytes, stream, calls)

FILLS(cuMemsetD8_v2, unsigned char, SET_8, JVGPU_LEGACY)
FILLS(cuMemsetD8_v2_ptds, unsigned char, SET_8, JVGPU_PER_THREAD)
FILLS_ASYNC(cuMemsetD8Async, unsigned char, SET_8, JVGPU_LEGACY)
FILLS_ASYNC(cuMemsetD8Async_ptsz, unsigned char, SET_8, JVGPU_PER_THREAD)
FILLS_ROWS(cuMemsetD2D8_v2, unsigned char, SET_ROWS_8, JVGPU_LEGACY)
FILLS_ROWS(cuMemsetD2D8_v2_ptds, unsigned char, SET_ROWS_8, JVGPU_PER_THREAD)
FILLS_ROWS_ASYNC(cuMemsetD2D8Async, unsigned char, SET_ROWS_8, JVGPU_LEGACY)
FILLS_ROWS_ASYNC(cuMemsetD2D8Async_ptsz, unsigned char, SET_ROWS_8, JVGPU_PER_THREAD)

FILLS(cuMemsetD16_v2, unsigned short, SET_16, JVGPU_LEGACY)
FILLS(cuMemsetD16_v2_ptds, unsigned short, SET_16, JVGPU_PER_THREAD)
FILLS_ASYNC(cuMemsetD16Async, unsigned short, SET_16, JVGPU_LEGACY)
FILLS_ASYNC(cuMemsetD16Async_ptsz, unsigned short, SET_16, JVGPU_PER_THREAD)
FILLS_ROWS(cuMemsetD2D16_v2, unsigned short, SET_ROWS_16, JVGPU_LEGACY)
FILLS_ROWS(cuMemsetD2D16_v2_ptds, unsigned short, SET_ROWS_16, JVGPU_PER_THREAD)
FILLS_ROWS_ASYNC(cuMemsetD2D16Async, unsigned short, SET_ROWS_16, JVGPU_LEGACY)
FILLS_ROWS_ASYNC(cuMemsetD2D16Async_ptsz, unsigned short, SET_ROWS_16, JVGPU_PER_THREAD)

FILLS(cuMemsetD32_v2, unsigned int, SET_32, JVGPU_LEGACY)
FILLS(cuMemsetD32_v2_ptds, unsigned int, SET_32, JVGPU_PER_THREAD)
FILLS_ASYNC(cuMemsetD32Async, unsigned int, SET_32, JVGPU_LEGACY)
FILLS_ASYNC(cuMemsetD32Async_ptsz, unsigned int, SET_32, JVGPU_PER_THREAD)
FILLS_ROWS(cuMemsetD2D32_v2, unsigned int, SET_ROWS_32, JVGPU_LEGACY)
FILLS_ROWS(cuMemsetD2D32_v2_ptds, unsigned int, SET_ROWS_32, JVGPU_PER_THREAD)
FILLS_ROWS_ASYNC(cuMemsetD2D32Async, unsigned int, SET_ROWS_32, JVGPU_LEGACY)
FILLS_ROWS_ASYNC(cuMemsetD2D32Async_ptsz, unsigned int, SET_ROWS_32, JVGPU_PER_THREAD)

COPIES(cuMemcpyDtoD_v2, JVGPU_LEGACY)
COPIES(cuMemcpyDtoD_v2_ptds, JVGPU_PER_THREAD)
COPIES_ASYNC(cuMemcpyDtoDAsync_v2, JVGPU_LEGACY)
COPIES_ASYNC(cuMemcpyDtoDAsync_v2_ptsz, JVGPU_PER_THREAD)
