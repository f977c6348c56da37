// Account: the tenant's memory, summed over its processes in the usage page.
//
// There is no total that a kill could leave wrong: a process reserves in its own slot, then sums the
// tenant's slots, and withdraws if the sum passes the limit. A dead process's slot is cleared by the agent.

#ifndef JVGPU_ACCOUNT_H
#define JVGPU_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "jvgpu/pages.h"

// Set `bytes` of `device` aside in `slot`, if the tenant stays within its limit.
// pre: device < control->device_count
// threads: any, any process of the tenant: two never both fit into the last free megabyte.
bool jvgpu_account_reserve(const jvgpu_control_t *control, jvgpu_usage_t *usage, jvgpu_slot_t *slot, uint32_t device,
                           uint64_t bytes);

// The driver took `taken_bytes` of the `reserved_bytes` set aside.
void jvgpu_account_commit(jvgpu_slot_t *slot, uint32_t device, uint64_t reserved_bytes, uint64_t taken_bytes);
// The driver took nothing.
void jvgpu_account_cancel(jvgpu_slot_t *slot, uint32_t device, uint64_t reserved_bytes);
// The driver has it back.
void jvgpu_account_free(jvgpu_slot_t *slot, uint32_t device, uint64_t bytes);

// `made` allocations came or, below zero, went.
void jvgpu_account_count(jvgpu_slot_t *slot, uint32_t device, int64_t made);

// returns: what the tenant uses on `device`, overhead included, reservations included.
uint64_t jvgpu_account_used(const jvgpu_control_t *control, const jvgpu_usage_t *usage, uint32_t device);

#endif
