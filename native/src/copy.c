#define _GNU_SOURCE
#include "copy.h"

#include <stdbool.h>

#include "real.h"
#include "shapes.h"

// Apart from the kinds of fills, which are numbered from 0.
enum { LINEAR = 16, ROWS, BATCH };

// Where an end is: the CUDA ordinal of its device, or one of these.
enum { SOME_DEVICE = -1, NO_DEVICE = -2 };

static uint64_t key_of(uint64_t kind, uint64_t bytes, uint64_t rest)
{
  return jvgpu_shape_key(&jvgpu_real, kind, bytes, rest);
}

// --- where memory is ----------------------------------------------------------------------------------------------

// The plural question, which has an answer for any address: the singular one fails for memory that is not the driver's,
// and failures are written to the program's log if it keeps one (cuLogsRegisterCallback). No stream is asked, so it may
// be while a capture lives. Nothing is remembered: an address may be the host's today and a device's tomorrow.
// source: CUDA Driver API 13.0, cuPointerGetAttributes.
static int device_at(const jvgpu_process_t *self, CUdeviceptr address)
{
  enum { WITHOUT_ORDINAL = 2, WITH_ORDINAL };
  unsigned int type = 0;
  unsigned int is_managed = 0;
  int          ordinal = 0;
  int          attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                               CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void        *values[] = {&type, &is_managed, &ordinal};
  const bool   one_device = __atomic_load_n(&self->devices_known, __ATOMIC_ACQUIRE) != 0 && self->ordinals == 1;

  if (jvgpu_real.cuPointerGetAttributes == NULL ||
      jvgpu_real.cuPointerGetAttributes(one_device ? WITHOUT_ORDINAL : WITH_ORDINAL, attributes, values, address) !=
          CUDA_SUCCESS) {
    return NO_DEVICE;
  }
  // Managed memory is on the device when it is used there, wherever else it may be.
  if (is_managed != 0) {
    return SOME_DEVICE;
  }
  if (type != CU_MEMORYTYPE_DEVICE) {
    return NO_DEVICE;
  }
  return one_device ? SOME_DEVICE : ordinal;
}

static int device_of(const jvgpu_process_t *self, jvgpu_copy_end_t end)
{
  switch (end.type) {
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_ARRAY: return SOME_DEVICE;
    // One address space: the address of a device's memory will do for the host's, whatever the copy is called.
    case CU_MEMORYTYPE_HOST:
    case CU_MEMORYTYPE_UNIFIED: return device_at(self, end.address);
    default: return NO_DEVICE;
  }
}

static bool is_within(const jvgpu_process_t *self, jvgpu_copy_end_t to, jvgpu_copy_end_t from)
{
  const int target = device_of(self, to);
  const int source = target == NO_DEVICE ? NO_DEVICE : device_of(self, from);
  return source != NO_DEVICE && (source == target || source == SOME_DEVICE || target == SOME_DEVICE);
}

static jvgpu_copy_end_t at(CUdeviceptr address)
{
  return (jvgpu_copy_end_t){.type = CU_MEMORYTYPE_UNIFIED, .address = address};
}

// --- one copy -------------------------------------------------------------------------------------------------------

uint64_t jvgpu_copy_within(uint64_t bytes)
{
  return key_of(LINEAR, bytes, 1);
}

uint64_t jvgpu_copy_anywhere(const jvgpu_process_t *self, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
  return is_within(self, at(to), at(from)) ? jvgpu_copy_within(bytes) : 0;
}

uint64_t jvgpu_copy_rows(const jvgpu_process_t *self, jvgpu_copy_end_t to, jvgpu_copy_end_t from, uint64_t width_bytes,
                         uint64_t rows)
{
  if (!is_within(self, to, from)) {
    return 0;
  }
  const bool has_array = to.type == CU_MEMORYTYPE_ARRAY || from.type == CU_MEMORYTYPE_ARRAY;
  if (rows == 1 && !has_array) {
    return jvgpu_copy_within(width_bytes);
  }
  // Many short rows take longer than few long ones, and longer still where they lie apart.
  const uint64_t ends = jvgpu_shape_key(NULL, to.pitch, from.pitch, has_array);
  return key_of(ROWS, width_bytes, rows ^ ends);
}

// --- many at once ---------------------------------------------------------------------------------------------------

// What a batch has been found to hold.
typedef struct batch_s {
  bool     stays;        // any of it within a device
  uint64_t within_bytes;
  uint64_t other_bytes;
} batch_t;

static void add(batch_t *batch, bool stays, uint64_t bytes)
{
  batch->stays |= stays;
  *(stays ? &batch->within_bytes : &batch->other_bytes) += bytes;
}

static uint64_t key_of_batch(const batch_t *batch, size_t count)
{
  return batch->stays ? key_of(BATCH, batch->within_bytes, jvgpu_shape_key(NULL, count, batch->other_bytes, 0)) : 0;
}

uint64_t jvgpu_copy_batch(const jvgpu_process_t *self, const CUdeviceptr *to, const CUdeviceptr *from,
                          const size_t *bytes, size_t count)
{
  batch_t batch = {.stays = false};
  if (to == NULL || from == NULL || bytes == NULL) {
    return 0;
  }
  for (size_t i = 0; i < count; i++) {
    add(&batch, is_within(self, at(to[i]), at(from[i])), bytes[i]);
  }
  return key_of_batch(&batch, count);
}

static jvgpu_copy_end_t end_of(const CUmemcpy3DOperand *operand)
{
  switch (operand->type) {
    case CU_MEMCPY_OPERAND_TYPE_POINTER: return at(operand->op.ptr.ptr);
    case CU_MEMCPY_OPERAND_TYPE_ARRAY: return (jvgpu_copy_end_t){.type = CU_MEMORYTYPE_ARRAY};
    default: return (jvgpu_copy_end_t){.type = 0};
  }
}

uint64_t jvgpu_copy_blocks(const jvgpu_process_t *self, const CUDA_MEMCPY3D_BATCH_OP *blocks, size_t count)
{
  batch_t batch = {.stays = false};
  for (size_t i = 0; blocks != NULL && i < count; i++) {
    // In elements, where there is an array: as good to tell shapes apart by.
    const size_t *extent = blocks[i].extent;
    add(&batch, is_within(self, end_of(&blocks[i].dst), end_of(&blocks[i].src)), extent[0] * extent[1] * extent[2]);
  }
  return key_of_batch(&batch, count);
}
