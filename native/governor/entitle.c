#include "parts.h"

// How much more than its due is asked for, for who missed its share this many seconds in a row, or its guarantee.
#define LOUD 1.25
#define MOST_MISSED 3u

// What it would use if it never had to wait. Who always wants something: what it filled of a window, if
// that was measured, and no less than it has. Else by its own rhythm: of the time that it did not wait, it had
// the GPU for this part.
static double want_of(const jvgpu_runner_t *runner)
{
  if (runner->pressed > IS_PRESSED) {
    const double fill = runner->fill > runner->use ? runner->fill : runner->use;
    return runner->tried_ns != 0 && fill < 1.0 ? fill : 1.0;
  }
  const double waits = runner->pressed > runner->use ? runner->pressed - runner->use : 0.0;
  const double want = runner->use / (1.0 - waits);
  return want < 1.0 ? want : 1.0;
}

typedef struct round_s {
  uint64_t now_ns;
  uint32_t least;     // priority of those who take part
  double   left;      // part of the device that is given out
} round_t;

static bool takes_part(const jvgpu_runner_t *runner, const round_t *round)
{
  return is_active(runner, round->now_ns) && runner->priority >= round->least;
}

// One step of the filling: everybody who is not satisfied gets more by weight, until the first has all that
// it wants (`most` of it) or nothing is left. returns: whether anything was given.
static bool fill_a_step(jvgpu_runner_t *runners, uint32_t count, round_t *round, double (*most)(const jvgpu_runner_t *))
{
  double weight_ppm = 0, step = -1.0;
  for (uint32_t i = 0; i < count; i++) {
    const jvgpu_runner_t *runner = &runners[i];
    const double          lacks = most(runner) - runner->entitled;
    if (takes_part(runner, round) && lacks > 1e-9) {
      weight_ppm += runner->weight_ppm;
      step = step < 0 || lacks / runner->weight_ppm < step ? lacks / runner->weight_ppm : step;
    }
  }
  if (weight_ppm <= 0 || round->left <= 1e-9) {
    return false;
  }
  step = step * weight_ppm < round->left ? step : round->left / weight_ppm;
  for (uint32_t i = 0; i < count; i++) {
    jvgpu_runner_t *runner = &runners[i];
    if (takes_part(runner, round) && most(runner) - runner->entitled > 1e-9) {
      runner->entitled += step * runner->weight_ppm;
      round->left -= step * runner->weight_ppm;
    }
  }
  return true;
}

// What it wants, as far as it was promised.
static double promised_want(const jvgpu_runner_t *runner)
{
  const double promised = runner->weight_ppm / 1e6;
  const double want = want_of(runner);
  return want < promised ? want : promised;
}

// Weighted max-min fairness by filling, first up to the promises, then by priority.
// source: Bertsekas & Gallager, Data Networks (1992), 6.5.2.
void jvgpu_entitle(jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  round_t round = {.now_ns = now_ns, .least = JVGPU_PRIORITY_LOW, .left = 1.0};
  double  all_ppm = 0;
  for (uint32_t i = 0; i < count; i++) {
    runners[i].entitled = 0;
    all_ppm += is_active(&runners[i], now_ns) ? runners[i].weight_ppm : 0;
  }
  while (fill_a_step(runners, count, &round, promised_want)) {
  }
  for (int priority = JVGPU_PRIORITY_HIGH; priority >= JVGPU_PRIORITY_LOW; priority--) {
    round.least = (uint32_t)priority;
    while (fill_a_step(runners, count, &round, want_of)) {
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    jvgpu_runner_t *runner = &runners[i];
    const double    promised = all_ppm > 1e6 ? runner->weight_ppm / all_ppm : runner->weight_ppm / 1e6;
    // Who comes and goes may want all of its share at any time.
    if (runner->pressed <= IS_PRESSED && runner->entitled < promised) {
      runner->entitled = promised;
    }
    runner->entitled *= runner->missed >= MOST_MISSED || runner->is_raised ? LOUD : 1.0;
    runner->entitled = runner->entitled < 0.001 ? 0.001 : runner->entitled;
  }
}
