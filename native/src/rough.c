#include "rough.h"

#include <stdbool.h>

// Beside the shortest that counts, so much less and more is the same.
// source: measured, H200: runs of 40 and more launches of 20 µs over 16 and 100 streams say 18 to 22, those that a turn
// cut 29 and more.
#define SAME_LEAST 0.8
#define SAME_MOST 1.25
#define STEPS 4
// With so many others at most each has its turn.
#define MOST_TURNS 8.0
// What nothing disturbed lies as close together, and is not rare.
#define TIGHT 1.05
#define LEAST_AGREED 3u
#define AGREED_PART 8u

void jvgpu_rough_add(jvgpu_rough_t *rough, double launch_ns)
{
  rough->kept_ns[rough->seen % JVGPU_ROUGH_KEPT] = (float)launch_ns;
  rough->seen += 1;
}

static uint32_t kept(const jvgpu_rough_t *rough)
{
  return rough->seen < JVGPU_ROUGH_KEPT ? rough->seen : JVGPU_ROUGH_KEPT;
}

// returns: how many of `count` figures lie from `least` to `most`; their mean in *mean, which stays where none do.
static uint32_t between(const float *figures, uint32_t count, double least, double most, double *mean)
{
  double   sum = 0;
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; i++) {
    const double one = (double)figures[i];
    if (one >= least && one <= most) {
      sum += one;
      found += 1;
    }
  }
  *mean = found == 0 ? *mean : sum / found;
  return found;
}

// returns: those near `around`, and their mean in *mean_ns.
static uint32_t near(const jvgpu_rough_t *rough, double around, double *mean_ns)
{
  *mean_ns = around;
  return between(rough->kept_ns, kept(rough), around * SAME_LEAST, around * SAME_MOST, mean_ns);
}

// The shortest that is not alone, or the shortest: one run in some hundred counts launches that were not done in it.
double jvgpu_rough_mean_ns(const jvgpu_rough_t *rough, bool *do_agree)
{
  double shortest = 0, shortest_of_many = 0, mean_ns;
  for (uint32_t i = 0; i < kept(rough); i++) {
    const double one = (double)rough->kept_ns[i];
    if (shortest <= 0 || one < shortest) {
      shortest = one;
    }
    if ((shortest_of_many <= 0 || one < shortest_of_many) && near(rough, one, &mean_ns) > 1) {
      shortest_of_many = one;
    }
  }
  *do_agree = shortest_of_many > 0;
  // From there to the middle of those that lie about it.
  mean_ns = shortest_of_many > 0 ? shortest_of_many : shortest;
  for (int i = 0; i < STEPS; i++) {
    near(rough, mean_ns, &mean_ns);
  }
  return mean_ns;
}

double jvgpu_rough_best_ns(const jvgpu_rough_t *sure, const jvgpu_rough_t *others)
{
  bool do_agree = false;
  if (sure->seen == 0) {
    return jvgpu_rough_mean_ns(others, &do_agree);
  }
  const double sure_ns = jvgpu_rough_mean_ns(sure, &do_agree);
  if (do_agree || others->seen == 0) {
    return sure_ns;
  }
  // A turn of others' may be in a single one, or its streams were ahead: it counts where it is shorter, and not by far.
  const double others_ns = jvgpu_rough_mean_ns(others, &do_agree);
  return sure_ns < others_ns && sure_ns * MOST_TURNS > others_ns ? sure_ns : others_ns;
}

double jvgpu_rough_agreed(const float *figures, uint32_t count)
{
  const uint32_t least = count / AGREED_PART > LEAST_AGREED ? count / AGREED_PART : LEAST_AGREED;
  double         shortest = 0, mean = 0, seen = 0;
  for (uint32_t i = 0; i < count; i++) {
    const double one = (double)figures[i];
    if ((shortest <= 0 || one < shortest) && between(figures, count, one, one * TIGHT, &seen) >= least) {
      shortest = one;
      mean = seen;
    }
  }
  return mean;
}
