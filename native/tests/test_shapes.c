// Durations learned from samples, with the figures that the H200 gave (docs/meter.md).

#include <string.h>

#include "shape_scene.h"

static void clean_samples_are_averaged(void)
{
  jvgpu_shape_t shape = fresh();
  jvgpu_shape_learn(&shape, 20 * US, 1, alone);
  jvgpu_shape_learn(&shape, 22 * US, 1, alone);
  CHECK("two samples make their mean", shape.duration_ns == 21000);
  jvgpu_shape_learn(&shape, 210 * US, 10, alone);
  CHECK("a run counts by the launch", shape.duration_ns == 21000);
  CHECK("short launches are sampled in runs", jvgpu_shape_run(&shape, JVGPU_RUN_NS) == 11);
  shape.singly = 1;
  CHECK("unless the host cannot keep them queued", jvgpu_shape_run(&shape, JVGPU_RUN_ALONE_NS) == 1);
}

static void lost_turns_do_not_count(void)
{
  jvgpu_shape_t shape = fresh();
  for (int i = 0; i < 40; i++) {
    jvgpu_shape_learn(&shape, i % 4 == 3 ? 400 * US + LOST : 400 * US, 1, beside);
  }
  CHECK("samples that a turn cut are left out", shape.duration_ns == 400000);
  for (int i = 0; i < 40; i++) {
    jvgpu_shape_learn(&shape, i % 4 == 3 ? 400 * US + 300 * US : 400 * US, 1, beside);
  }
  CHECK("short turns of neighbours with little to do are left out too", shape.duration_ns == 400000);
}

static void a_cut_first_sample_is_forgotten(void)
{
  jvgpu_shape_t shape = fresh();
  jvgpu_shape_learn(&shape, 20 * US + LOST, 1, beside);
  CHECK("it makes no more than a guess", shape.samples == 0 && shape.duration_ns > 0);
  jvgpu_shape_learn(&shape, 20 * US, 1, beside);
  CHECK("the first clean sample starts over", shape.duration_ns == 20000);
}

static void just_below_a_turn_the_rare_clean_ones_decide(void)
{
  jvgpu_shape_t shape = fresh();
  for (int i = 0; i < 60; i++) {
    jvgpu_shape_learn(&shape, i % 13 == 5 ? 1.912 * MS : 1.912 * MS + LOST, 1, beside);
  }
  CHECK("one clean sample in thirteen is enough", within((double)shape.duration_ns, 1.912 * MS, 0.01));
}

static void who_seems_alone_beside_one_long_launch_keeps_its_figure(void)
{
  jvgpu_shape_t  shape = fresh(), other = fresh();
  jvgpu_shape_t *all[] = {&shape, &other, &shape, &other};
  for (int i = 0; i < 10; i++) {
    jvgpu_shape_learn(&shape, 200 * US, 10, surely_alone);
    jvgpu_shape_learn(&other, 20 * US, 1, surely_alone);
  }
  for (uint32_t i = 1; i <= 300; i++) {
    jvgpu_shape_learn(&shape, 200 * US + (i % 3 == 0 ? 0 : LOST), 10, surely_alone);
    jvgpu_shapes_learn_span(all, 4, 80 * US + (i % 2 == 0 ? 0 : LOST), true, i);
  }
  CHECK("turns that nobody counts are no longer launches", within((double)shape.duration_ns, 20 * US, 0.01));
  for (int i = 0; i < 300; i++) {
    jvgpu_shape_learn(&shape, 4 * MS + (i % 3 == 0 ? 0 : LOST), 200, surely_alone);
  }
  CHECK("in long runs neither", within((double)shape.duration_ns, 20 * US, 0.01));
}

static void what_was_seen_alone_is_kept_beside_others(void)
{
  jvgpu_shape_t shape = fresh();
  for (int i = 0; i < 5; i++) {
    jvgpu_shape_learn(&shape, 3.437 * MS, 1, alone);
  }
  CHECK("a clean figure needs no watch", !jvgpu_shape_is_doubtful(&shape));
  for (int i = 0; i < 300; i++) {
    jvgpu_shape_learn(&shape, 3.437 * MS + (i % 3 == 0 ? 1 : 2) * LOST, 1, beside);
  }
  CHECK("however many samples are cut", within((double)shape.duration_ns, 3.437 * MS, 0.001));
  CHECK("they put it in doubt", jvgpu_shape_is_doubtful(&shape));
  jvgpu_shape_learn(&shape, 3.45 * MS, 1, watched);
  CHECK("which a watched one takes away", !jvgpu_shape_is_doubtful(&shape));
}

static void beyond_a_turn_the_watched_ones_decide(void)
{
  jvgpu_shape_t shape = fresh();
  jvgpu_shape_learn(&shape, 3.437 * MS + LOST, 1, beside);
  CHECK("the first cut one makes a guess, and it is in doubt", shape.samples == 0 && jvgpu_shape_is_doubtful(&shape));
  for (int i = 0; i < 90; i++) {
    // Half a pulse's interval more or less; what is not watched says nothing.
    jvgpu_shape_learn(&shape, (3.437 + 0.05 * (i % 3 - 1)) * MS, 1, watched);
    jvgpu_shape_learn(&shape, 3.437 * MS + (i % 3 == 0 ? 1 : 2) * LOST, 1, beside);
  }
  CHECK("3.4 ms launches never seen alone are known", within((double)shape.duration_ns, 3.437 * MS, 0.02));
  for (int i = 0; i < 3; i++) {
    jvgpu_shape_learn(&shape, 7.2 * MS, 1, watched);
  }
  CHECK("and longer work soon is", within((double)shape.duration_ns, 7.2 * MS, 0.001));
}

static void alone_long_launches_are_clean(void)
{
  jvgpu_shape_t shape = fresh();
  jvgpu_shape_learn(&shape, 95.4 * MS, 1, alone);
  CHECK("alone nothing is taken off", shape.duration_ns == 95400000);
  for (int i = 0; i < 12; i++) {
    jvgpu_shape_learn(&shape, 115.0 * MS, 1, alone);
  }
  CHECK("and clocks that fall are soon followed", within((double)shape.duration_ns, 115 * MS, 0.01));
}

static void work_that_changes_is_followed(void)
{
  jvgpu_shape_t shape = fresh();
  for (int i = 0; i < 10; i++) {
    jvgpu_shape_learn(&shape, 100 * US, 1, alone);
  }
  for (int i = 0; i < 40; i++) {
    jvgpu_shape_learn(&shape, 1.6 * MS, 1, alone);
  }
  CHECK("longer work is not mistaken for lost turns for ever", within((double)shape.duration_ns, 1.6 * MS, 0.01));
  for (int i = 0; i < 40; i++) {
    jvgpu_shape_learn(&shape, 50 * US, 1, alone);
  }
  CHECK("nor does shorter work keep a long one's figure", within((double)shape.duration_ns, 50 * US, 0.01));
}

static void work_that_takes_longer_or_shorter_by_its_arguments_has_its_mean(void)
{
  const jvgpu_how_t sure = {.contenders = 2, .is_sure = true, .is_watched = true};
  jvgpu_shape_t     shape = fresh();
  double            sum = 0;
  for (int i = 0; i < 400; i++) {
    jvgpu_shape_learn(&shape, i % 3 == 0 ? 90 * US : 30 * US, 1, beside);
    sum += (double)shape.duration_ns / 400;
  }
  CHECK("of two lengths that no cut explains", within(sum, 50 * US, 0.05));
  shape = fresh();
  sum = 0;
  for (int i = 0; i < 400; i++) {
    jvgpu_shape_learn(&shape, i % 2 == 0 ? 100 * US : 1 * MS, 1, surely_alone);
    sum += (double)shape.duration_ns / 400;
  }
  CHECK("of two far apart, alone", within(sum, 550 * US, 0.06));
  shape = fresh();
  sum = 0;
  for (int i = 0; i < 400; i++) {
    jvgpu_shape_learn(&shape, i % 2 == 0 ? 100 * US : 1 * MS, 1, jvgpu_shape_is_doubtful(&shape) ? sure : beside);
    sum += (double)shape.duration_ns / 400;
  }
  CHECK("and of two far apart, as they are watched", within(sum, 550 * US, 0.1));
  shape = fresh();
  sum = 0;
  for (int i = 0; i < 800; i++) {
    jvgpu_shape_learn(&shape, i % 2 == 0 ? 100 * US : 1 * MS, 1, i / 2 % 2 == 0 ? sure : beside);
    sum += i < 400 ? 0 : (double)shape.duration_ns / 400;
  }
  CHECK("also where every second is not watched, of which the long ones look cut", within(sum, 550 * US, 0.06));
}

static void launches_before_the_first_sample_are_charged_after_it(void)
{
  jvgpu_shape_t shape = fresh();
  shape.uncharged = 7;
  CHECK("seven launches of 20 us", jvgpu_shape_learn(&shape, 20 * US, 1, alone) == 7 * 20000);
  CHECK("once", jvgpu_shape_learn(&shape, 20 * US, 1, alone) == 0);
  shape.uncharged = 2;
  jvgpu_shape_forget(&shape);
  CHECK("what is forgotten has no duration", shape.duration_ns == 0);
  CHECK("and is learned anew", jvgpu_shape_learn(&shape, 30 * US, 1, alone) == 2 * 30000);
}

static void guesses_only_lower_what_is_known(void)
{
  jvgpu_shape_t shape = fresh();
  jvgpu_shape_guess(&shape, 80 * US);
  jvgpu_shape_guess(&shape, 5 * US);
  jvgpu_shape_guess(&shape, 60 * US);
  CHECK("the lowest guess stands", shape.duration_ns == 5000);
}

static void shapes_have_rows_of_their_own(void)
{
  static jvgpu_shapes_t shapes;
  int                   rows = 0;
  for (uint64_t i = 1; i <= 2 * JVGPU_MOST_SHAPES; i++) {
    rows += jvgpu_shapes_find(&shapes, jvgpu_shape_key((void *)(uintptr_t)(i << 4), 132, 256, 0)) != &shapes.rest;
  }
  CHECK("most of a full table is used", rows > (int)(JVGPU_MOST_SHAPES * 3 / 4));
  CHECK("what finds no row shares one", jvgpu_shapes_find(&shapes, jvgpu_shape_key("new", 1, 1, 1)) == &shapes.rest);
  memset(&shapes, 0, sizeof shapes);
  CHECK("another grid is another shape", jvgpu_shapes_find(&shapes, jvgpu_shape_key("f", 1, 1, 1)) !=
                                             jvgpu_shapes_find(&shapes, jvgpu_shape_key("f", 2, 1, 1)));
  CHECK("the same is the same", jvgpu_shapes_find(&shapes, jvgpu_shape_key("f", 1, 1, 1)) ==
                                    jvgpu_shapes_find(&shapes, jvgpu_shape_key("f", 1, 1, 1)));
}

static void a_span_that_misled_is_made_good(void)
{
  jvgpu_shape_t  large = fresh(), small = fresh();
  jvgpu_shape_t *all[] = {&large, &small, &large, &small};
  for (int i = 0; i < 30; i++) {
    jvgpu_shape_learn(&large, 200 * US, 1, surely_alone);
    jvgpu_shape_learn(&small, 10 * US, 1, surely_alone);
  }
  for (uint32_t span = 1; span <= 60; span++) {
    jvgpu_shapes_learn_span(all, 4, 220 * US, false, span);
  }
  for (int i = 0; i < 60; i++) {
    jvgpu_shape_learn(&large, 100 * US, 1, surely_alone);
  }
  CHECK("a figure that was too long left a company that is too small", large.duration_ns < 80 * US);
  for (uint32_t span = 61; span <= 120; span++) {
    jvgpu_shapes_learn_span(all, 4, 220 * US, false, span);
  }
  CHECK("later ones are not taken for cut", within((double)large.duration_ns, 100 * US, 0.05));
}

static void clocks_that_change_are_no_company(void)
{
  jvgpu_shape_t  large = fresh(), small = fresh();
  jvgpu_shape_t *all[] = {&large, &small, &large, &small};
  uint32_t       span = 0;
  for (int i = 0; i < 60; i++) {
    const double part = i < 30 ? 1.0 : 0.85;
    jvgpu_shape_learn(&large, part * 210 * US, 1, surely_alone);
    jvgpu_shape_learn(&small, part * 10 * US, 1, surely_alone);
    jvgpu_shapes_learn_span(all, 4, part * 440 * US, true, ++span);
    if (i == 36) {
      CHECK("after some samples a launch is charged what it takes now",
            within((double)large.duration_ns, 178.5 * US, 0.02));
    }
  }
  CHECK("and stays so", within((double)large.duration_ns, 178.5 * US, 0.005));
}

static void company_is_learned_of_each_shape(void)
{
  jvgpu_shape_t  large = fresh(), small = fresh();
  jvgpu_shape_t *all[] = {&large, &small, &large, &small};
  jvgpu_shape_learn(&large, 100 * US, 1, alone);
  jvgpu_shape_learn(&small, 10 * US, 1, alone);
  for (uint32_t span = 1; span <= 60; span++) {
    jvgpu_shapes_learn_span(all, 4, 198 * US, true, span);
  }
  CHECK("launches that overlap are charged what they take together",
        within(2.0 * (double)(large.duration_ns + small.duration_ns), 198 * US, 0.005));
  jvgpu_shapes_learn_span(all, 4, 198 * US + LOST, false, 61);
  CHECK("a span with a turn of others' says nothing",
        within(2.0 * (double)(large.duration_ns + small.duration_ns), 198 * US, 0.005));
  jvgpu_shape_learn(&large, 100 * US, 1, alone);
  CHECK("what a run of its own says keeps what company does", within((double)large.duration_ns, 90 * US, 0.01));
  jvgpu_shape_t *const same[] = {&small, &small, &small, &small};
  for (uint32_t span = 62; span <= 122; span++) {
    jvgpu_shapes_learn_span(same, 4, 30 * US, true, span);
  }
  CHECK("launches of one shape are no company to each other", within((double)small.duration_ns, 10 * US, 0.01));
  jvgpu_shape_forget(&large);
  CHECK("a changed graph is forgotten with its company", large.company == 0.0 && large.spans == 0);
}

static void a_sample_pays_for_the_launches_that_it_stands_for(void)
{
  jvgpu_shape_t            shape = fresh();
  const jvgpu_shape_mark_t first = jvgpu_shape_mark(&shape);
  for (int i = 0; i < 10; i++) {
    jvgpu_shape_uncharged(&shape, i % 2 == 0);
  }
  const jvgpu_shape_mark_t second = jvgpu_shape_mark(&shape);
  CHECK("what was not known is charged by the first sample", jvgpu_shape_learn(&shape, 100 * US, 1, alone) == 1000000);
  CHECK("once", within(1 + jvgpu_shape_owed_ns(&shape, first, second, 100 * US), 1, 0.001));
  for (int i = 0; i < 10; i++) {
    jvgpu_shape_charged(&shape, i % 2 == 0, shape.duration_ns);
  }
  const jvgpu_shape_mark_t third = jvgpu_shape_mark(&shape);
  CHECK("launches that took longer than they were charged owe the rest",
        within(jvgpu_shape_owed_ns(&shape, second, third, 115 * US), 150 * US, 0.001));
  CHECK("and those that took less have it back",
        within(jvgpu_shape_owed_ns(&shape, second, third, 90 * US), -100 * US, -0.001));
}

// Catches a bug where a launch of 2 s was charged 4.3 for ever: its neighbour had come and gone within the first.
static void a_long_launch_is_in_doubt_until_seen_again(void)
{
  jvgpu_shape_t shape = fresh();
  jvgpu_shape_learn(&shape, 4300 * MS, 1, alone);
  CHECK("the first of a long launch is charged, and in doubt",
        shape.duration_ns == 4300000000 && jvgpu_shape_is_doubtful(&shape));
  jvgpu_shape_t steady = shape;
  jvgpu_shape_learn(&steady, 4300 * MS, 1, alone);
  CHECK("the next one settles it", !jvgpu_shape_is_doubtful(&steady));
  jvgpu_shape_learn(&shape, 2000 * MS, 1, watched);
  CHECK("or takes its place, less the turns it lost", shape.duration_ns == 2000000000);
}

int main(void)
{
  company_is_learned_of_each_shape();
  a_span_that_misled_is_made_good();
  clocks_that_change_are_no_company();
  a_sample_pays_for_the_launches_that_it_stands_for();
  clean_samples_are_averaged();
  lost_turns_do_not_count();
  a_cut_first_sample_is_forgotten();
  just_below_a_turn_the_rare_clean_ones_decide();
  what_was_seen_alone_is_kept_beside_others();
  who_seems_alone_beside_one_long_launch_keeps_its_figure();
  beyond_a_turn_the_watched_ones_decide();
  alone_long_launches_are_clean();
  a_long_launch_is_in_doubt_until_seen_again();
  work_that_changes_is_followed();
  work_that_takes_longer_or_shorter_by_its_arguments_has_its_mean();
  launches_before_the_first_sample_are_charged_after_it();
  guesses_only_lower_what_is_known();
  shapes_have_rows_of_their_own();
  RESULT();
}
