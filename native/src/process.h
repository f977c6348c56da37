// Process: what this process knows about its slice, in one mapping that the kernel wipes on fork.
//
// A forked child finds zeros: not attached, no lock held, nothing recorded, no capture alive. It
// attaches anew on its first call, into a slot of its own, and never writes its parent's.
// source: madvise(2), MADV_WIPEONFORK, Linux 4.14.

#ifndef JVGPU_PROCESS_H
#define JVGPU_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "jvgpu/pages.h"
#include "ledger.h"
#include "meter.h"
#include "moving.h"
#include "pacer.h"
#include "vmm.h"

#define JVGPU_MOST_ORDINALS 64
#define JVGPU_MOST_POOLS 128
// As long as an address of a Unix socket can be.
#define JVGPU_PATH_BYTES 108

// Stands for a device where memory is the host's, which no slice limits.
#define JVGPU_ON_HOST 0x7fffffff

enum {
  JVGPU_FRESH = 0,     // has not asked yet
  JVGPU_ATTACHED = 1,  // has a slot
  JVGPU_REFUSED = 2,   // has the library and no claim: no GPU
};

// One memory pool of this process, charged with what it has reserved.
typedef struct jvgpu_pool_s {
  CUmemoryPool pool;       // NULL = free
  uint32_t     device;     // JVGPU_ON_HOST: charged to none
  uint32_t     is_made;    // by the program, which may destroy it
  uint32_t     is_left;    // destroyed by the program; by the driver only when nothing of it is in use any more
  uint32_t     is_going;   // a thread destroys it: no other may ask the driver about it
  uint32_t     looks;      // threads that ask the driver about it now
  uint64_t     asked;      // questions so far how much it has reserved
  uint64_t     answered;   // the newest of them whose answer was charged
  uint64_t     charged_bytes;
} jvgpu_pool_t;

// Memory of graphs: per device of the claim, charged with what the driver has reserved for all of them.
typedef struct jvgpu_graph_memory_s {
  jvgpu_lock_t  lock;
  uint32_t      trims;    // times that unused memory was let go of
  jvgpu_table_t needs;  // executable graph and device -> bytes of its allocations; owner: trims + 1 at its last launch
  uint64_t      asked[JVGPU_MAX_DEVICES];  // questions so far how much is reserved
  uint64_t      answered[JVGPU_MAX_DEVICES];  // the newest of them whose answer was charged
  uint64_t      charged_bytes[JVGPU_MAX_DEVICES];
} jvgpu_graph_memory_t;

// How busy the tenant kept one device, from look to look.
typedef struct jvgpu_own_busy_s {
  uint64_t at_ns;  // CLOCK_MONOTONIC of the last look, 0 = none yet
  uint64_t busy_ns;  // GPU time of all processes then
  uint32_t percent;  // between the last two looks
  uint32_t is_known;
} jvgpu_own_busy_t;

typedef struct jvgpu_process_s {
  uint32_t               state;  // JVGPU_*; set with release after what it stands for
  jvgpu_lock_t           attach_lock;
  const jvgpu_control_t *control;
  jvgpu_usage_t         *usage;
  jvgpu_slot_t          *slot;
  uint64_t               tried_ns;  // last attempt to reach the agent
  uint64_t               retry_ns;  // not before then another, by who has a slot
  uint32_t               told;  // the one line about a refusal is written
  // Of the first slot, under attach_lock: what a program makes of its environment later changes nothing.
  char     socket_path[JVGPU_PATH_BYTES];
  char     secret[2 * JVGPU_SECRET_BYTES + 1];
  uint32_t ticks;  // calls since the first, for looks that are made every so many

  int8_t   device_of[JVGPU_MOST_ORDINALS];  // CUdevice -> 1 + index in the claim, 0 = not in it
  uint32_t ordinals;  // CUDA devices this process sees
  uint32_t devices_known;

  uint32_t live_captures;  // streams between begin and end of capture

  jvgpu_ledger_t pointers;  // device pointer -> charge
  uint64_t       departures;  // contexts that the driver was told to destroy
  jvgpu_lock_t   own_limits_lock;
  jvgpu_table_t  own_limits;  // context and limit -> what the context had by itself
  jvgpu_vmm_t    vmm;

  // By device of the claim; NULL before its first launch, and its first while it is governed.
  jvgpu_meter_t *meters[JVGPU_MAX_DEVICES];
  jvgpu_pacer_t *pacers[JVGPU_MAX_DEVICES];

  uint32_t      has_freed;  // memory was given back to a pool, which may let go of it when the host waits
  uint32_t      left_pools;  // of the next, those that their program left
  jvgpu_lock_t  pool_lock;
  jvgpu_pool_t  pools[JVGPU_MOST_POOLS];
  uint32_t      used_turn;  // times that a device may have got another pool
  jvgpu_pool_t *used_pools[JVGPU_MOST_ORDINALS];  // by CUdevice: the pool that it uses, NULL = to be asked
  CUcontext     primary[JVGPU_MOST_ORDINALS];

  uint32_t             has_graph_memory;  // a memory node was seen
  jvgpu_graph_memory_t graph_memory;

  jvgpu_lock_t     own_busy_lock;
  jvgpu_own_busy_t own_busy[JVGPU_MAX_DEVICES];

  uint32_t     has_left;  // whether any of the next is in use
  jvgpu_left_t left[JVGPU_MOST_LEFT];  // under attach_lock
} jvgpu_process_t;

extern jvgpu_process_t *jvgpu_self;  // NULL before the first call

// returns: this process's state, made on the first call; NULL when memory is short.
jvgpu_process_t *jvgpu_process(void);

// A governor that has not looked for so long may be gone: half of the time after which it is.
#define JVGPU_SURE_GOVERNOR_NS UINT64_C(250000000)

// Slot and pages are asked for anew each time: a restarted agent gives new ones.
static inline jvgpu_use_t *jvgpu_process_use(const jvgpu_process_t *self, int device)
{
  return &__atomic_load_n(&self->slot, __ATOMIC_ACQUIRE)->devices[device];
}

static inline const jvgpu_control_device_t *jvgpu_process_limits(const jvgpu_process_t *self, int device)
{
  return &__atomic_load_n(&self->control, __ATOMIC_ACQUIRE)->devices[device];
}

// returns: this process's state if it holds a slot, NULL otherwise. One load and a branch.
static inline jvgpu_process_t *jvgpu_tenant(void)
{
  jvgpu_process_t *self = __atomic_load_n(&jvgpu_self, __ATOMIC_ACQUIRE);
  return self != NULL && __atomic_load_n(&self->state, __ATOMIC_ACQUIRE) == JVGPU_ATTACHED ? self : NULL;
}

// returns: whether this is one of every `every` calls. Not atomic on purpose: a tick lost between
// threads only moves the next one.
static inline bool jvgpu_tick(jvgpu_process_t *self, uint32_t every)
{
  const uint32_t ticks = __atomic_load_n(&self->ticks, __ATOMIC_RELAXED) + 1;
  __atomic_store_n(&self->ticks, ticks, __ATOMIC_RELAXED);
  return ticks % every == 0;
}

// returns: whether `stream` is capturing: what is done on it becomes part of a graph. Costs nothing while
// no capture lives; a stream that cannot be asked is taken for one that is capturing.
static inline bool jvgpu_is_captured(const jvgpu_process_t *self, CUstream stream,
                                     CUresult (*is_capturing)(CUstream, int *))
{
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  return __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) != 0 && is_capturing != NULL &&
         (is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE);
}

#endif
