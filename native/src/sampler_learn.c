// Learning: what samples that are over say, taken into the shapes. The sampler's lock is held.

#include "rough.h"
#include "sampler_parts.h"

// A pair of events costs this much of the GPU's own time when nothing is between them.
// source: measured, H200: 1.28 µs, whether the stream had work before it or not.
#define PAIR_NS 1280.0
// Where the GPU waits for the launch, the pair also spans the host's way from the first event to the
// launch, which is timed, and this much more.
// source: measured, H200: 4.7..5.1 µs for a host way of 4.1..4.2 µs.
#define IDLE_EXTRA_NS 650.0

// For so long after a sample that lay within a window of the process's own others count only if they are sure, of shapes of
// which so many were taken.
#define CLEAR_COUNTS_NS UINT64_C(250000000)
#define SETTLED_SAMPLES 6u

// Later than this the second event may have come after the launch's end, where the launch was short.
#define MOST_LATE_NS 4000.0
#define LATE_SPARE_NS 2000.0
// A launch takes the host no longer than this, unless it was held up, and then perhaps while the GPU was at it.
#define MOST_HOST_NS 50000.0

// Who else wants the GPU is known so much later, and some of what is under way was made before.
#define SURELY_ALONE_NS UINT64_C(300000000)

// What is left of a sample when lost turns are taken off, within a tenth of a millisecond each, is sure beyond this.
#define LOST_MATTERS_NS 500000.0

// Launches that are so long are few.
#define LONG_LAUNCH_NS 100000000.0

// Samples of one launch at a time after a run that the host could not keep queued.
#define SINGLY_SAMPLES 8

// Launches of several shapes over several streams are first guesses, which may be too long or too short by so much.
#define MOST_OVERLAP 4.0
#define OVERLAP_MEMORY 8
// So many in a row that were not all queued, and they count.
#define MOST_UNQUEUED 32u

static void take_overlap(jvgpu_sampler_t *sampler, double overlap)
{
  sampler->overlap = overlap > MOST_OVERLAP ? MOST_OVERLAP : overlap;
  const bool is_one = sampler->overlap > 0.995 && sampler->overlap < 1.005;
  __atomic_store_n(&sampler->overlap_ppm, is_one ? 1000000 : (uint64_t)(sampler->overlap * 1e6), __ATOMIC_RELAXED);
}

void jvgpu_sampler_set_overlap(jvgpu_sampler_t *sampler, double seen)
{
  take_overlap(sampler, sampler->overlap + (seen - sampler->overlap) / OVERLAP_MEMORY);
}

// A span over several streams, of launches of several shapes, lasted `seen` times what they are charged by themselves.
void jvgpu_sampler_learn_overlap(jvgpu_sampler_t *sampler, double seen, bool was_queued, bool is_alone)
{
  sampler->unqueued = was_queued ? 0 : sampler->unqueued + 1;
  if (is_alone && was_queued) {
    sampler->seen_count = 0;
    jvgpu_sampler_set_overlap(sampler, seen);
    return;
  }
  if (!was_queued && sampler->seen_queued && sampler->unqueued < MOST_UNQUEUED) {
    return;
  }
  if (was_queued != sampler->seen_queued) {
    sampler->seen_queued = was_queued;
    sampler->seen_count = 0;
  }
  // Others' turns only ever add, and streams do not always go round evenly: the shortest that agree count. Where the GPU
  // waited for the host it took no longer than that: a program that was charged too much may have so little under way
  // that it always does.
  sampler->seen[sampler->seen_count++ % JVGPU_SPANS_KEPT] = (float)seen;
  const uint32_t kept = sampler->seen_count < JVGPU_SPANS_KEPT ? sampler->seen_count : JVGPU_SPANS_KEPT;
  const double   overlap = jvgpu_rough_agreed(sampler->seen, kept);
  if (overlap > 0 && (was_queued || overlap < sampler->overlap)) {
    take_overlap(sampler, overlap);
  }
}

static void learn_span(jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample, double elapsed_ns, bool is_alone)
{
  const double own_ns = elapsed_ns - PAIR_NS;
  sampler->spans += 1;
  if (sampler->streams < 2) {
    const uint32_t next = sample->was_queued ? sampler->span_launches * 2 : sampler->span_launches / 2;
    sampler->span_launches = next < JVGPU_LEAST_SPAN  ? JVGPU_LEAST_SPAN
                             : next > JVGPU_MOST_SPAN ? JVGPU_MOST_SPAN
                                                      : next;
    // Not where a launch between slipped past, as between threads.
    if (sample->was_queued && sample->spanned == sample->launches) {
      jvgpu_shapes_learn_span(sample->shapes, sample->spanned, own_ns, is_alone, sampler->spans);
    }
    return;
  }
  if (sample->charged_ns > 0 && own_ns > 0) {
    jvgpu_sampler_learn_overlap(sampler, own_ns / sample->charged_ns, sample->was_queued, is_alone);
  }
}

// The GPU waited for this launch: what the host did meanwhile is known, and taken off, if the stream
// was idle. A host that was held up after the launch does not matter where the launch took longer than that.
static bool is_usable_unqueued(const jvgpu_sample_t *sample, double own_ns)
{
  return !sample->is_over && sample->was_idle && own_ns > 0 && sample->host_ns < MOST_HOST_NS &&
         (sample->late_ns < MOST_LATE_NS || own_ns > sample->late_ns + LATE_SPARE_NS);
}

// What the launches that a sample stands for, from its own to the next that was sampled, were charged too little. Beside
// others little is under way, and what was charged was known a moment before.
static double owed_ns(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample, double own_ns, uint32_t contenders)
{
  if (contenders > 1 || sampler->streams > 1 || !__atomic_load_n(&sampler->is_free, __ATOMIC_RELAXED) ||
      jvgpu_stretch_is_within(sampler, sample) || !jvgpu_shape_agrees(sample->shape, own_ns, sample->launches)) {
    return 0;
  }
  return jvgpu_shape_owed_ns(sample->shape, sample->from,
                             sample->has_next ? sample->to : jvgpu_shape_mark(sample->shape),
                             own_ns / sample->launches);
}

// A launch of its own sample, so long that it was charged by what one or two before it were seen to take, is made good.
static double long_owed_ns(const jvgpu_sample_t *sample, double own_ns, jvgpu_how_t how)
{
  const bool counts = how.contenders > 1 && how.is_sure && !sample->is_over && sample->known_ns != 0;
  return counts && own_ns > LONG_LAUNCH_NS ? own_ns - (double)sample->known_ns : 0;
}

// It took no longer than that. Too much rather than nothing: what is not known is never free, and the first clean sample
// takes its place. Among other streams a launch takes long, and little of it is its own: a first guess, no more.
static uint64_t guess(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, double most_ns)
{
  if (sampler->streams < 2) {
    return jvgpu_shape_guess(shape, most_ns);
  }
  if (shape->mean_ns > 0) {
    return 0;
  }
  sampler->seen_count = 0;
  return (uint64_t)(sampler->overlap * (double)jvgpu_shape_guess(shape, most_ns / sampler->streams));
}

static bool is_alone(jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample, uint32_t contenders)
{
  const uint64_t now_ns = jvgpu_now_ns();
  if (contenders > 1 || sample->is_contended || sampler->beside_ns == 0) {
    sampler->beside_ns = now_ns;
  }
  return sample->made_ns > (double)(sampler->beside_ns + SURELY_ALONE_NS);
}

// Who has windows is measured in them: where a turn may be in a sample, and lengths differ, those that look right are the
// short ones.
static bool is_seen_clear(const jvgpu_sampler_t *sampler, const jvgpu_shape_t *shape)
{
  return shape->samples >= SETTLED_SAMPLES && sampler->clear_seen_ns != 0 &&
         jvgpu_now_ns() - sampler->clear_seen_ns < CLEAR_COUNTS_NS;
}

// What launches are charged that were made before it was known how long they take is no more than the time since the first
// of them.
static int64_t clipped(const jvgpu_shape_t *shape, uint64_t late_ns)
{
  const uint64_t since_ns = __atomic_load_n(&shape->unknown_since_ns, __ATOMIC_RELAXED);
  const uint64_t most_ns = since_ns != 0 ? jvgpu_now_ns() - since_ns : 0;
  return (int64_t)(since_ns != 0 && late_ns > most_ns ? most_ns : late_ns);
}

static int64_t learn(jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample, uint32_t contenders)
{
  float       elapsed_ms = 0;
  double      lost_ns = 0;
  jvgpu_how_t how = {.contenders = contenders};
  if (jvgpu_real.cuEventElapsedTime(&elapsed_ms, sample->begun, sample->ended) != CUDA_SUCCESS) {
    return 0;
  }
  const double elapsed_ns = (double)elapsed_ms * 1e6;
  if (elapsed_ns < 0) {
    return 0;  // no launch ends before it begins: taken for a short one it would make all others free
  }
  // After the sample was seen to be over: nobody else was let in before that.
  const bool is_clear = sample->clear_ns != 0 && sampler_clear_ns(sampler) == sample->clear_ns;
  const bool is_beside = !is_clear && (sample->is_contended || (sample->clear_ns != 0 && contenders > 1));
  // The agent counts processes that launched within the last second, which this one then has not.
  how.contenders = is_clear ? 1 : is_beside && contenders < 2 ? 2 : contenders;
  how.contenders += (double)jvgpu_now_ns() - sample->made_ns > (double)JVGPU_COUNTED_NS;
  how.is_alone = is_clear ? how.contenders == 1 : is_alone(sampler, sample, contenders);
  sampler->clear_seen_ns = is_clear ? jvgpu_now_ns() : sampler->clear_seen_ns;
  if (how.is_alone) {
    jvgpu_sampler_note_known(sampler);
  }
  if (sample->is_mark) {
    return 0;
  }
  if (sampler->streams > 1 && (sample->shape == NULL || sample->is_over) && how.contenders > 1 &&
      jvgpu_sampler_has_had(sampler)) {
    return 0;
  }
  if (sample->shape == NULL) {
    learn_span(sampler, sample, elapsed_ns, how.is_alone);
    return 0;
  }
  how.is_watched = jvgpu_pulse_answer(&sampler->pulse, sample->watch, &lost_ns) == JVGPU_WATCHED_WHOLE;
  how.is_of_streams = sample->was_full || (sample->was_queued && sample->is_over && sampler->streams > 1);
  how.is_sure = sample->was_full ||
                (sample->was_queued &&
                 (how.is_alone || (how.is_watched && (lost_ns <= 0 || elapsed_ns - lost_ns > LOST_MATTERS_NS))));
  const bool   is_whole = sample->was_queued || sample->was_full;
  const double own_ns = elapsed_ns - lost_ns - (is_whole ? PAIR_NS : sample->host_ns + IDLE_EXTRA_NS);
  if (how.contenders > 1 && !how.is_sure && is_seen_clear(sampler, sample->shape)) {
    return 0;
  }
  if (own_ns <= 0 && lost_ns > 0) {
    return 0;  // more was taken off than there was: launches would be free
  }
  if (!is_whole && !is_usable_unqueued(sample, own_ns)) {
    sample->shape->singly = sample->is_over ? SINGLY_SAMPLES : sample->shape->singly;
    return sample->is_over ? 0 : clipped(sample->shape, guess(sampler, sample->shape, elapsed_ns - lost_ns - PAIR_NS));
  }
  sample->shape->singly -= sample->shape->singly != 0;
  if (sample->is_over && sampler->streams > 1) {
    // A run over several streams has their overlap in it already.
    jvgpu_sampler_set_overlap(sampler, 1.0);
  }
  if (!is_whole && how.contenders > 1 && !how.is_watched) {
    // Another may have had the GPU in the host's pause, and for how long nobody knows.
    return clipped(sample->shape, jvgpu_shape_guess(sample->shape, own_ns));
  }
  if (!sample->is_over && sampler->streams > 1) {
    return clipped(sample->shape, guess(sampler, sample->shape, own_ns));
  }
  const uint64_t late_ns = jvgpu_shape_learn(sample->shape, own_ns, sample->launches, how);
  sampler->varied_ns = sample->shape->is_varied != 0 ? jvgpu_now_ns() : sampler->varied_ns;
  return clipped(sample->shape, late_ns) + (int64_t)owed_ns(sampler, sample, own_ns, how.contenders) +
         (int64_t)long_owed_ns(sample, own_ns, how);
}

// returns: whether all is known of a sample that ever will be.
static bool is_done(const jvgpu_sampler_t *sampler, const jvgpu_sample_t *sample)
{
  double lost_ns;
  return __atomic_load_n(&sample->state, __ATOMIC_ACQUIRE) == JVGPU_SAMPLE_PENDING &&
         jvgpu_real.cuEventQuery(sample->ended) == CUDA_SUCCESS && jvgpu_stretch_is_over(sampler, sample) &&
         jvgpu_pulse_answer(&sampler->pulse, sample->watch, &lost_ns) != JVGPU_WATCHED_NOT_YET;
}

jvgpu_late_t jvgpu_sampler_learn(jvgpu_sampler_t *sampler, uint32_t contenders)
{
  jvgpu_late_t late = {.ns = 0};
  for (int i = 0; i < JVGPU_MOST_SAMPLES; i++) {
    jvgpu_sample_t *sample = &sampler->samples[i];
    if (is_done(sampler, sample)) {
      const int64_t more_ns = learn(sampler, sample, contenders) + jvgpu_stretch_owed_ns(sampler, sample, contenders);
      late.ns += more_ns;
      if (more_ns != 0) {
        const jvgpu_shape_t *shape = sample->shape != NULL ? sample->shape : sample->shapes[0];
        const uint32_t       sm_ppm = __atomic_load_n(&shape->sm_ppm, __ATOMIC_RELAXED);
        late.sm_ns += (int64_t)((double)more_ns * sm_ppm / 1e6);
      }
      // Release: who takes it next begins where this ends.
      __atomic_store_n(&sample->state, JVGPU_SAMPLE_FREE, __ATOMIC_RELEASE);
    }
  }
  return late;
}
