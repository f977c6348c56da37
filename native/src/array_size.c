#include "array_size.h"

#include <stdbool.h>

// A block-linear surface is made of pieces of 64 bytes x 8 rows, and of blocks of up to 16 such pieces in height and
// 32 in depth, as many as the extent needs.
// source: Linux, drivers/gpu/drm/nouveau and include/uapi/drm/drm_fourcc.h, "NVIDIA 16Bx2 Block Linear".
#define PIECE_WIDTH_BYTES UINT64_C(64)
#define PIECE_ROWS UINT64_C(8)
#define BLOCK_MOST_ROWS UINT64_C(128)
#define BLOCK_MOST_DEPTH UINT64_C(32)

#define WIDEST UINT64_C(1048576)

// source: CUDA Driver API 13.0, CUarray_format: bytes of one channel; what is not named there has 16 bytes for
// an element at most.
static uint64_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
  switch (shape->Format) {
    case 0x01:
    case 0x08: return shape->NumChannels;
    case 0x02:
    case 0x09:
    case 0x10: return UINT64_C(2) * shape->NumChannels;
    case 0x03:
    case 0x0a:
    case 0x20: return UINT64_C(4) * shape->NumChannels;
    default: return 16;
  }
}

static uint64_t round_up(uint64_t value, uint64_t step)
{
  return (value + step - 1) / step * step;
}

// Whole blocks: the smallest power of two that holds `value`, or whole largest blocks.
static uint64_t in_blocks(uint64_t value, uint64_t least, uint64_t most)
{
  uint64_t block = least;
  while (block < value && block < most) {
    block *= 2;
  }
  return round_up(value, block);
}

static uint64_t halved(uint64_t extent, unsigned int level)
{
  return extent >> level == 0 ? 1 : extent >> level;
}

uint64_t jvgpu_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
  const bool     has_layers = (shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const uint64_t element = element_bytes(shape);
  uint64_t       bytes = 0;

  if (shape->Width > WIDEST || shape->Height > WIDEST || shape->Depth > WIDEST || element > 64) {
    return UINT64_MAX;
  }
  for (unsigned int level = 0; level < levels; level++) {
    const uint64_t width = round_up(halved(shape->Width, level) * element, PIECE_WIDTH_BYTES);
    const uint64_t rows = in_blocks(halved(shape->Height, level), PIECE_ROWS, BLOCK_MOST_ROWS);
    const uint64_t depth = has_layers ? shape->Depth : in_blocks(halved(shape->Depth, level), 1, BLOCK_MOST_DEPTH);
    // At most 2^26 x 2^21 x 2^21 for one level, and no device has 2^63 bytes.
    uint64_t one;
    if (__builtin_mul_overflow(width * rows, depth, &one) || __builtin_add_overflow(bytes, one, &bytes)) {
      return UINT64_MAX;
    }
    if (halved(shape->Width, level) * halved(shape->Height, level) * halved(shape->Depth, level) == 1) {
      break;  // further levels there are none
    }
  }
  return bytes;
}
