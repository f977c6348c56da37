// Arrays and mipmapped arrays: charged with what the driver says that their shape takes. Sparse ones take nothing
// themselves: what is mapped into them was charged when it was created, and stays charged while it is mapped there.

#define _GNU_SOURCE
#include <stddef.h>

#include "array_size.h"
#include "charge.h"
#include "hooks.h"

static bool has_no_memory(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
  return (shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
}

// --- what a shape takes -----------------------------------------------------------------------------------------

// The driver tells the size of arrays whose memory is mapped later only, so one of those is made and asked; it
// takes no memory.
// source: CUDA Driver API 13.0, cuArrayGetMemoryRequirements.
static uint64_t asked_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
  CUDA_ARRAY3D_DESCRIPTOR        deferred = *shape;
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {.size = 0};
  CUdevice                       dev = 0;
  CUarray                        array;
  CUmipmappedArray               mipmap;

  deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
  if (jvgpu_real.cuCtxGetDevice(&dev) != CUDA_SUCCESS) {
    return 0;
  }
  if (levels == 0 && jvgpu_real.cuArrayGetMemoryRequirements != NULL && jvgpu_real.cuArray3DCreate_v2 != NULL &&
      jvgpu_real.cuArray3DCreate_v2(&array, &deferred) == CUDA_SUCCESS) {
    (void)jvgpu_real.cuArrayGetMemoryRequirements(&needs, array, dev);
    (void)jvgpu_real.cuArrayDestroy(array);
  }
  if (levels != 0 && jvgpu_real.cuMipmappedArrayGetMemoryRequirements != NULL &&
      jvgpu_real.cuMipmappedArrayCreate(&mipmap, &deferred, levels) == CUDA_SUCCESS) {
    (void)jvgpu_real.cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, dev);
    (void)jvgpu_real.cuMipmappedArrayDestroy(mipmap);
  }
  return needs.size;
}

// `levels` 0: a plain array.
static jvgpu_charge_t begin(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
  jvgpu_process_t *self = jvgpu_tenant();
  // A shape that no device takes is the driver's to refuse.
  if (self == NULL || shape == NULL || shape->Width == 0 || has_no_memory(shape) || jvgpu_real.cuCtxGetDevice == NULL) {
    return (jvgpu_charge_t){.self = NULL};
  }
  const uint64_t most = jvgpu_array_bytes(shape, levels == 0 ? 1 : levels);
  const uint64_t asked = asked_bytes(shape, levels);
  jvgpu_charge_t charge = jvgpu_charge_begin(jvgpu_charge_rounded(asked == 0 ? most : asked));
  charge.kind = JVGPU_IS_HANDLE;
  return charge;
}

static CUresult settle(const jvgpu_charge_t *charge, CUresult result, void *const *handle)
{
  const uint64_t key = result == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*handle : 0;
  return jvgpu_charge_settle(charge, result, key, charge->bytes);
}

// --- arrays ---------------------------------------------------------------------------------------------------------

#define CREATES(name, shape_t, full, call)                   \
  CUresult name(CUarray *array, const shape_t *shape)        \
  {                                                          \
    if (!JVGPU_HAS_CU(name)) {                               \
      return JVGPU_NO_SUCH_CU;                               \
    }                                                        \
    const jvgpu_charge_t charge = begin(full, 0);            \
    if (charge.refused) {                                    \
      return CUDA_ERROR_OUT_OF_MEMORY;                       \
    }                                                        \
    return settle(&charge, jvgpu_real.call, (void **)array); \
  }

#define WITHOUT_DEPTH                                                        \
  (shape == NULL ? NULL                                                      \
                 : &(const CUDA_ARRAY3D_DESCRIPTOR){.Width = shape->Width,   \
                                                    .Height = shape->Height, \
                                                    .Format = shape->Format, \
                                                    .NumChannels = shape->NumChannels})
#define OF_32_BITS                                                                     \
  (shape == NULL ? NULL                                                                \
                 : &(const CUDA_ARRAY3D_DESCRIPTOR){.Width = shape->Width,             \
                                                    .Height = shape->Height,           \
                                                    .Depth = shape->Depth,             \
                                                    .Format = shape->Format,           \
                                                    .NumChannels = shape->NumChannels, \
                                                    .Flags = shape->Flags})

CREATES(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, WITHOUT_DEPTH, cuArrayCreate(array, shape))
CREATES(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, WITHOUT_DEPTH, cuArrayCreate_v2(array, shape))
CREATES(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, OF_32_BITS, cuArray3DCreate(array, shape))
CREATES(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, shape, cuArray3DCreate_v2(array, shape))

CUresult cuMipmappedArrayCreate(CUmipmappedArray *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
  if (!JVGPU_HAS_CU(cuMipmappedArrayCreate)) {
    return JVGPU_NO_SUCH_CU;
  }
  const jvgpu_charge_t charge = levels == 0 ? (jvgpu_charge_t){.self = NULL} : begin(shape, levels);
  if (charge.refused) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return settle(&charge, jvgpu_real.cuMipmappedArrayCreate(mipmap, shape, levels), (void **)mipmap);
}

// A sparse array has no record of its own, but may hold what was mapped into it.
static void let_go(void *handle)
{
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_freed_t    freed = {0};
  if (self != NULL) {
    jvgpu_vmm_holder_gone(&self->vmm, (uint64_t)(uintptr_t)handle, &freed);
    jvgpu_charge_give_back(self, &freed);
  }
}

static CUresult destroyed(void *handle, bool is_ours, const jvgpu_record_t *record, CUresult result)
{
  if (result == CUDA_SUCCESS) {
    let_go(handle);
  }
  return is_ours ? jvgpu_charge_free_settle(record, result) : result;
}

#define DESTROYS(name, handle_t)                                                        \
  CUresult name(handle_t handle)                                                        \
  {                                                                                     \
    jvgpu_record_t record;                                                              \
    if (!JVGPU_HAS_CU(name)) {                                                          \
      return JVGPU_NO_SUCH_CU;                                                          \
    }                                                                                   \
    const bool is_ours = jvgpu_charge_free_begin((uint64_t)(uintptr_t)handle, &record); \
    return destroyed(handle, is_ours, &record, jvgpu_real.name(handle));                \
  }

DESTROYS(cuArrayDestroy, CUarray)
DESTROYS(cuMipmappedArrayDestroy, CUmipmappedArray)

// --- sparse arrays --------------------------------------------------------------------------------------------------

// One number for a place in an array. A later mapping of the same place takes over; what is unmapped together with
// other places than it was mapped with stays charged until the array goes.
static uint64_t place_of(const CUarrayMapInfo *info)
{
  if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    return jvgpu_scatter(info->subresource.miptail.offset) ^ ((uint64_t)info->subresource.miptail.layer << 1 | 1);
  }
  const struct jvgpu_sparse_level_s *level = &info->subresource.sparseLevel;
  const uint64_t                     column = (uint64_t)level->offsetX << 32 | level->offsetY;
  const uint64_t                     sheet = (uint64_t)level->offsetZ << 32 | level->level << 24 | level->layer;
  return jvgpu_scatter(jvgpu_scatter(column) ^ sheet) << 1;
}

static CUresult mapped(const CUarrayMapInfo *infos, unsigned int count, CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  jvgpu_freed_t    freed = {0};
  if (result != CUDA_SUCCESS || self == NULL || infos == NULL) {
    return result;
  }
  for (unsigned int i = 0; i < count; i++) {
    const uint64_t holder = (uint64_t)(uintptr_t)infos[i].resource;
    if (infos[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP) {
      jvgpu_vmm_hold(&self->vmm, holder, place_of(&infos[i]), infos[i].memHandle, &freed);
    } else {
      jvgpu_vmm_let_go(&self->vmm, holder, place_of(&infos[i]), &freed);
    }
  }
  jvgpu_charge_give_back(self, &freed);
  return result;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
  return JVGPU_HAS_CU(cuMemMapArrayAsync) ? mapped(infos, count, jvgpu_real.cuMemMapArrayAsync(infos, count, stream))
                                          : JVGPU_NO_SUCH_CU;
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
  return JVGPU_HAS_CU(cuMemMapArrayAsync_ptsz)
             ? mapped(infos, count, jvgpu_real.cuMemMapArrayAsync_ptsz(infos, count, stream))
             : JVGPU_NO_SUCH_CU;
}
