// The most that an array can take.

#include "array_size.h"
#include "check.h"

enum { U8 = 0x01, FLOAT = 0x20, BC7 = 0x9c };

static uint64_t bytes_of(size_t width, size_t height, size_t depth, int format, unsigned int channels,
                         unsigned int flags, unsigned int levels)
{
  const CUDA_ARRAY3D_DESCRIPTOR shape = {
      .Width = width, .Height = height, .Depth = depth, .Format = format, .NumChannels = channels, .Flags = flags};
  return jvgpu_array_bytes(&shape, levels);
}

int main(void)
{
  CHECK("a line has one row of pieces", bytes_of(1000, 0, 0, FLOAT, 1, 0, 1) == 4032 * 8);
  CHECK("a small picture is padded to a power of two of rows", bytes_of(64, 20, 0, U8, 1, 0, 1) == 64 * 32);
  CHECK("a large one to whole blocks of 128", bytes_of(4096, 1000, 0, FLOAT, 4, 0, 1) == UINT64_C(65536) * 1024);
  CHECK("depth is padded", bytes_of(64, 8, 5, U8, 1, 0, 1) == 64 * 8 * 8);
  CHECK("layers are not", bytes_of(64, 8, 5, U8, 1, CUDA_ARRAY3D_LAYERED, 1) == 64 * 8 * 5);
  CHECK("an unknown format has the most for an element", bytes_of(64, 8, 0, BC7, 1, 0, 1) == 64 * 16 * 8);
  CHECK("mipmap levels add up", bytes_of(128, 128, 0, U8, 1, 0, 2) == 128 * 128 + 64 * 64);
  CHECK("levels beyond one element are none", bytes_of(2, 2, 0, U8, 1, 0, 18) == 2 * 64 * 8);
  CHECK("nothing wraps round", bytes_of(1u << 20, 1u << 20, 1u << 20, FLOAT, 4, 0, 1) > UINT64_C(1) << 60 &&
                                   bytes_of(SIZE_MAX, 1, 1, FLOAT, 4, 0, 1) == UINT64_MAX);
  RESULT();
}
