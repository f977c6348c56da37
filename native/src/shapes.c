#include "shapes.h"

#include <stddef.h>

#define MOST_PROBES 16u
// Samples that weigh in a mean: later ones push out earlier ones, since clocks change durations. Many: one function in
// one shape may take longer or shorter by its arguments, and then only a mean over many is right.
#define MEMORY 24u
// Beyond this part of the mean a sample is no noise. So many in a row on one side say that the clock, or the work, has
// changed, and weigh so much.
#define NEWS_PART 0.02
#define TREND_IN_A_ROW 4
#define TREND_WEIGHT 0.25
// Alone it is the clock sooner than anything else: two weigh half each.
#define TREND_ALONE 2
#define WEIGHT_ALONE 0.5
// Of the first ones each that is no noise counts for half: the very first may be far off.
#define FIRST 6u
// No clock makes so much of a difference, but arguments do; so long it is remembered.
#define VARIED_LEAST 0.7
#define VARIED_MOST 1.4
#define VARIED 32u
// So many samples in a row that do not fit are no accident: the work itself has changed. Few where others' turns are
// taken off, and more where they may be in it: so many cannot all be cut where any are watched.
#define WATCHED_IN_A_ROW 3u
#define BESIDE_IN_A_ROW 48u
// So many put what is known in doubt, and so do more than a third of all.
#define DOUBT_IN_A_ROW 3u
#define DOUBT_MORE 2u
#define DOUBT 6u
#define DOUBT_MOST 8u

#define MOST_RUN 256u
// One launch that is so short that it should be sampled in runs says this much less than a run does: the events' own cost
// is a large part of it.
// source: measured, H200: with neighbours pairs round single launches say +4 % at 20 µs, +11..17 % at 5 µs.
#define ROUGH_PART 0.125
// That cost, 0.8 and 0.55 to 0.85 µs there, is in each of them. source: the same; 0.65 on the simulated board.
#define ROUGH_NS 1000.0
// Alone a sample is taken in unless it is so many times what is known, or that part of it.
#define ALONE_TIMES 2.0
#define ALONE_RUN_TIMES 1.2
#define ALONE_IN_A_ROW 6u
// Who else is there is looked at before and after a sample.
#define LONG_NS 300000000.0
// A turn of another's adds at least this part of one.
#define LEAST_TURN_PART 0.7

// Beyond this above what is expected a sample was cut: a switch alone costs 200 µs.
#define CUT_NS 100000.0
#define CUT_PART 0.1
// A guess must be below what is known by this part to be believed.
#define GUESS_PART 0.9

// A span is taken for one with a turn of others' in it beyond so much above what is expected: a switch alone costs 200 µs.
#define SPAN_SHORT_CUT_NS 60000.0
#define SPAN_SHORT_CUT_PART 0.1
// One beside others changes what is known by no more than this.
#define SPAN_MOST_OFF 0.1
// One alone of which more than this part is of shapes whose samples move says nothing of company.
#define MOST_MOVING 0.75
// How many spans weigh in what company does to a shape, and what it can do at most.
#define SPAN_MEMORY 8u
#define LEAST_COMPANY (-0.7)
#define MOST_COMPANY 0.5

// source: measured, H200: two always-busy contexts together get 0.905 of what one alone gets.
#define SWITCHING_LEAVES 0.905

jvgpu_shape_t *jvgpu_shapes_search(jvgpu_shapes_t *shapes, uint64_t key)
{
  for (uint32_t probe = 0; probe < MOST_PROBES; probe++) {
    jvgpu_shape_t *row = &shapes->rows[((key >> 1) + probe) & (JVGPU_MOST_SHAPES - 1)];
    uint64_t       there = __atomic_load_n(&row->key, __ATOMIC_ACQUIRE);
    if (there == 0 && __atomic_compare_exchange_n(&row->key, &there, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      return row;
    }
    if (there == key) {
      return row;
    }
  }
  return &shapes->rest;
}

uint32_t jvgpu_shape_run(const jvgpu_shape_t *shape, double run_ns)
{
  if (shape->samples == 0 || shape->singly != 0 || shape->mean_ns * 2 > run_ns) {
    return 1;
  }
  const double launches = run_ns / (shape->mean_ns + 1);
  return launches > MOST_RUN ? MOST_RUN : (uint32_t)launches;
}

static double margin_of(double expected_ns)
{
  return CUT_NS + CUT_PART * expected_ns;
}

bool jvgpu_shape_is_doubtful(const jvgpu_shape_t *shape)
{
  return shape->mean_ns > 0 && (shape->samples == 0 || shape->doubt >= DOUBT ||
                                shape->odd >= (shape->mean_ns > JVGPU_TURN_NS / 2 ? 1u : DOUBT_IN_A_ROW));
}

// Beside others, not watched, and longer than a turn where that is no wonder.
static bool is_cut(const jvgpu_shape_t *shape, double elapsed_ns, uint32_t launches, jvgpu_how_t how)
{
  const double expected_ns = shape->mean_ns * launches;
  return how.contenders > 1 && !how.is_watched && elapsed_ns > JVGPU_TURN_NS &&
         (shape->samples == 0 ||
          (elapsed_ns > expected_ns + margin_of(expected_ns) && expected_ns > JVGPU_TURN_NS / 2));
}

// Launches look at it without the lock.
static void set_samples(jvgpu_shape_t *shape, uint32_t samples)
{
  __atomic_store_n(&shape->samples, samples, __ATOMIC_RELAXED);
}

static void start_over(jvgpu_shape_t *shape, double launch_ns)
{
  shape->mean_ns = launch_ns;
  set_samples(shape, 1);
  shape->odd = 0;
  shape->odd_sure = 0;
  shape->least_odd_ns = 0;
  shape->trend = 0;
}

static int8_t trend_with(int8_t trend, double off_ns, double noise_ns)
{
  if (off_ns > noise_ns) {
    return trend > 0 && trend < TREND_IN_A_ROW ? trend + 1 : trend > 0 ? trend : 1;
  }
  if (off_ns < -noise_ns) {
    return trend < 0 && trend > -TREND_IN_A_ROW ? trend - 1 : trend < 0 ? trend : -1;
  }
  return 0;
}

// Where arguments make a difference a row on one side is chance.
static bool is_moving(const jvgpu_shape_t *shape, int8_t in_a_row)
{
  return shape->is_varied == 0 && (shape->trend >= in_a_row || shape->trend <= -in_a_row);
}

static double weight_of(const jvgpu_shape_t *shape, jvgpu_how_t how)
{
  const bool   is_settling = shape->samples < FIRST && shape->is_varied == 0 && shape->trend != 0;
  const double weight = 1.0 / shape->samples;
  if (is_settling || (how.is_alone && is_moving(shape, TREND_ALONE))) {
    return WEIGHT_ALONE;
  }
  return is_moving(shape, TREND_IN_A_ROW) && weight < TREND_WEIGHT ? TREND_WEIGHT : weight;
}

// What events round one launch may add is in each of them, and no mean takes it out: within that they say what runs said.
static double beyond_rough(double off_ns)
{
  if (off_ns > ROUGH_NS) {
    return off_ns - ROUGH_NS;
  }
  return off_ns < -ROUGH_NS ? off_ns + ROUGH_NS : 0;
}

static void take_in(jvgpu_shape_t *shape, double launch_ns, jvgpu_how_t how)
{
  const double off_ns = launch_ns - shape->mean_ns;
  if (how.is_rough) {
    shape->mean_ns += beyond_rough(off_ns) * ROUGH_PART / shape->samples;
  } else {
    shape->trend = trend_with(shape->trend, off_ns, shape->mean_ns * NEWS_PART);
    set_samples(shape, shape->samples + (shape->samples < MEMORY));
    shape->mean_ns += off_ns * weight_of(shape, how);
  }
  shape->is_varied -= shape->is_varied != 0;
  shape->odd = 0;
  shape->odd_sure = 0;
  shape->least_odd_ns = 0;
}

static void doubt(jvgpu_shape_t *shape, bool is_far)
{
  if (!is_far) {
    shape->doubt -= shape->doubt != 0;
  } else if (shape->doubt < DOUBT_MOST) {
    shape->doubt += DOUBT_MORE;
  }
}

// It says that the shape is in doubt, and where nothing is known makes a first guess, by the part of the turns that would
// be this context's; the next sample that is clean or watched replaces it.
static void learn_cut(jvgpu_shape_t *shape, double elapsed_ns, uint32_t launches, jvgpu_how_t how)
{
  if (shape->samples == 0 && shape->mean_ns == 0) {
    start_over(shape, elapsed_ns * SWITCHING_LEAVES / how.contenders / launches);
    set_samples(shape, 0);
  } else if (shape->odd == 0) {
    shape->odd = 1;
  }
}

static bool is_believed(jvgpu_shape_t *shape, double launch_ns, jvgpu_how_t how)
{
  // Others' turns only ever add: of those in a row the shortest has least of them.
  shape->least_odd_ns = shape->least_odd_ns == 0 || launch_ns < shape->least_odd_ns ? launch_ns : shape->least_odd_ns;
  shape->odd += shape->odd < BESIDE_IN_A_ROW;
  shape->odd_sure += how.is_watched || launch_ns < shape->mean_ns;
  return shape->odd_sure >= WATCHED_IN_A_ROW || shape->odd >= (how.contenders > 1 ? BESIDE_IN_A_ROW : ALONE_IN_A_ROW);
}

static void learn_clean(jvgpu_shape_t *shape, double elapsed_ns, uint32_t launches, jvgpu_how_t how)
{
  const double expected_ns = shape->mean_ns * launches;
  const double margin_ns = margin_of(expected_ns);
  const double launch_ns = elapsed_ns / launches;

  const bool is_short = elapsed_ns < expected_ns - margin_ns;
  const bool is_long = elapsed_ns > expected_ns + margin_ns;

  doubt(shape, shape->samples != 0 && (is_short || is_long));
  if (shape->samples == 0 || (is_short && shape->is_varied == 0)) {
    // The first, or the first clean one after cut ones were taken for clean.
    start_over(shape, launch_ns);
  } else if (shape->is_varied != 0 && !how.is_sure && (is_short || is_long)) {
    // Long ones look cut, and many are: the short ones alone would make a mean that is too small.
    shape->is_varied -= 1;
  } else if (how.is_sure || !is_long) {
    shape->is_varied = how.is_sure && is_long ? VARIED : shape->is_varied;
    take_in(shape, launch_ns, how);
  } else if (is_believed(shape, launch_ns, how)) {
    start_over(shape, shape->least_odd_ns);
  }
}

// Who is at one launch for seconds is no contender to the agent, and takes whole turns all the same.
static bool may_hold_turn(double elapsed_ns, double expected_ns)
{
  return elapsed_ns > expected_ns + JVGPU_TURN_NS * LEAST_TURN_PART;
}

bool jvgpu_shapes_is_cut_alone(double elapsed_ns, double expected_ns)
{
  return elapsed_ns > expected_ns * ALONE_RUN_TIMES && may_hold_turn(elapsed_ns, expected_ns);
}

bool jvgpu_shape_agrees(const jvgpu_shape_t *shape, double elapsed_ns, uint32_t launches)
{
  const double expected_ns = shape->mean_ns * launches;
  const bool   is_cut_run = launches > 1 && jvgpu_shapes_is_cut_alone(elapsed_ns, expected_ns);
  return shape->samples != 0 && !is_cut_run && elapsed_ns < expected_ns * ALONE_TIMES + CUT_NS / 10 &&
         elapsed_ns > expected_ns / ALONE_TIMES - CUT_NS / 10;
}

static bool is_far(const jvgpu_shape_t *shape, double launch_ns)
{
  return launch_ns > shape->mean_ns * VARIED_MOST || (shape->samples > 1 && launch_ns < shape->mean_ns * VARIED_LEAST);
}

// Nobody else has the GPU: what differs is the clock, or the work.
static void learn_alone(jvgpu_shape_t *shape, double elapsed_ns, uint32_t launches, jvgpu_how_t how)
{
  const double launch_ns = elapsed_ns / launches;
  const bool   agrees = jvgpu_shape_agrees(shape, elapsed_ns, launches);
  if (shape->samples == 0 || (!agrees && launch_ns < shape->mean_ns && (!how.is_sure || shape->is_varied == 0))) {
    start_over(shape, launch_ns);
    // Somebody may have come and gone meanwhile: watch the next one.
    shape->odd = elapsed_ns > LONG_NS ? 1 : 0;
  } else if (agrees || (how.is_sure && !may_hold_turn(elapsed_ns, shape->mean_ns * launches))) {
    shape->is_varied = how.is_sure && is_far(shape, launch_ns) ? VARIED : shape->is_varied;
    take_in(shape, launch_ns, how);
  } else if (is_believed(shape, launch_ns, how)) {
    start_over(shape, shape->least_odd_ns);
  }
}

static void learn_rough(jvgpu_shape_t *shape, double launch_ns, jvgpu_how_t how)
{
  jvgpu_rough_add(how.is_sure ? &shape->sure : &shape->rough, launch_ns);
  start_over(shape, jvgpu_rough_best_ns(&shape->sure, &shape->rough));
  const uint32_t seen = shape->sure.seen + shape->rough.seen;
  set_samples(shape, seen < MEMORY ? seen : MEMORY);
}

// Let launches be charged by what is known now.
static uint64_t publish(jvgpu_shape_t *shape)
{
  const uint64_t known_ns = (uint64_t)(shape->mean_ns * (1.0 + shape->company) + 0.5);
  const uint64_t uncharged = __atomic_exchange_n(&shape->uncharged, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&shape->duration_ns, known_ns > 0 ? known_ns : 1, __ATOMIC_RELAXED);
  shape->late_ns = uncharged != 0 ? known_ns : shape->late_ns;
  return uncharged * known_ns;
}

uint64_t jvgpu_shape_learn(jvgpu_shape_t *shape, double elapsed_ns, uint32_t launches, jvgpu_how_t how)
{
  const uint32_t before = shape->samples;
  const bool     is_first_run = launches > 1 && !shape->has_runs;
  elapsed_ns = elapsed_ns < 0 ? 0 : elapsed_ns;
  how.is_rough = launches == 1 && shape->has_runs && shape->mean_ns * 2 < JVGPU_RUN_NS;
  if (is_first_run) {
    // Whatever single launches said was a first guess.
    set_samples(shape, 0);
  }
  if (how.is_of_streams) {
    learn_rough(shape, elapsed_ns / launches, how);
  } else if (how.contenders <= 1) {
    learn_alone(shape, elapsed_ns, launches, how);
  } else if (is_cut(shape, elapsed_ns, launches, how)) {
    learn_cut(shape, elapsed_ns, launches, how);
  } else {
    learn_clean(shape, elapsed_ns, launches, how);
  }
  shape->has_runs = shape->has_runs || (is_first_run && shape->samples != 0);
  set_samples(shape, shape->samples == 0 ? before : shape->samples);
  return publish(shape);
}

uint64_t jvgpu_shape_guess(jvgpu_shape_t *shape, double elapsed_ns)
{
  elapsed_ns = elapsed_ns < 0 ? 0 : elapsed_ns;
  if (shape->samples == 0 || elapsed_ns < shape->mean_ns * GUESS_PART) {
    start_over(shape, elapsed_ns);
  }
  return publish(shape);
}

jvgpu_shape_mark_t jvgpu_shape_mark(const jvgpu_shape_t *shape)
{
  jvgpu_shape_mark_t mark = {.made = 0};
  for (int i = 0; i < 2; i++) {
    mark.made += __atomic_load_n(&shape->so_far[i].made, __ATOMIC_RELAXED);
    mark.unknown += __atomic_load_n(&shape->so_far[i].unknown, __ATOMIC_RELAXED);
    mark.sum_ns += __atomic_load_n(&shape->so_far[i].sum_ns, __ATOMIC_RELAXED);
  }
  return mark;
}

double jvgpu_shape_owed_ns(const jvgpu_shape_t *shape, jvgpu_shape_mark_t from, jvgpu_shape_mark_t to, double launch_ns)
{
  const double late_ns = (double)(to.unknown - from.unknown) * (double)shape->late_ns;
  const double charged_ns = (double)(to.sum_ns - from.sum_ns) + late_ns;
  return (double)(to.made - from.made) * launch_ns * (1.0 + shape->company) - charged_ns;
}

static double kept_within(double figure, double least, double most)
{
  return figure < least ? least : figure > most ? most : figure;
}

// returns: whether they are of more than one shape.
static bool is_company(jvgpu_shape_t *const *shapes, uint32_t count)
{
  for (uint32_t i = 1; i < count; i++) {
    if (shapes[i] != shapes[0]) {
      return true;
    }
  }
  return false;
}

void jvgpu_shapes_learn_span(jvgpu_shape_t *const *shapes, uint32_t count, double elapsed_ns, bool is_alone,
                             uint32_t number)
{
  double expected_ns = 0, by_means_ns = 0, moving_ns = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (shapes[i]->samples == 0) {
      return;
    }
    moving_ns += is_moving(shapes[i], TREND_ALONE) ? shapes[i]->mean_ns : 0;
    by_means_ns += shapes[i]->mean_ns;
    expected_ns += shapes[i]->mean_ns * (1.0 + shapes[i]->company);
  }
  // Where nearly all of it moves, as under a clock that changes, that would be taken for company and made good twice.
  if (expected_ns <= 0 || elapsed_ns <= 0 || (is_alone && moving_ns > by_means_ns * MOST_MOVING)) {
    return;
  }
  // What a span showed wrongly must not hide from the next: what is known by samples is no cut.
  const double most_ns = by_means_ns > expected_ns ? by_means_ns : expected_ns;
  if (is_alone ? may_hold_turn(elapsed_ns, most_ns)
               : elapsed_ns > most_ns + SPAN_SHORT_CUT_NS + SPAN_SHORT_CUT_PART * most_ns) {
    return;
  }
  // Beyond the cut above none counts: that those below weigh no more, neither side may pull far. Launches of one shape
  // are no company: a run of them says more.
  const double most_off = is_alone ? 0.5 : SPAN_MOST_OFF;
  const double seen_ns = is_company(shapes, count) ? elapsed_ns : by_means_ns;
  const double off = kept_within(seen_ns / expected_ns - 1.0, -most_off, most_off);
  for (uint32_t i = 0; i < count; i++) {
    jvgpu_shape_t *shape = shapes[i];
    if (shape->last_span == number) {
      continue;
    }
    shape->last_span = number;
    shape->spans += shape->spans < SPAN_MEMORY;
    shape->company =
        kept_within((1.0 + shape->company) * (1.0 + off / (1 + shape->spans)) - 1.0, LEAST_COMPANY, MOST_COMPANY);
    __atomic_store_n(&shape->duration_ns, (uint64_t)(shape->mean_ns * (1.0 + shape->company) + 1.0), __ATOMIC_RELAXED);
  }
}

void jvgpu_shape_forget(jvgpu_shape_t *shape)
{
  set_samples(shape, 0);
  shape->odd = 0;
  shape->odd_sure = 0;
  shape->least_odd_ns = 0;
  shape->doubt = 0;
  shape->is_varied = 0;
  shape->trend = 0;
  shape->has_runs = false;
  shape->sure = (jvgpu_rough_t){.seen = 0};
  shape->rough = (jvgpu_rough_t){.seen = 0};
  shape->mean_ns = 0;
  shape->company = 0;
  shape->spans = 0;
  __atomic_store_n(&shape->duration_ns, 0, __ATOMIC_RELAXED);
}
