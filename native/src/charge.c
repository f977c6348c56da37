#define _GNU_SOURCE
#include "charge.h"

#include <stddef.h>

#include "account.h"
#include "attach.h"
#include "devices.h"
#include "pools.h"
#include "real.h"

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
  jvgpu_attach_renew(self);
  return jvgpu_charge_begin_current(self, device, bytes);
}

jvgpu_charge_t jvgpu_charge_begin_current(jvgpu_process_t *self, int device, uint64_t bytes)
{
  jvgpu_charge_t charge = {.self = self, .bytes = bytes, .device = device};

  charge.slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE);
  if (device == JVGPU_NO_DEVICE) {
    // A device of the machine that is not in the claim: no room there at all.
    charge.refused = true;
    return charge;
  }
  charge.refused = !jvgpu_account_reserve(self->control, self->usage, charge.slot, (uint32_t)device, bytes);
  if (charge.refused && jvgpu_pools_trim(self, (uint32_t)device)) {
    charge.refused = !jvgpu_account_reserve(self->control, self->usage, charge.slot, (uint32_t)device, bytes);
  }
  return charge;
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

CUresult jvgpu_charge_settle(const jvgpu_charge_t *charge, CUresult result, CUdeviceptr dptr, uint64_t taken_bytes)
{
  if (charge->self == NULL) {
    return result;
  }
  if (result != CUDA_SUCCESS) {
    jvgpu_account_cancel(charge->slot, (uint32_t)charge->device, charge->bytes);
    return result;
  }
  const jvgpu_record_t record = {
      .key = dptr, .bytes = taken_bytes, .owner = current_context(), .device = (uint32_t)charge->device};
  jvgpu_account_commit(charge->slot, (uint32_t)charge->device, charge->bytes, taken_bytes);
  // Without host memory for the record the charge stays until the process ends: less, never more.
  (void)jvgpu_ledger_put(&charge->self->pointers, &record);
  return result;
}

bool jvgpu_charge_free_begin(CUdeviceptr dptr, jvgpu_record_t *record)
{
  jvgpu_process_t *self = jvgpu_tenant();
  return self != NULL && dptr != 0 && jvgpu_ledger_take(&self->pointers, dptr, record);
}

CUresult jvgpu_charge_free_settle(const jvgpu_record_t *record, CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (self == NULL) {
    return result;
  }
  if (result == CUDA_SUCCESS) {
    jvgpu_account_free(__atomic_load_n(&self->slot, __ATOMIC_ACQUIRE), record->device, record->bytes);
  } else {
    (void)jvgpu_ledger_put(&self->pointers, record);
  }
  return result;
}

void jvgpu_charge_give_back(jvgpu_process_t *self, const uint64_t freed[JVGPU_MAX_DEVICES])
{
  jvgpu_slot_t *slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE);
  for (uint32_t device = 0; device < JVGPU_MAX_DEVICES; device++) {
    if (freed[device] != 0) {
      jvgpu_account_free(slot, device, freed[device]);
    }
  }
}
