// Arrays and mipmapped arrays: device memory with a shape. Texture units do not exist here, so only copies see it.

#include <stdlib.h>

#include "driver.h"
#include "graph.h"

#define ARRAY_MAGIC 0x41525259u
enum { PITCH_ALIGNMENT = 512, LAYERED = 1, CUBEMAP = 4, SPARSE = 0x40, DEFERRED = 0x80, ALL_FLAGS = 0x1ff };

struct CUarray_st {
  uint32_t                magic;
  CUDA_ARRAY3D_DESCRIPTOR shape;
  CUcontext               context;
  CUdeviceptr             start;
  size_t                  pitch;
  size_t                  bytes;
  bool                    is_level;  // of a mipmapped array, which owns the memory
};

struct CUmipmappedArray_st {
  uint32_t     magic;
  CUcontext    context;
  CUdeviceptr  start;
  size_t       bytes;
  unsigned int count;
  CUarray      levels[];
};

// source: CUDA Driver API 13.0, CUarray_format
static size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
  size_t bytes = 0;
  switch ((int)shape->Format) {
    case 0x01:
    case 0x08: bytes = 1; break;
    case 0x02:
    case 0x09:
    case 0x10: bytes = 2; break;
    case 0x03:
    case 0x0a:
    case 0x20: bytes = 4; break;
    default: return 0;
  }
  const unsigned int channels = shape->NumChannels;
  return channels == 1 || channels == 2 || channels == 4 ? bytes * channels : 0;
}

static size_t lines(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
  return (shape->Height == 0 ? 1 : shape->Height) * (shape->Depth == 0 ? 1 : shape->Depth);
}

// returns: false when the shape is none a device takes
static bool lay_out(CUarray array)
{
  enum { WIDEST = 131072, DEEPEST = 16384 };
  const CUDA_ARRAY3D_DESCRIPTOR *shape = &array->shape;
  const size_t                   element = element_bytes(shape);
  if (element == 0 || shape->Width == 0 || shape->Width > WIDEST || shape->Height > WIDEST || shape->Depth > DEEPEST ||
      (shape->Flags & ~(unsigned int)ALL_FLAGS) != 0 ||
      (shape->Depth != 0 && shape->Height == 0 && (shape->Flags & LAYERED) == 0)) {
    return false;
  }
  array->pitch = (shape->Width * element + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT;
  array->bytes = array->pitch * lines(shape);
  return true;
}

static CUresult may_allocate(CUcontext *context)
{
  const CUresult result = sim_current(context);
  return result != CUDA_SUCCESS ? result : sim_capture_check_unsafe();
}

static CUdeviceptr take(CUcontext context, size_t bytes)
{
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_heap_take(context->device, bytes, SIM_RANGE_ARRAY, context);
  pthread_mutex_unlock(&sim_lock);
  return range == NULL ? 0 : range->start;
}

static void give(CUdeviceptr start)
{
  pthread_mutex_lock(&sim_lock);
  sim_range_t *range = sim_range_find_kind(start, SIM_RANGE_ARRAY);
  if (range != NULL) {
    sim_heap_give(range);
  }
  pthread_mutex_unlock(&sim_lock);
}

// Sparse arrays, and those whose memory is mapped later: it comes from cuMemCreate (array_sparse.c).
static bool is_mapped_later(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
  return (shape->Flags & (SPARSE | DEFERRED)) != 0;
}

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
  CUcontext      context;
  const CUresult result = may_allocate(&context);
  if (result != CUDA_SUCCESS || out == NULL || shape == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  CUarray array = calloc(1, sizeof *array);
  if (array == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  array->magic = ARRAY_MAGIC;
  array->shape = *shape;
  array->context = context;
  const bool is_possible = lay_out(array);
  if (!is_possible || (!is_mapped_later(shape) && (array->start = take(context, array->bytes)) == 0)) {
    free(array);
    return is_possible ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  }
  *out = array;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
  return create(array, shape);
}

SIM_API CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape)
{
  if (shape == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_ARRAY3D_DESCRIPTOR full = {
      .Width = shape->Width, .Height = shape->Height, .Format = shape->Format, .NumChannels = shape->NumChannels};
  return create(array, &full);
}

// Of CUDA 2, with sizes of 32 bits.
SIM_API CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape)
{
  if (shape == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_ARRAY3D_DESCRIPTOR full = {.Width = shape->Width,
                                        .Height = shape->Height,
                                        .Depth = shape->Depth,
                                        .Format = shape->Format,
                                        .NumChannels = shape->NumChannels,
                                        .Flags = shape->Flags};
  return create(array, &full);
}

SIM_API CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *shape)
{
  if (shape == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_ARRAY3D_DESCRIPTOR full = {
      .Width = shape->Width, .Height = shape->Height, .Format = shape->Format, .NumChannels = shape->NumChannels};
  return create(array, &full);
}

static CUresult check(CUarray array)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (array == NULL || array->magic != ARRAY_MAGIC) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return sim_context_is_alive(array->context) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

SIM_API CUresult cuArrayDestroy(CUarray array)
{
  const CUresult result = check(array);
  if (result != CUDA_SUCCESS || array->is_level) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
  }
  array->magic = SIM_DEAD_MAGIC;
  give(array->start);
  sim_sparse_drop(array);
  free(array);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray array)
{
  const CUresult result = check(array);
  if (result != CUDA_SUCCESS || shape == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  *shape = array->shape;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *shape, CUarray array)
{
  const CUresult result = check(array);
  if (result != CUDA_SUCCESS || shape == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  *shape = (CUDA_ARRAY_DESCRIPTOR){.Width = array->shape.Width,
                                   .Height = array->shape.Height,
                                   .Format = array->shape.Format,
                                   .NumChannels = array->shape.NumChannels};
  return CUDA_SUCCESS;
}

bool sim_array_memory(CUarray array, CUdeviceptr *start, size_t *pitch, size_t *height)
{
  if (check(array) != CUDA_SUCCESS || array->start == 0) {
    return false;
  }
  *start = array->start;
  *pitch = array->pitch;
  *height = array->shape.Height == 0 ? 1 : array->shape.Height;
  return true;
}

// ---- mipmapped arrays: all levels in one piece of memory

static size_t halved(size_t extent, unsigned int level)
{
  return extent == 0 ? 0 : extent >> level == 0 ? 1 : extent >> level;
}

static bool make_levels(CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape, size_t *bytes)
{
  *bytes = 0;
  for (unsigned int i = 0; i < mipmap->count; i++) {
    CUarray level = calloc(1, sizeof *level);
    mipmap->levels[i] = level;
    if (level == NULL) {
      return false;
    }
    level->magic = ARRAY_MAGIC;
    level->context = mipmap->context;
    level->is_level = true;
    level->shape = *shape;
    level->shape.Width = halved(shape->Width, i);
    level->shape.Height = halved(shape->Height, i);
    level->shape.Depth = (shape->Flags & (LAYERED | CUBEMAP)) != 0 ? shape->Depth : halved(shape->Depth, i);
    if (!lay_out(level)) {
      return false;
    }
    level->start = *bytes;  // an offset still
    *bytes += level->bytes;
  }
  return true;
}

static void free_mipmap(CUmipmappedArray mipmap)
{
  for (unsigned int i = 0; i < mipmap->count; i++) {
    free(mipmap->levels[i]);
  }
  mipmap->magic = SIM_DEAD_MAGIC;
  free(mipmap);
}

SIM_API CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int count)
{
  enum { MOST_LEVELS = 18 };
  CUcontext      context;
  size_t         bytes;
  const CUresult result = may_allocate(&context);
  if (result != CUDA_SUCCESS || out == NULL || shape == NULL || count == 0) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  // More levels than there are halvings are taken for as many as there are.
  unsigned int most = 1;
  while (most < MOST_LEVELS && (shape->Width >> most) + (shape->Height >> most) + (shape->Depth >> most) > 0) {
    most++;
  }
  count = count > most ? most : count;
  CUmipmappedArray mipmap = calloc(1, sizeof *mipmap + count * sizeof mipmap->levels[0]);
  if (mipmap == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  mipmap->magic = ARRAY_MAGIC;
  mipmap->context = context;
  mipmap->count = count;
  const bool is_possible = make_levels(mipmap, shape, &bytes);
  mipmap->bytes = bytes;
  if (!is_possible || (!is_mapped_later(shape) && (mipmap->start = take(context, bytes)) == 0)) {
    free_mipmap(mipmap);
    return is_possible ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned int i = 0; i < count; i++) {
    mipmap->levels[i]->start = mipmap->start == 0 ? 0 : mipmap->levels[i]->start + mipmap->start;
  }
  *out = mipmap;
  return CUDA_SUCCESS;
}

static CUresult check_mipmap(CUmipmappedArray mipmap)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (mipmap == NULL || mipmap->magic != ARRAY_MAGIC) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return sim_context_is_alive(mipmap->context) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

SIM_API CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray mipmap, unsigned int number)
{
  const CUresult result = check_mipmap(mipmap);
  if (result != CUDA_SUCCESS || level == NULL || number >= mipmap->count) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  *level = mipmap->levels[number];
  return CUDA_SUCCESS;
}

SIM_API CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
  const CUresult result = check_mipmap(mipmap);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  give(mipmap->start);
  sim_sparse_drop(mipmap);
  free_mipmap(mipmap);
  return CUDA_SUCCESS;
}

// ---- what a shape needs, for those whose memory is mapped later

bool sim_array_needs(CUarray array, size_t *bytes, unsigned int *flags)
{
  if (check(array) != CUDA_SUCCESS) {
    return false;
  }
  *bytes = array->bytes;
  *flags = array->shape.Flags;
  return true;
}

bool sim_mipmap_needs(CUmipmappedArray mipmap, size_t *bytes, unsigned int *flags)
{
  if (check_mipmap(mipmap) != CUDA_SUCCESS) {
    return false;
  }
  *bytes = mipmap->bytes;
  *flags = mipmap->levels[0]->shape.Flags;
  return true;
}
