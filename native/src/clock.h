// Clock: CLOCK_MONOTONIC in nanoseconds, the clock of the agent's heartbeat.

#ifndef JVGPU_CLOCK_H
#define JVGPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t jvgpu_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

// returns: whether less than `most_ns` have gone by since a moment that another process wrote into a shared page,
// 0 = never. One that is yet to come is no sign of life: it would be one for as long as it takes to come, for ever even.
static inline bool jvgpu_is_recent(const uint64_t *written_ns, uint64_t most_ns)
{
  // The clock is looked at after the page, however long this thread was put aside: a sound writer's moment has gone by.
  const uint64_t then_ns = __atomic_load_n(written_ns, __ATOMIC_ACQUIRE);
  const uint64_t now_ns = jvgpu_now_ns();
  return then_ns != 0 && then_ns <= now_ns && now_ns - then_ns < most_ns;
}

#endif
