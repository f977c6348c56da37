// Pool reserved: what the driver has reserved for each pool, asked for and charged.
//
// A look at a pool costs 30 ns (measured, H200), so every allocation looks; nothing is kept per pointer. The looks at all
// pools (pools.h) are here too.

#ifndef JVGPU_POOL_RESERVED_H
#define JVGPU_POOL_RESERVED_H

#include <stdbool.h>
#include <stdint.h>

#include "process.h"

// returns: whether the driver says how much of the pool is in use.
bool jvgpu_pool_in_use(CUmemoryPool pool, uint64_t *bytes);

// Bring a pool's charge to `now_bytes`. pre: pool_lock is held.
// returns: bytes given back.
uint64_t jvgpu_pool_recharge(jvgpu_process_t *self, jvgpu_pool_t *known, uint64_t now_bytes);

// Charge what the pool has after an allocation for which `bytes` were set aside.
void jvgpu_pool_charge_growth(jvgpu_process_t *self, jvgpu_pool_t *known, CUmemoryPool pool, uint64_t bytes);

#endif
