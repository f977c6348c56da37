// Charge: what every allocating hook does round its driver call.
//
//   begin (reserve) -> the driver -> settle (commit or cancel)

#ifndef JVGPU_CHARGE_H
#define JVGPU_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "process.h"

// What a hook carries across its driver call. A charge without a process is a step aside: not a
// tenant, or a size of zero, which the driver answers for itself.
typedef struct jvgpu_charge_s {
  jvgpu_process_t *self;
  jvgpu_slot_t    *slot;
  uint64_t         bytes;
  int              device;
  bool             refused;
} jvgpu_charge_t;

// What the driver takes for a plain allocation of `bytes`: whole 2 MiB blocks above 1 MiB; smaller
// ones are carved from shared blocks in steps of 512 bytes.
// source: measured, H200, driver 580.159.04 (docs/measurements.md).
uint64_t jvgpu_charge_rounded(uint64_t bytes);

// Reserve on the current context's device. refused: the tenant has no room; the hook answers
// CUDA_ERROR_OUT_OF_MEMORY.
jvgpu_charge_t jvgpu_charge_begin(uint64_t bytes);
// The same on a device of the claim.
jvgpu_charge_t jvgpu_charge_begin_on(jvgpu_process_t *self, int device, uint64_t bytes);

// The same where the caller has looked at the agent's heartbeat, or need not.
jvgpu_charge_t jvgpu_charge_begin_current(jvgpu_process_t *self, int device, uint64_t bytes);

// Settle a plain allocation at `dptr`, of which `taken_bytes` are charged.
CUresult jvgpu_charge_settle(const jvgpu_charge_t *charge, CUresult result, CUdeviceptr dptr, uint64_t taken_bytes);

// A free is recorded before it happens: the driver may hand the address to another thread at once.
// returns: whether the pointer is ours; then it must be settled with the driver's answer.
bool jvgpu_charge_free_begin(CUdeviceptr dptr, jvgpu_record_t *record);
CUresult jvgpu_charge_free_settle(const jvgpu_record_t *record, CUresult result);

// Give back what the driver freed by itself, by device index.
void jvgpu_charge_give_back(jvgpu_process_t *self, const uint64_t freed[JVGPU_MAX_DEVICES]);

#endif
