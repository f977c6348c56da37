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
  uint32_t         kind;  // JVGPU_IS_*
} jvgpu_charge_t;

// What the driver takes for a plain allocation of `bytes`: whole 2 MiB blocks above 1 MiB; smaller
// ones are carved from shared blocks in steps of 512 bytes.
// source: measured, H200, driver 580.159.04 (docs/measurements.md).
uint64_t jvgpu_charge_rounded(uint64_t bytes);

// returns: `bytes` in whole blocks of 2 MiB; UINT64_MAX for a size that wraps round.
uint64_t jvgpu_charge_in_blocks(uint64_t bytes);

// Reserve on the current context's device. refused: the tenant has no room; the hook answers
// CUDA_ERROR_OUT_OF_MEMORY.
jvgpu_charge_t jvgpu_charge_begin(uint64_t bytes);
// The same on a device of the claim.
jvgpu_charge_t jvgpu_charge_begin_on(jvgpu_process_t *self, int device, uint64_t bytes);

// The same in place, where the caller has looked at the agent's heartbeat, or need not.
// pre: self, device and bytes are set. returns: false = refused.
bool jvgpu_charge_reserve(jvgpu_charge_t *charge);

// Settle an allocation of the current context's, known by `key` (its pointer or handle), of which `taken_bytes`
// are charged.
CUresult jvgpu_charge_settle(const jvgpu_charge_t *charge, CUresult result, uint64_t key, uint64_t taken_bytes);

// A free is recorded before it happens: the driver may hand the address to another thread at once.
// returns: whether the pointer is ours; then it must be settled with the driver's answer.
bool jvgpu_charge_free_begin(uint64_t key, jvgpu_record_t *record);
CUresult jvgpu_charge_free_settle(const jvgpu_record_t *record, CUresult result);

// Give back what the driver freed by itself.
void jvgpu_charge_give_back(jvgpu_process_t *self, const jvgpu_freed_t *freed);

// What no call charges (contexts, module code) is known half a second later, so it cannot be reserved; but
// whoever has nothing left gets nothing more of it.
// returns: bytes of its limit that the tenant has left on a device of the claim, less than 0 = passed by so much.
int64_t jvgpu_charge_left(jvgpu_process_t *self, int device);

#endif
