#include "parts.h"

// What it would use if it never had to wait. Who always wants something: what it filled of a window, if
// that was measured. Else by its own rhythm: of the time that it did not wait, it had the GPU for this part.
static double want_of(const jvgpu_runner_t *runner)
{
  if (runner->pressed > IS_PRESSED) {
    return runner->tried_ns != 0 ? runner->fill : 1.0;
  }
  const double waits = runner->pressed > runner->use ? runner->pressed - runner->use : 0.0;
  const double want = runner->use / (1.0 - waits);
  return want < 1.0 ? want : 1.0;
}

// Weighted max-min fairness by filling: who wants less than its part leaves the rest to the others.
// source: Bertsekas & Gallager, Data Networks (1992), 6.5.2.
void jvgpu_entitle(jvgpu_runner_t *runners, uint32_t count, uint64_t now_ns)
{
  double left = 1.0, weight_ppm = 0;
  for (uint32_t i = 0; i < count; i++) {
    runners[i].entitled = -1.0;
    weight_ppm += is_active(&runners[i], now_ns) ? runners[i].weight_ppm : 0;
  }
  const double all_ppm = weight_ppm;
  for (bool is_settled = false; !is_settled && weight_ppm > 0;) {
    is_settled = true;
    for (uint32_t i = 0; i < count; i++) {
      jvgpu_runner_t *runner = &runners[i];
      const double    want = want_of(runner);
      if (is_active(runner, now_ns) && runner->entitled < 0 && want <= left * runner->weight_ppm / weight_ppm) {
        runner->entitled = want;
        left -= want;
        weight_ppm -= runner->weight_ppm;
        is_settled = weight_ppm <= 0;
        break;
      }
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    jvgpu_runner_t *runner = &runners[i];
    const double    promised = all_ppm > 0 ? runner->weight_ppm / all_ppm : 1.0;
    runner->entitled =
        runner->entitled < 0 && weight_ppm > 0 ? left * runner->weight_ppm / weight_ppm : runner->entitled;
    // Who comes and goes may want all of its share at any time.
    runner->entitled = runner->pressed <= IS_PRESSED && runner->entitled < promised ? promised : runner->entitled;
    runner->entitled = runner->entitled < 0.001 ? 0.001 : runner->entitled;
  }
}
