// Many threads that stand at one device: what they cost, and that all are let go, whoever lets them go or dies.
//
// catches a bug where each of them looked every 60 µs: two thousand had all of a machine's processors.

#define _GNU_SOURCE
#include "standing.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "jvgpu/pages.h"

#define THREADS 2000u
#define FEW 16u
#define LOOK_NS 60000
#define STACK_BYTES 65536u
#define SECOND_NS UINT64_C(1000000000)
// So many that each would lie for hours.
#define MANY 1000000u
// Who is not woken is not seen again.
#define FOR_EVER_NS (3600 * SECOND_NS)

static jvgpu_standing_t standing;
static uint32_t         gate, room, gone;
static bool             is_lost;  // there is no governor: whoever looks goes
static pthread_t        threads[THREADS];

// --- who stands ----------------------------------------------------------------------------------------------------

static bool take_room(void)
{
  uint32_t left = __atomic_load_n(&room, __ATOMIC_ACQUIRE);
  while (left != 0 && !__atomic_compare_exchange_n(&room, &left, left - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return left != 0;
}

// As the pacer does it: first the gate, then room.
static void *stand(void *unused)
{
  jvgpu_standing_begin(&standing);
  while (!__atomic_load_n(&is_lost, __ATOMIC_ACQUIRE)) {
    const uint32_t turn = jvgpu_standing_turn(&standing);
    if (__atomic_load_n(&gate, __ATOMIC_ACQUIRE) == JVGPU_GATE_CLOSED) {
      jvgpu_standing_wait_at_gate(&standing, &gate, LOOK_NS);
    } else if (take_room()) {
      break;
    } else {
      jvgpu_standing_wait(&standing, turn, LOOK_NS);
    }
  }
  jvgpu_standing_end(&standing, &gate);
  __atomic_fetch_add(&gone, 1, __ATOMIC_RELEASE);
  return unused;
}

static void begin(uint32_t first_gate, uint64_t most_lying_ns)
{
  const uint32_t others = standing.standing;
  pthread_attr_t attributes;
  gate = first_gate;
  room = gone = 0;
  is_lost = false;
  standing.most_lying_ns = most_lying_ns;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  for (uint32_t i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], &attributes, stand, NULL) != 0) {
      abort();
    }
  }
  pthread_attr_destroy(&attributes);
  while (__atomic_load_n(&standing.standing, __ATOMIC_RELAXED) != others + THREADS) {
    usleep(1000);
  }
  usleep(200000);  // the last have looked once and lie
}

// returns: whether as many have gone in that time.
static bool have_gone(uint32_t count, uint64_t within_ns)
{
  const uint64_t begun_ns = jvgpu_now_ns();
  while (__atomic_load_n(&gone, __ATOMIC_ACQUIRE) < count && jvgpu_now_ns() - begun_ns < within_ns) {
    usleep(1000);
  }
  return __atomic_load_n(&gone, __ATOMIC_ACQUIRE) >= count;
}

static void end(void)
{
  __atomic_store_n(&is_lost, true, __ATOMIC_RELEASE);
  for (uint32_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
}

static void open_gate(void)
{
  __atomic_store_n(&gate, JVGPU_GATE_OPEN, __ATOMIC_RELEASE);
  syscall(SYS_futex, &gate, FUTEX_WAKE, FEW, NULL, NULL, 0);
}

// returns: the part of one processor that this process has in the next second.
static double processor_part(void)
{
  struct rusage  before, after;
  const uint64_t begun_ns = jvgpu_now_ns();
  getrusage(RUSAGE_SELF, &before);
  usleep(1000000);
  getrusage(RUSAGE_SELF, &after);
  const double seconds = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                         (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                         (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6 +
                         (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
  return seconds * 1e9 / (double)(jvgpu_now_ns() - begun_ns);
}

// --- what becomes of them ------------------------------------------------------------------------------------------

static void at_a_gate(void)
{
  begin(JVGPU_GATE_CLOSED, FOR_EVER_NS);
  CHECK("at a gate they cost less than three quarters of a processor", processor_part() < 0.75);
  room = THREADS;
  open_gate();
  CHECK("an open gate lets all go, though few are woken by it", have_gone(THREADS, 10 * SECOND_NS));
  end();
}

static void at_a_bound(void)
{
  begin(JVGPU_GATE_OPEN, FOR_EVER_NS);
  CHECK("at a bound they cost less than three quarters of a processor", processor_part() < 0.75);
  __atomic_store_n(&room, THREADS / 2, __ATOMIC_RELEASE);
  CHECK("as many go as there is room for", have_gone(THREADS / 2, 10 * SECOND_NS));
  CHECK("and no more", gone == THREADS / 2);
  __atomic_store_n(&room, THREADS, __ATOMIC_RELEASE);
  CHECK("the others go when there is room for them", have_gone(THREADS, 10 * SECOND_NS));
  end();
}

static void where_the_governor_is_lost(void)
{
  begin(JVGPU_GATE_CLOSED, FOR_EVER_NS);
  __atomic_store_n(&is_lost, true, __ATOMIC_RELEASE);
  CHECK("who stands at a gate that nobody opens is gone soon", have_gone(THREADS, 10 * SECOND_NS));
  end();
  CHECK("nobody counts as standing or looking any more", standing.standing == 0 && standing.looking == 0);
}

static void where_those_who_look_are_stopped(void)
{
  standing.looking = THREADS;
  standing.standing = MANY;
  begin(JVGPU_GATE_CLOSED, SECOND_NS / 2);
  CHECK("who only lies costs less than half a processor", processor_part() < 0.5);
  room = THREADS;
  __atomic_store_n(&gate, JVGPU_GATE_OPEN, __ATOMIC_RELEASE);
  CHECK("nobody lies longer than is set", have_gone(THREADS, 10 * SECOND_NS));
  end();
}

int main(void)
{
  alarm(60);
  at_a_gate();
  at_a_bound();
  where_the_governor_is_lost();
  where_those_who_look_are_stopped();
  RESULT();
}
