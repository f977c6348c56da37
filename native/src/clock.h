// Clock: CLOCK_MONOTONIC in nanoseconds, the clock of the agent's heartbeat.

#ifndef JVGPU_CLOCK_H
#define JVGPU_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t jvgpu_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
