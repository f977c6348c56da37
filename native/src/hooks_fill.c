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

CUresult cuMemsetD8_v2(CUdeviceptr dptr, unsigned char value, size_t count)
{
  if (!JVGPU_HAS_CU(cuMemsetD8_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_8, count), NULL, JVGPU_LEGACY);
  return jvgpu_work_end(work, NULL, JVGPU_LEGACY, jvgpu_real.cuMemsetD8_v2(dptr, value, count));
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr dptr, unsigned char value, size_t count)
{
  if (!JVGPU_HAS_CU(cuMemsetD8_v2_ptds)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_8, count), NULL, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, NULL, JVGPU_PER_THREAD, jvgpu_real.cuMemsetD8_v2_ptds(dptr, value, count));
}

CUresult cuMemsetD8Async(CUdeviceptr dptr, unsigned char value, size_t count, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD8Async)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_8, count), stream, JVGPU_LEGACY);
  return jvgpu_work_end(work, stream, JVGPU_LEGACY, jvgpu_real.cuMemsetD8Async(dptr, value, count, stream));
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr dptr, unsigned char value, size_t count, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD8Async_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_8, count), stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, stream, JVGPU_PER_THREAD, jvgpu_real.cuMemsetD8Async_ptsz(dptr, value, count, stream));
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dptr, size_t pitch, unsigned char value, size_t width, size_t height)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D8_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_8, width * height), NULL, JVGPU_LEGACY);
  return jvgpu_work_end(work, NULL, JVGPU_LEGACY, jvgpu_real.cuMemsetD2D8_v2(dptr, pitch, value, width, height));
}

CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr dptr, size_t pitch, unsigned char value, size_t width, size_t height)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D8_v2_ptds)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_8, width * height), NULL, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, NULL, JVGPU_PER_THREAD,
                        jvgpu_real.cuMemsetD2D8_v2_ptds(dptr, pitch, value, width, height));
}

CUresult cuMemsetD2D8Async(CUdeviceptr dptr, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D8Async)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_8, width * height), stream, JVGPU_LEGACY);
  return jvgpu_work_end(work, stream, JVGPU_LEGACY,
                        jvgpu_real.cuMemsetD2D8Async(dptr, pitch, value, width, height, stream));
}

CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr dptr, size_t pitch, unsigned char value, size_t width, size_t height,
                                CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D8Async_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_8, width * height), stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, stream, JVGPU_PER_THREAD,
                        jvgpu_real.cuMemsetD2D8Async_ptsz(dptr, pitch, value, width, height, stream));
}

CUresult cuMemsetD16_v2(CUdeviceptr dptr, unsigned short value, size_t count)
{
  if (!JVGPU_HAS_CU(cuMemsetD16_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_16, count * 2), NULL, JVGPU_LEGACY);
  return jvgpu_work_end(work, NULL, JVGPU_LEGACY, jvgpu_real.cuMemsetD16_v2(dptr, value, count));
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr dptr, unsigned short value, size_t count)
{
  if (!JVGPU_HAS_CU(cuMemsetD16_v2_ptds)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_16, count * 2), NULL, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, NULL, JVGPU_PER_THREAD, jvgpu_real.cuMemsetD16_v2_ptds(dptr, value, count));
}

CUresult cuMemsetD16Async(CUdeviceptr dptr, unsigned short value, size_t count, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD16Async)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_16, count * 2), stream, JVGPU_LEGACY);
  return jvgpu_work_end(work, stream, JVGPU_LEGACY, jvgpu_real.cuMemsetD16Async(dptr, value, count, stream));
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr dptr, unsigned short value, size_t count, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD16Async_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_16, count * 2), stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, stream, JVGPU_PER_THREAD, jvgpu_real.cuMemsetD16Async_ptsz(dptr, value, count, stream));
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dptr, size_t pitch, unsigned short value, size_t width, size_t height)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D16_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_16, width * height * 2), NULL, JVGPU_LEGACY);
  return jvgpu_work_end(work, NULL, JVGPU_LEGACY, jvgpu_real.cuMemsetD2D16_v2(dptr, pitch, value, width, height));
}

CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr dptr, size_t pitch, unsigned short value, size_t width, size_t height)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D16_v2_ptds)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_16, width * height * 2), NULL, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, NULL, JVGPU_PER_THREAD,
                        jvgpu_real.cuMemsetD2D16_v2_ptds(dptr, pitch, value, width, height));
}

CUresult cuMemsetD2D16Async(CUdeviceptr dptr, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D16Async)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_16, width * height * 2), stream, JVGPU_LEGACY);
  return jvgpu_work_end(work, stream, JVGPU_LEGACY,
                        jvgpu_real.cuMemsetD2D16Async(dptr, pitch, value, width, height, stream));
}

CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr dptr, size_t pitch, unsigned short value, size_t width, size_t height,
                                 CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D16Async_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_16, width * height * 2), stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, stream, JVGPU_PER_THREAD,
                        jvgpu_real.cuMemsetD2D16Async_ptsz(dptr, pitch, value, width, height, stream));
}

CUresult cuMemsetD32_v2(CUdeviceptr dptr, unsigned int value, size_t count)
{
  if (!JVGPU_HAS_CU(cuMemsetD32_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_32, count * 4), NULL, JVGPU_LEGACY);
  return jvgpu_work_end(work, NULL, JVGPU_LEGACY, jvgpu_real.cuMemsetD32_v2(dptr, value, count));
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr dptr, unsigned int value, size_t count)
{
  if (!JVGPU_HAS_CU(cuMemsetD32_v2_ptds)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_32, count * 4), NULL, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, NULL, JVGPU_PER_THREAD, jvgpu_real.cuMemsetD32_v2_ptds(dptr, value, count));
}

CUresult cuMemsetD32Async(CUdeviceptr dptr, unsigned int value, size_t count, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD32Async)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_32, count * 4), stream, JVGPU_LEGACY);
  return jvgpu_work_end(work, stream, JVGPU_LEGACY, jvgpu_real.cuMemsetD32Async(dptr, value, count, stream));
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr dptr, unsigned int value, size_t count, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD32Async_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_32, count * 4), stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, stream, JVGPU_PER_THREAD, jvgpu_real.cuMemsetD32Async_ptsz(dptr, value, count, stream));
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dptr, size_t pitch, unsigned int value, size_t width, size_t height)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D32_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_32, width * height * 4), NULL, JVGPU_LEGACY);
  return jvgpu_work_end(work, NULL, JVGPU_LEGACY, jvgpu_real.cuMemsetD2D32_v2(dptr, pitch, value, width, height));
}

CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr dptr, size_t pitch, unsigned int value, size_t width, size_t height)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D32_v2_ptds)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_32, width * height * 4), NULL, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, NULL, JVGPU_PER_THREAD,
                        jvgpu_real.cuMemsetD2D32_v2_ptds(dptr, pitch, value, width, height));
}

CUresult cuMemsetD2D32Async(CUdeviceptr dptr, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D32Async)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_32, width * height * 4), stream, JVGPU_LEGACY);
  return jvgpu_work_end(work, stream, JVGPU_LEGACY,
                        jvgpu_real.cuMemsetD2D32Async(dptr, pitch, value, width, height, stream));
}

CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr dptr, size_t pitch, unsigned int value, size_t width, size_t height,
                                 CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemsetD2D32Async_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(SET_ROWS_32, width * height * 4), stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, stream, JVGPU_PER_THREAD,
                        jvgpu_real.cuMemsetD2D32Async_ptsz(dptr, pitch, value, width, height, stream));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
  if (!JVGPU_HAS_CU(cuMemcpyDtoD_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(COPY, bytes), NULL, JVGPU_LEGACY);
  return jvgpu_work_end(work, NULL, JVGPU_LEGACY, jvgpu_real.cuMemcpyDtoD_v2(to, from, bytes));
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
  if (!JVGPU_HAS_CU(cuMemcpyDtoD_v2_ptds)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(COPY, bytes), NULL, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, NULL, JVGPU_PER_THREAD, jvgpu_real.cuMemcpyDtoD_v2_ptds(to, from, bytes));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemcpyDtoDAsync_v2)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(COPY, bytes), stream, JVGPU_LEGACY);
  return jvgpu_work_end(work, stream, JVGPU_LEGACY, jvgpu_real.cuMemcpyDtoDAsync_v2(to, from, bytes, stream));
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
  if (!JVGPU_HAS_CU(cuMemcpyDtoDAsync_v2_ptsz)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_launch_t work = jvgpu_work_begin(bytes_of(COPY, bytes), stream, JVGPU_PER_THREAD);
  return jvgpu_work_end(work, stream, JVGPU_PER_THREAD, jvgpu_real.cuMemcpyDtoDAsync_v2_ptsz(to, from, bytes, stream));
}
