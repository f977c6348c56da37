// Lock: a word that is 0 when free, held for some tens of instructions, never across a driver call.
// (The one exception is a process's first call, which asks the agent; attach.h bounds it.) Zeroed memory is an unlocked lock, which is the whole fork story:
// locks live in the mapping that is wiped on fork (process.h).

#ifndef JVGPU_LOCK_H
#define JVGPU_LOCK_H

#include <sched.h>
#include <stdint.h>

typedef uint32_t jvgpu_lock_t;

static inline void jvgpu_lock(jvgpu_lock_t *lock)
{
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0) {
    while (__atomic_load_n(lock, __ATOMIC_RELAXED) != 0) {
      sched_yield();
    }
  }
}

static inline void jvgpu_unlock(jvgpu_lock_t *lock)
{
  __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
