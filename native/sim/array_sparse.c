// Arrays whose memory is mapped later: sparse ones, and those made with CUDA_ARRAY3D_DEFERRED_MAPPING.
//
// What is mapped into one is held there until it is unmapped or the array goes. Nothing can be copied through it.

#include <stdlib.h>
#include <string.h>

#include "vmm.h"

enum { SPARSE = 0x40, DEFERRED = 0x80 };

typedef struct sim_tile_s {
  const void        *resource;
  char               place[sizeof(((CUarrayMapInfo *)0)->subresource)];
  sim_physical_t    *physical;
  struct sim_tile_s *next;
} sim_tile_t;

static sim_tile_t *tiles;

static CUresult needs(bool is_known, size_t bytes, unsigned int flags, CUDA_ARRAY_MEMORY_REQUIREMENTS *out)
{
  if (!is_known) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (out == NULL || (flags & DEFERRED) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = (bytes + SIM_CHUNK_BYTES - 1) / SIM_CHUNK_BYTES * SIM_CHUNK_BYTES,
                                          .alignment = SIM_CHUNK_BYTES};
  return CUDA_SUCCESS;
}

SIM_API CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array, CUdevice device)
{
  size_t       bytes = 0;
  unsigned int flags = 0;
  (void)device;
  const bool is_known = sim_array_needs(array, &bytes, &flags);
  return needs(is_known, bytes, flags, out);
}

SIM_API CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray mipmap,
                                                       CUdevice device)
{
  size_t       bytes = 0;
  unsigned int flags = 0;
  (void)device;
  const bool is_known = sim_mipmap_needs(mipmap, &bytes, &flags);
  return needs(is_known, bytes, flags, out);
}

// Every tile is 512 elements wide and 256 high; small levels have no tail of their own.
static CUresult properties(bool is_known, unsigned int flags, CUDA_ARRAY_SPARSE_PROPERTIES *out)
{
  if (!is_known) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (out == NULL || (flags & SPARSE) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  memset(out, 0, sizeof *out);
  out->tileExtent.width = 512;
  out->tileExtent.height = 256;
  out->tileExtent.depth = 1;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out, CUarray array)
{
  size_t       bytes = 0;
  unsigned int flags = 0;
  const bool   is_known = sim_array_needs(array, &bytes, &flags);
  return properties(is_known, flags, out);
}

SIM_API CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out, CUmipmappedArray mipmap)
{
  size_t       bytes = 0;
  unsigned int flags = 0;
  const bool   is_known = sim_mipmap_needs(mipmap, &bytes, &flags);
  return properties(is_known, flags, out);
}

// ---- mapping; pre of all: sim_lock held

static void drop(sim_tile_t **place)
{
  sim_tile_t *tile = *place;
  *place = tile->next;
  tile->physical->mappings--;
  sim_physical_drop(tile->physical);
  free(tile);
}

static void unmap(const CUarrayMapInfo *info)
{
  for (sim_tile_t **place = &tiles; *place != NULL;) {
    if ((*place)->resource == info->resource.array &&
        memcmp((*place)->place, &info->subresource, sizeof(*place)->place) == 0) {
      drop(place);
    } else {
      place = &(*place)->next;
    }
  }
}

static CUresult map(const CUarrayMapInfo *info)
{
  sim_physical_t *physical = sim_physical_find(info->memHandle.memHandle);
  sim_tile_t     *tile = physical == NULL || physical->handles == 0 ? NULL : calloc(1, sizeof *tile);
  if (tile == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  tile->resource = info->resource.array;
  tile->physical = physical;
  memcpy(tile->place, &info->subresource, sizeof tile->place);
  physical->mappings++;
  unmap(info);
  tile->next = tiles;
  tiles = tile;
  return CUDA_SUCCESS;
}

static CUresult apply(const CUarrayMapInfo *info)
{
  size_t       bytes;
  unsigned int flags;
  const bool   is_known = info->resourceType == CU_RESOURCE_TYPE_ARRAY
                              ? sim_array_needs(info->resource.array, &bytes, &flags)
                              : sim_mipmap_needs(info->resource.mipmap, &bytes, &flags);
  if (!is_known || (flags & (SPARSE | DEFERRED)) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (info->memOperationType == CU_MEM_OPERATION_TYPE_MAP) {
    return map(info);
  }
  unmap(info);
  return CUDA_SUCCESS;
}

static CUresult apply_all(const CUarrayMapInfo *infos, unsigned int count, CUstream handle, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || infos == NULL || count == 0) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
    result = apply(&infos[i]);
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_TWINS(cuMemMapArrayAsync, ptsz, (CUarrayMapInfo * infos, unsigned int count, CUstream stream),
          apply_all(infos, count, stream, face))

void sim_sparse_drop(const void *resource)
{
  pthread_mutex_lock(&sim_lock);
  for (sim_tile_t **place = &tiles; *place != NULL;) {
    if ((*place)->resource == resource) {
      drop(place);
    } else {
      place = &(*place)->next;
    }
  }
  pthread_mutex_unlock(&sim_lock);
}
