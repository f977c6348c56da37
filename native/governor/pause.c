// Pause: when the governor has to look again. Each waking of its thread costs more than the look itself, so it comes
// when something can have to be decided, and not to see whether it has. Pure, as all of the governor.

#include "parts.h"

// Shortest, but for windows that begin or end.
#define LOOK_NS (MS / 2)
// Longest: several want something while they interleave, of which the figures that tell them apart are made; others
// do beside a window; one does, and others did lately; one alone; nobody.
#define MIXED_LOOK_NS (1 * MS)
#define BESIDE_LOOK_NS (2 * MS)
#define ONE_LOOK_NS (4 * MS)
#define ALONE_LOOK_NS (20 * MS)
#define IDLE_LOOK_NS (50 * MS)

static double larger(double one, double other)
{
  return one > other ? one : other;
}

static double smaller(double one, double other)
{
  return one < other ? one : other;
}

// Until a ceiling is reached, or lets go. A budget falls at once by what may yet be put under way, and then by the
// clock; it rises by the clock alone.
static double ceiling_ns(const jvgpu_runner_t *runner)
{
  const double ceiling = (double)runner->ceiling_ppm / 1e6;
  if (runner->is_capped) {
    return larger((REOPEN_NS - runner->budget_ns) / ceiling + 1e3, (double)LOOK_NS);
  }
  const double at_once_ns = larger((double)MIXED_BOUND_NS - (double)runner->flight_ns, 0.0);
  return larger((runner->budget_ns - at_once_ns) / (1.0 - ceiling), (double)LOOK_NS);
}

// Until a runner is so far ahead that its gate closes, or until the neediest, with all of the GPU, has caught up.
static double lag_ns(const jvgpu_runner_t *runner, const jvgpu_lag_t *lag, double least_entitled)
{
  const double left_ns = lag->behind_ns + lag->most_ns - runner->virtual_ns;
  return larger(left_ns >= 0 ? left_ns * runner->entitled : -left_ns * least_entitled, (double)LOOK_NS);
}

typedef struct wanting_s {
  uint32_t count;
  double   least_entitled;
} wanting_t;

static wanting_t who_wants(const jvgpu_runner_t *runners, uint32_t count)
{
  wanting_t wanting = {.least_entitled = 1.0};
  for (uint32_t i = 0; i < count; i++) {
    if (runners[i].wants) {
      wanting.count += 1;
      wanting.least_entitled = smaller(wanting.least_entitled, runners[i].entitled);
    }
  }
  return wanting;
}

// Whose gate goes by the lag: nobody's who holds a window or has to keep out of one.
static bool goes_by_lag(const jvgpu_governor_t *governor, const jvgpu_runner_t *runner, int index)
{
  const bool has_windows = governor->holder >= 0 || governor->next >= 0;
  return is_eligible(runner) && !runner->is_gang && governor->holder != index &&
         !(has_windows && jvgpu_windows_keep_out(governor, runner));
}

static double longest_ns(const jvgpu_governor_t *governor, const jvgpu_lag_t *lag, uint32_t wanting)
{
  if (lag->active < 2) {
    return (double)(lag->active != 0 ? ALONE_LOOK_NS : IDLE_LOOK_NS);
  }
  if (governor->holder >= 0 || governor->next >= 0) {
    return (double)ALONE_LOOK_NS;
  }
  return (double)(wanting < 2 ? ONE_LOOK_NS : MIXED_LOOK_NS);
}

uint64_t jvgpu_pause(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count,
                     const jvgpu_lag_t *lag, uint64_t now_ns)
{
  const wanting_t wanting = who_wants(runners, count);
  double          pause_ns = longest_ns(governor, lag, wanting.count);
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    if (runner->wants && runner->ceiling_ppm < 1000000) {
      pause_ns = smaller(pause_ns, ceiling_ns(runner));
    }
    if (wanting.count >= 2 && goes_by_lag(governor, runner, (int)i)) {
      pause_ns = smaller(smaller(pause_ns, (double)BESIDE_LOOK_NS), lag_ns(runner, lag, wanting.least_entitled));
    }
  }
  const uint64_t windows_ns = jvgpu_windows_pause(governor, runners, count, now_ns);
  return (double)windows_ns < pause_ns ? windows_ns : (uint64_t)pause_ns;
}
