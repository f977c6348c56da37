#define _GNU_SOURCE
#include "charge.h"

#include <stddef.h>

#include "account.h"
#include "attach.h"
#include "devices.h"
#include "pools.h"
#include "real.h"

_Static_assert(JVGPU_LEDGER_DEVICES == JVGPU_MAX_DEVICES, "a record's device is one of the claim's");

#define BLOCK_BYTES (UINT64_C(2) << 20)
#define CARVED_MOST_BYTES (UINT64_C(1) << 20)
#define CARVED_STEP_BYTES UINT64_C(512)

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
  // A size that wraps round is larger than any limit.
  return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) / step * step;
}

uint64_t jvgpu_charge_rounded(uint64_t bytes)
{
  return round_up(bytes, bytes > CARVED_MOST_BYTES ? BLOCK_BYTES : CARVED_STEP_BYTES);
}

uint64_t jvgpu_charge_in_blocks(uint64_t bytes)
{
  return round_up(bytes, BLOCK_BYTES);
}

static uint64_t current_context(void)
{
  CUcontext ctx = NULL;
  if (jvgpu_real.cuCtxGetCurrent == NULL || jvgpu_real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS) {
    return 0;
  }
  return (uint64_t)(uintptr_t)ctx;
}

jvgpu_charge_t jvgpu_charge_begin_on(jvgpu_process_t *self, int device, uint64_t bytes)
{
  jvgpu_charge_t charge = {.self = self, .bytes = bytes, .device = device};
  jvgpu_attach_renew(self);
  (void)jvgpu_charge_reserve(&charge);
  return charge;
}

// Reserve in the slot that this process has. Another thread may move the process to new pages meanwhile
// (attach.c); what stands in the old slot by then is withdrawn.
static bool reserve(jvgpu_charge_t *charge)
{
  jvgpu_process_t *self = charge->self;
  for (;;) {
    charge->slot = __atomic_load_n(&self->slot, __ATOMIC_SEQ_CST);
    const bool fits =
        jvgpu_account_reserve(self->control, self->usage, charge->slot, (uint32_t)charge->device, charge->bytes);
    if (__atomic_load_n(&self->slot, __ATOMIC_SEQ_CST) == charge->slot) {
      return fits;
    }
    if (fits) {
      jvgpu_account_cancel(charge->slot, (uint32_t)charge->device, charge->bytes);
    }
  }
}

bool jvgpu_charge_reserve(jvgpu_charge_t *charge)
{
  charge->slot = __atomic_load_n(&charge->self->slot, __ATOMIC_ACQUIRE);
  // A device of the machine that is not in the claim has no room at all.
  charge->refused =
      charge->device == JVGPU_NO_DEVICE ||
      (!reserve(charge) && !(jvgpu_pools_trim(charge->self, (uint32_t)charge->device) && reserve(charge)));
  return !charge->refused;
}

jvgpu_charge_t jvgpu_charge_begin(uint64_t bytes)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (self == NULL || bytes == 0) {
    return (jvgpu_charge_t){.self = NULL};
  }
  const int device = jvgpu_current_device(self);
  CUcontext ctx = NULL;
  if (device == JVGPU_NO_DEVICE && (jvgpu_real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS || ctx == NULL)) {
    // No context: the driver has its own answer for that.
    return (jvgpu_charge_t){.self = NULL};
  }
  return jvgpu_charge_begin_on(self, device, bytes);
}

CUresult jvgpu_charge_settle(const jvgpu_charge_t *charge, CUresult result, uint64_t key, uint64_t taken_bytes)
{
  if (charge->self == NULL) {
    return result;
  }
  if (result != CUDA_SUCCESS) {
    jvgpu_account_cancel(charge->slot, (uint32_t)charge->device, charge->bytes);
    return result;
  }
  const jvgpu_record_t record = {.key = key,
                                 .bytes = taken_bytes,
                                 .owner = current_context(),
                                 .device = (uint32_t)charge->device,
                                 .count = charge->kind};
  jvgpu_account_commit(charge->slot, (uint32_t)charge->device, charge->bytes, taken_bytes);
  jvgpu_account_count(charge->slot, (uint32_t)charge->device, 1);
  // Without host memory for the record the charge stays until the process ends: less, never more.
  (void)jvgpu_ledger_put(&charge->self->pointers, &record);
  return result;
}

bool jvgpu_charge_free_begin(uint64_t key, jvgpu_record_t *record)
{
  jvgpu_process_t *self = jvgpu_tenant();
  return self != NULL && key != 0 && jvgpu_ledger_take(&self->pointers, key, record);
}

CUresult jvgpu_charge_free_settle(const jvgpu_record_t *record, CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (self == NULL) {
    return result;
  }
  if (result == CUDA_SUCCESS) {
    jvgpu_slot_t *slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE);
    jvgpu_account_free(slot, record->device, record->bytes);
    jvgpu_account_count(slot, record->device, -1);
  } else {
    (void)jvgpu_ledger_put(&self->pointers, record);
  }
  return result;
}

void jvgpu_charge_give_back(jvgpu_process_t *self, const jvgpu_freed_t *freed)
{
  jvgpu_slot_t *slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE);
  for (uint32_t device = 0; device < JVGPU_MAX_DEVICES; device++) {
    if (freed->count[device] != 0) {
      jvgpu_account_free(slot, device, freed->bytes[device]);
      jvgpu_account_count(slot, device, -(int64_t)freed->count[device]);
    }
  }
}

int64_t jvgpu_charge_left(jvgpu_process_t *self, int device)
{
  jvgpu_attach_renew(self);
  const uint64_t limit = __atomic_load_n(&self->control->devices[device].memory_limit_bytes, __ATOMIC_RELAXED);
  return (int64_t)(limit - jvgpu_account_used(self->control, self->usage, (uint32_t)device));
}
