// Samples that are not exact: of single short launches, and of many streams.

#include "shape_scene.h"

// Catches a bug where eight tenants of 5 µs launches were charged 8 to 13 % too much: each run that a closed gate spoiled
// was followed by eight single launches, in which the events' own cost shows.
static void runs_say_more_than_single_launches(void)
{
  jvgpu_shape_t shape = fresh();
  for (int i = 0; i < 6; i++) {
    jvgpu_shape_learn(&shape, 6 * US, 1, beside);
  }
  jvgpu_shape_learn(&shape, 50 * 5 * US, 50, beside);
  CHECK("the first run takes the place of all single launches", shape.duration_ns == 5000);
  for (int i = 0; i < 24; i++) {
    jvgpu_shape_learn(&shape, i % 3 == 0 ? 50 * 5 * US : 6 * US, i % 3 == 0 ? 50 : 1, beside);
  }
  CHECK("and later ones hardly weigh", within((double)shape.duration_ns, 5 * US, 0.04));
  jvgpu_shape_t cut = fresh();
  jvgpu_shape_learn(&cut, 6 * US, 1, beside);
  jvgpu_shape_learn(&cut, 50 * 5 * US + LOST, 50, beside);
  CHECK("a run that a turn cut takes nobody's place", cut.duration_ns == 6000);
  jvgpu_shape_t longer = fresh();
  jvgpu_shape_learn(&longer, 300 * US, 1, beside);
  jvgpu_shape_learn(&longer, 320 * US, 1, beside);
  CHECK("a launch that is never sampled in runs counts in full", longer.duration_ns == 310000);
}

static void a_single_short_launch_says_what_runs_said(void)
{
  jvgpu_shape_t shape = fresh();
  jvgpu_shape_learn(&shape, 13 * 20 * US, 13, alone);
  for (int i = 0; i < 200; i++) {
    jvgpu_shape_learn(&shape, 20.8 * US, 1, alone);
  }
  CHECK("within what its events cost, however often", shape.duration_ns == 20000);
  for (int i = 0; i < 400; i++) {
    jvgpu_shape_learn(&shape, 30 * US, 1, alone);
  }
  CHECK("what goes beyond that is news", within((double)shape.duration_ns, 29 * US, 0.02));
  for (int i = 0; i < 400; i++) {
    jvgpu_shape_learn(&shape, 20 * US, 1, alone);
  }
  CHECK("to either side", within((double)shape.duration_ns, 21 * US, 0.02));
}

static void rough_samples_are_averaged_where_they_lie_close_together(void)
{
  const jvgpu_how_t rough = {.contenders = 2, .is_of_streams = true};
  jvgpu_shape_t     shape = fresh();
  jvgpu_shape_learn(&shape, 290 * US, 1, beside);
  jvgpu_shape_learn(&shape, 20 * US * 100, 100, rough);
  CHECK("one is worth more than a launch among others'", within((double)shape.duration_ns, 20 * US, 0.01));
  for (int i = 0; i < 40; i++) {
    jvgpu_shape_learn(&shape, (i % 2 == 0 ? 18 : 22) * US * 100, 100, rough);
  }
  CHECK("no short one is taken for the truth", within((double)shape.duration_ns, 20 * US, 0.05));
  jvgpu_shape_learn(&shape, 4 * US * 100, 100, rough);
  CHECK("nor one that counts launches which were not done", within((double)shape.duration_ns, 20 * US, 0.05));
  for (int i = 0; i < 60; i++) {
    jvgpu_shape_learn(&shape, (i % 5 == 0 ? 19 + i % 3 : 60 + i) * US * 100, 100, rough);
  }
  CHECK("one in five without a turn in it is enough", within((double)shape.duration_ns, 20 * US, 0.06));
}

// Four tenants of a hundred streams each on an H200, as they saw their launches of 19.9 µs: what runs said of which it is
// not known what else was in them, then what those said that began and ended with as much under way. Catches a bug where
// the first of the latter took the place of all others: 0.58 µs, and one tenant had the GPU for itself.
static void what_four_tenants_of_many_streams_saw(void)
{
  const double others[4][12] = {{1.02, 19.86, 19.81, 90.6, 90.67, 90.62, 90.64, 90.62, 89.74},
                                {90.65, 90.73, 90.65, 90.62, 90.63, 90.66, 90.69, 89.8},
                                {17.33, 10.49, 84.46, 18.82, 82.71, 14.88},
                                {2.78, 90.74, 90.73, 90.68, 90.68, 83.75}};
  const double sure[4][12] = {
      {59.35, 41.47, 33.09, 101.17, 0.58}, {19.84}, {57.95}, {22.54, 26.06, 31.93, 44.19, 15.66, 45.52, 23.5}};
  for (int tenant = 0; tenant < 4; tenant++) {
    jvgpu_shape_t shape = fresh();
    jvgpu_how_t   how = {.contenders = 4, .is_of_streams = true};
    for (int i = 0; i < 12 && others[tenant][i] > 0; i++) {
      jvgpu_shape_learn(&shape, others[tenant][i] * US * 100, 100, how);
    }
    how.is_sure = true;
    for (int i = 0; i < 12 && sure[tenant][i] > 0; i++) {
      jvgpu_shape_learn(&shape, sure[tenant][i] * US * 100, 100, how);
    }
    CHECK("no single run decides over many streams", within((double)shape.duration_ns, 19.9 * US, 0.25));
  }
}

int main(void)
{
  runs_say_more_than_single_launches();
  a_single_short_launch_says_what_runs_said();
  rough_samples_are_averaged_where_they_lie_close_together();
  what_four_tenants_of_many_streams_saw();
  RESULT();
}
