#define _GNU_SOURCE
#include "standing.h"

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jvgpu/pages.h"

// At a gate one sees that work is over; where one goes as room is found, another sees whether there is more.
#define MOST_LOOKING 2u
#define LOOKING_AT_GATE 1u
#define LYING_NS UINT64_C(20000000)

static bool may_look(jvgpu_standing_t *standing, uint32_t most)
{
  if (__atomic_fetch_add(&standing->looking, 1, __ATOMIC_RELAXED) < most) {
    return true;
  }
  __atomic_fetch_sub(&standing->looking, 1, __ATOMIC_RELAXED);
  return false;
}

static void look_no_more(jvgpu_standing_t *standing)
{
  __atomic_fetch_sub(&standing->looking, 1, __ATOMIC_RELAXED);
}

// The more stand there, the longer each lies: all of them together come back as often as a few would.
static uint64_t lying_ns(const jvgpu_standing_t *standing)
{
  const uint64_t all_ns = LYING_NS * __atomic_load_n(&standing->standing, __ATOMIC_RELAXED);
  return all_ns < standing->most_lying_ns ? all_ns : standing->most_lying_ns;
}

static void wait_on(const uint32_t *word, uint32_t value, int operation, uint64_t ns)
{
  const struct timespec longest = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
  syscall(SYS_futex, word, operation, value, &longest, NULL, 0);
}

void jvgpu_standing_begin(jvgpu_standing_t *standing)
{
  __atomic_fetch_add(&standing->standing, 1, __ATOMIC_RELAXED);
}

uint32_t jvgpu_standing_turn(const jvgpu_standing_t *standing)
{
  return __atomic_load_n(&standing->turn, __ATOMIC_ACQUIRE);
}

void jvgpu_standing_wait(jvgpu_standing_t *standing, uint32_t turn, long look_ns)
{
  if (may_look(standing, MOST_LOOKING)) {
    const struct timespec pause = {.tv_nsec = look_ns};
    nanosleep(&pause, NULL);
    look_no_more(standing);
  } else {
    wait_on(&standing->turn, turn, FUTEX_WAIT_PRIVATE, lying_ns(standing));
  }
}

// Not FUTEX_PRIVATE: the word is in a page that the agent writes. A read-only mapping will do.
void jvgpu_standing_wait_at_gate(jvgpu_standing_t *standing, const uint32_t *gate, long look_ns)
{
  const bool is_looking = may_look(standing, LOOKING_AT_GATE);
  wait_on(gate, JVGPU_GATE_CLOSED, FUTEX_WAIT, is_looking ? (uint64_t)look_ns : lying_ns(standing));
  if (is_looking) {
    look_no_more(standing);
  }
}

void jvgpu_standing_end(jvgpu_standing_t *standing, const uint32_t *gate)
{
  // Release: who is woken finds what this one did.
  __atomic_fetch_add(&standing->turn, 1, __ATOMIC_RELEASE);
  if (__atomic_sub_fetch(&standing->standing, 1, __ATOMIC_RELAXED) != 0) {
    syscall(SYS_futex, &standing->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    syscall(SYS_futex, gate, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
}
