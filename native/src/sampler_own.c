// What a program of many streams takes, seen while the device is its own (own.h). Of several streams no event tells as much:
// where each began and ended among the others is not known, and beside others less.

#include "sampler_parts.h"

// What a stretch was charged may be off so much, and is still of one shape: what is known of it changes meanwhile.
#define SAME_PART 0.1
// What is so much shorter or longer than was believed was counted badly: it is a better guess.
#define NEWS_PART 0.2
// So long after a sample that says so a program's launches vary with their arguments.
#define VARIED_COUNTS_NS UINT64_C(1000000000)
// Over more streams than this events tell little beside others.
#define MOST_TOLD_STREAMS 4u
// So many stretches of that are enough: one counts fences, which are too few where the guess was too short.
#define ENOUGH_HADS 3u
// So long it is believed what was seen while the device was this process's own, before it is looked at again.
#define HAD_COUNTS_NS UINT64_C(4000000000)
// And so long events of many streams beside others say nothing then.
#define HAD_NS (2 * HAD_COUNTS_NS)
// Who has not been seen at all for as long as this may never be: who is capped, or in a gang, has no window for it.
#define BLIND_NS UINT64_C(2000000000)

bool jvgpu_sampler_has_had(const jvgpu_sampler_t *sampler)
{
  return sampler->had_ns != 0 && jvgpu_now_ns() - sampler->had_ns < HAD_NS;
}

// Launches of one shape, if what they were charged is what it takes.
static jvgpu_shape_t *only_shape(const jvgpu_sampler_t *sampler, jvgpu_had_t had)
{
  jvgpu_shape_t *shape = sampler->is_mixed ? NULL : sampler->last_shape;
  if (shape == NULL) {
    return NULL;
  }
  const double known_ns = (double)__atomic_load_n(&shape->duration_ns, __ATOMIC_RELAXED);
  const double off_ns = (double)had.charged_ns - known_ns * sampler->overlap * had.launches;
  const double most_ns = (double)had.charged_ns * SAME_PART;
  return off_ns <= most_ns && off_ns >= -most_ns ? shape : NULL;
}

// What was seen beside others counts no more.
static void forget_guesses(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape)
{
  sampler->hads = 0;
  sampler->seen_count = 0;
  if (shape != NULL) {
    shape->sure.seen = 0;
    shape->rough.seen = 0;
  }
}

static uint64_t charged_so_far(const jvgpu_sampler_t *sampler)
{
  return __atomic_load_n(&sampler->charged_ns[0], __ATOMIC_RELAXED) +
         __atomic_load_n(&sampler->charged_ns[1], __ATOMIC_RELAXED);
}

// What launches take was seen while nobody else had the GPU: what is charged from here on is no guess.
void jvgpu_sampler_note_known(jvgpu_sampler_t *sampler)
{
  sampler->known_ns = jvgpu_now_ns();
  sampler->known_charged_ns = charged_so_far(sampler);
  sampler->known_launches = jvgpu_sampler_launches(sampler);
  sampler->is_owed = false;
  __atomic_store_n(&sampler->held_back_ns, 0, __ATOMIC_RELAXED);
}

// What was charged by guesses is made good, up to all of the time that there was. `shape`: of all launches, NULL = of
// several the stretch says by how much they were wrong. returns: what is still to be charged, less than 0: to give back.
static int64_t guessed_wrong_ns(const jvgpu_sampler_t *sampler, const jvgpu_shape_t *shape, jvgpu_had_t had)
{
  if (sampler->known_ns == 0 || had.charged_ns == 0) {
    return 0;
  }
  const uint32_t launches = jvgpu_sampler_launches(sampler) - sampler->known_launches;
  const double   charged_ns = (double)(charged_so_far(sampler) - sampler->known_charged_ns);
  const double   time_ns = (double)(jvgpu_now_ns() - sampler->known_ns);
  const double   right_ns = shape != NULL ? (double)launches * (double)shape->duration_ns
                                          : charged_ns * (double)had.ns / (double)had.charged_ns;
  const double   net_ns = charged_ns - (double)__atomic_load_n(&sampler->held_back_ns, __ATOMIC_RELAXED);
  return (int64_t)((right_ns < time_ns ? right_ns : time_ns) - (net_ns > 0 ? net_ns : 0));
}

// Of several streams no event tells as much: where each began and ended among the others is not known.
static int64_t learn_had(jvgpu_sampler_t *sampler, jvgpu_had_t had, double *times)
{
  const jvgpu_how_t how = {.contenders = 1, .is_sure = true, .is_of_streams = true, .is_alone = true};
  const int64_t     missing_ns = (int64_t)had.ns - (int64_t)had.charged_ns;
  jvgpu_shape_t    *shape = only_shape(sampler, had);
  if (shape == NULL && (!sampler->is_mixed || had.charged_ns == 0)) {
    return 0;
  }
  if (!had.is_all && missing_ns > 0) {
    return 0;  // it took no longer than that, and was not charged more
  }
  sampler->is_owed = sampler->is_owed || !jvgpu_sampler_has_had(sampler);
  if (!jvgpu_sampler_has_had(sampler) || sampler->hads == 0) {
    forget_guesses(sampler, shape);
  }
  sampler->had_ns = jvgpu_now_ns();
  sampler->hads += had.is_all;
  int64_t late_ns = 0;
  if (shape == NULL) {
    jvgpu_sampler_learn_overlap(sampler, (double)had.ns / ((double)had.charged_ns / sampler->overlap), true, true);
  } else {
    const double before_ns = (double)shape->duration_ns;
    late_ns = (int64_t)jvgpu_shape_learn(shape, (double)had.ns, had.launches, how);
    jvgpu_sampler_set_overlap(sampler, 1.0);
    // Fences were set by what was known: too rarely, or for too few launches at a time.
    const double now_ns = (double)shape->duration_ns;
    if (before_ns > 0 && (now_ns > before_ns * (1 + NEWS_PART) || now_ns < before_ns * (1 - NEWS_PART))) {
      sampler->hads = 0;
      *times = now_ns / before_ns;
    }
  }
  if (sampler->is_owed && shape != NULL && sampler->hads == 0) {
    return 0;  // a better guess: what is owed is known by the next
  }
  // All of that is one thing: launches of before that were charged too little.
  const int64_t more_ns = missing_ns > late_ns ? missing_ns : late_ns;
  const int64_t owed_ns = sampler->is_owed ? guessed_wrong_ns(sampler, shape, had) : more_ns;
  jvgpu_sampler_note_known(sampler);
  return owed_ns;
}

void jvgpu_sampler_note_guess(jvgpu_sampler_t *sampler)
{
  // Samples may be rare: who is charged too little has few.
  const uint64_t seen = __atomic_load_n(&sampler->streams_seen, __ATOMIC_RELAXED);
  const bool     are_many = sampler->streams > MOST_TOLD_STREAMS || __builtin_popcountll(seen) > (int)MOST_TOLD_STREAMS;
  const uint64_t now_ns = jvgpu_now_ns();
  const bool     is_known = sampler->hads >= ENOUGH_HADS;
  const bool     is_seen = is_known && now_ns - sampler->had_ns <= HAD_COUNTS_NS;
  if (!are_many || is_known) {
    sampler->blind_ns = 0;
  } else if (sampler->blind_ns == 0) {
    sampler->blind_ns = now_ns;
  }
  const bool is_blind = sampler->blind_ns != 0 && now_ns - sampler->blind_ns < BLIND_NS;
  __atomic_store_n(&sampler->is_blind, is_blind, __ATOMIC_RELAXED);
  __atomic_store_n(&sampler->is_guess, are_many && !is_seen, __ATOMIC_RELAXED);
}

// Of one stream the sum is right, whatever each of its launches takes.
static int64_t learn_sum(const jvgpu_sampler_t *sampler, jvgpu_had_t had)
{
  const bool is_varied = sampler->varied_ns != 0 && jvgpu_now_ns() - sampler->varied_ns < VARIED_COUNTS_NS;
  return is_varied && had.is_all ? (int64_t)had.ns - (int64_t)had.charged_ns : 0;
}

jvgpu_late_t jvgpu_sampler_had(jvgpu_sampler_t *sampler, jvgpu_had_t had, double *times)
{
  jvgpu_late_t late = {.ns = 0};
  if (sampler_try_lock(sampler)) {
    late.ns = sampler->streams > 1 ? learn_had(sampler, had, times) : learn_sum(sampler, had);
    late.sm_ns = late.ns;
    if (sampler->last_shape != NULL) {
      const uint32_t sm_ppm = __atomic_load_n(&sampler->last_shape->sm_ppm, __ATOMIC_RELAXED);
      late.sm_ns = (int64_t)((double)late.ns * sm_ppm / 1e6);
    }
    jvgpu_sampler_note_guess(sampler);
    jvgpu_unlock(&sampler->lock);
  }
  return late;
}
