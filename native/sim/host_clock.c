// The host's clock, one per thread: what the real driver's calls take of the host's time.
//
// A launch takes the host a few microseconds, of which the simulation needs far fewer. So a thread's clock runs ahead
// of the real one, by tens of microseconds at most; then the thread sleeps. Where a client could see the difference,
// beside timing events on an idle device (timeline.c), it waits until the real clock is there: what it measures with a
// clock of its own agrees with what the events say.

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "driver.h"

// How far a thread's clock may be ahead of the real one before it sleeps off half of that, in real time; and how much
// of a late wake-up it catches up.
enum { AHEAD_REAL_NS = 200000, CREDIT_NS = 500000 };
// Who has not called for this long, in real time, did something else: nothing is caught up.
enum { AWAY_REAL_NS = 100000 };
// A sleep ends this much early and is spun to its end, in real time, or each would be late by a wake-up.
enum { WORTH_IT_REAL_NS = 200000, EARLY_REAL_NS = 60000 };

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static void be_prompt(void)
{
  static _Thread_local bool is_prompt;
  if (!is_prompt) {
    // By default a thread is woken up to 50 us late.
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    is_prompt = true;
  }
}

static void sleep_plainly(uint64_t moment_ns)
{
  const uint64_t        deadline_ns = sim_monotonic_of(moment_ns);
  const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                    .tv_nsec = (long)(deadline_ns % 1000000000u)};
  be_prompt();
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) {
  }
}

void sim_sleep_until(uint64_t deadline_ns)
{
  const uint64_t now = sim_now_ns();
  if (deadline_ns > now + WORTH_IT_REAL_NS && sim_monotonic_of(1) == 1) {
    // The real driver spins. Here only the end of a long sleep does.
    sleep_plainly(deadline_ns - EARLY_REAL_NS);
    while (sim_now_ns() < deadline_ns) {
    }
  } else if (deadline_ns > now) {
    sleep_plainly(deadline_ns);
  }
}

void sim_host_catch_up(void)
{
  const uint64_t slowdown = sim_monotonic_of(1);
  const uint64_t now = sim_now_ns();
  if (sim_thread.host_ns > now + WORTH_IT_REAL_NS / slowdown) {
    sleep_plainly(sim_thread.host_ns - EARLY_REAL_NS / slowdown);
  }
  while (sim_now_ns() < sim_thread.host_ns) {
  }
}

void sim_host_resume(uint64_t due_ns)
{
  const uint64_t now = sim_now_ns();
  if (sim_thread.host_ns < due_ns) {
    sim_thread.host_ns = least(due_ns, now);
  }
  sim_thread.credit_ns = now > sim_thread.host_ns ? least(now - sim_thread.host_ns, CREDIT_NS) : 0;
  sim_thread.seen_ns = now;
}

void sim_host_pay(uint64_t cost_ns)
{
  const uint64_t now = sim_now_ns();
  if (now > sim_thread.seen_ns + AWAY_REAL_NS / sim_monotonic_of(1)) {
    sim_thread.credit_ns = 0;
  }
  sim_thread.seen_ns = now;
  if (sim_thread.host_ns + sim_thread.credit_ns < now) {
    sim_thread.host_ns = now - sim_thread.credit_ns;
  }
  sim_thread.host_ns += cost_ns;
  const uint64_t behind = now > sim_thread.host_ns ? now - sim_thread.host_ns : 0;
  sim_thread.credit_ns = behind < sim_thread.credit_ns ? behind : sim_thread.credit_ns;
  const uint64_t ahead_ns = AHEAD_REAL_NS / sim_monotonic_of(1);
  if (sim_thread.host_ns > now + ahead_ns) {
    sleep_plainly(sim_thread.host_ns - ahead_ns / 2);
    const uint64_t awake = sim_now_ns();
    sim_thread.credit_ns = awake < sim_thread.host_ns ? 0 : least(awake - sim_thread.host_ns, CREDIT_NS);
    sim_thread.seen_ns = awake;
  }
}
