// Pause: when the governor has to look again. Each waking of its thread costs more than the look itself, so it comes
// when something can have to be decided, and not to see whether it has. Pure, as all of the governor.

#include "parts.h"

// Somebody may reach its ceiling at any moment.
#define LOOK_NS (MS / 2)
// Several want something. While they interleave, who always does is told from who comes and goes by what is seen at
// the looks: with half as many, four of those were given windows now and then (test_governor). Beside a window only
// gates of short work have to be closed, and its owner has had its turn by then.
#define MIXED_LOOK_NS (MS / 2)
#define BESIDE_LOOK_NS (2 * MS)
// One does, and others did lately; nobody else is there; nobody is.
#define ONE_LOOK_NS (4 * MS)
#define ALONE_LOOK_NS (20 * MS)
#define IDLE_LOOK_NS (50 * MS)

static uint64_t smaller(uint64_t one_ns, uint64_t other_ns)
{
  return one_ns < other_ns ? one_ns : other_ns;
}

// Until a ceiling is reached, or lets go. A budget falls at once by what may yet be put under way, and then by the
// clock; it rises by the clock alone.
static uint64_t ceiling_pause(const jvgpu_runner_t *runner)
{
  const double ceiling = (double)runner->ceiling_ppm / 1e6;
  const double room_ns = (double)MIXED_BOUND_NS - (double)runner->flight_ns;
  const double left_ns = runner->budget_ns - (room_ns > 0 ? room_ns : 0.0);
  // A microsecond more, so that it has risen far enough by then.
  const double pause_ns =
      runner->is_capped ? (REOPEN_NS - runner->budget_ns) / ceiling + 1e3 : left_ns / (1.0 - ceiling);
  return pause_ns > (double)LOOK_NS ? (uint64_t)pause_ns : LOOK_NS;
}

// Without windows, by how many want something, and did lately.
static uint64_t interleaving_pause(uint32_t wanting, uint32_t active)
{
  if (active < 2) {
    return active != 0 ? ALONE_LOOK_NS : IDLE_LOOK_NS;
  }
  return wanting < 2 ? ONE_LOOK_NS : MIXED_LOOK_NS;
}

uint64_t jvgpu_pause(const jvgpu_governor_t *governor, const jvgpu_runner_t *runners, uint32_t count, uint32_t active,
                     uint64_t now_ns)
{
  uint64_t pause_ns = IDLE_LOOK_NS;
  uint32_t wanting = 0, beside = 0;
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    if (!runner->wants) {
      continue;
    }
    wanting += 1;
    beside += governor->holder != (int)i && !jvgpu_windows_keep_out(governor, runner);
    if (runner->ceiling_ppm < 1000000) {
      pause_ns = smaller(pause_ns, ceiling_pause(runner));
    }
  }
  if (governor->holder < 0 && governor->next < 0) {
    return smaller(pause_ns, interleaving_pause(wanting, active));
  }
  pause_ns = smaller(pause_ns, beside != 0 ? BESIDE_LOOK_NS : ALONE_LOOK_NS);
  return smaller(pause_ns, jvgpu_windows_pause(governor, runners, count, now_ns));
}
