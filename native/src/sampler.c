#include "sampler.h"

#include "paced.h"
#include "sampler_parts.h"

// The way of a launch from the host to the GPU, and of an event's end back, with room to spare. Only
// an event that is not done so long after the launch shows that the launch was there before it.
// source: measured, H200: an idle GPU has done an event 4 µs after it was recorded.
#define ARRIVED_NS 5000.0

// A span takes in so many launches of each stream; of a single one as many as the host keeps queued, within these
// bounds.
#define SPAN_LAUNCHES_A_STREAM 6u
#define SPANS_EVERY 3u
// A mark takes in so many: long enough that the next sample begins before the GPU has done them.
#define MARK_LAUNCHES 8u
// So many times in a row the GPU had nothing to do when a run was to begin.
#define IDLE_IN_A_ROW 8u

void jvgpu_sampler_start(jvgpu_sampler_t *sampler)
{
  sampler->run.sample = -1;
  sampler->span.sample = -1;
  sampler->newest = -1;
  sampler->span_launches = JVGPU_LEAST_SPAN;
  sampler->run_alone_ns = (uint64_t)JVGPU_RUN_ALONE_NS;
  sampler->overlap = 1.0;
  sampler->overlap_ppm = 1000000;
}

// --- making samples: the lock is held --------------------------------------------------------------------------

static bool prepare(jvgpu_sampler_t *sampler)
{
  CUcontext ctx = NULL;
  if (sampler->failed || jvgpu_real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS || ctx == NULL) {
    return false;
  }
  if (sampler->ctx != NULL) {
    return sampler->ctx == ctx;  // a second context on the device is charged by what the first has shown
  }
  for (int i = 0; i < JVGPU_MOST_SAMPLES; i++) {
    if (jvgpu_real.cuEventCreate(&sampler->samples[i].begun, 0) != CUDA_SUCCESS ||
        jvgpu_real.cuEventCreate(&sampler->samples[i].ended, 0) != CUDA_SUCCESS) {
      sampler->failed = true;
      return false;
    }
  }
  sampler->ctx = ctx;
  return true;
}

// From here on `sample` stands for the launches of its shape, and the one before does not.
static void mark(jvgpu_sampler_t *sampler, jvgpu_sample_t *sample)
{
  sample->from = jvgpu_shape_mark(sample->shape);
  for (int i = 0; i < JVGPU_MOST_SAMPLES; i++) {
    jvgpu_sample_t *before = &sampler->samples[i];
    if (before != sample && __atomic_load_n(&before->state, __ATOMIC_ACQUIRE) != JVGPU_SAMPLE_FREE &&
        before->shape == sample->shape && !before->has_next) {
      before->has_next = true;
      before->to = sample->from;
      before->stretch.to = sampler->stretches;
    }
  }
}

// returns: the index of a sample whose first event is recorded on `stream`, or -1.
static int begin(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, CUstream stream, const jvgpu_stream_calls_t *calls,
                 uint32_t contenders)
{
  // Over several streams windows are measured as a whole (sampler_own.c).
  const uint64_t clear_ns = sampler->streams < 2 ? sampler_clear_ns(sampler) : 0;
  for (int i = 0; i < JVGPU_MOST_SAMPLES; i++) {
    jvgpu_sample_t *sample = &sampler->samples[i];
    if (__atomic_load_n(&sample->state, __ATOMIC_ACQUIRE) != JVGPU_SAMPLE_FREE) {
      continue;
    }
    if (calls->record(sample->begun, stream) != CUDA_SUCCESS) {
      return -1;
    }
    sample->shape = shape;
    sample->launches = 1;
    sample->is_over = false;
    sample->is_mark = false;
    sample->has_next = false;
    sample->clear_ns = clear_ns;
    sample->is_contended = contenders > 1 && clear_ns == 0;
    sample->is_dry = false;
    sample->was_full = false;
    sample->full_ns = __atomic_load_n(&sampler->full_ns, __ATOMIC_RELAXED);
    sample->known_ns = shape != NULL ? __atomic_load_n(&shape->duration_ns, __ATOMIC_RELAXED) : 0;
    sample->watch = 0;
    sample->spanned = 0;
    sample->made_ns = sampler_now_ns();
    jvgpu_stretch_begin(sampler, i, stream, contenders);
    if (shape != NULL) {
      mark(sampler, sample);
    }
    sample_set_state(sample, JVGPU_SAMPLE_OPEN);
    return i;
  }
  return -1;
}

// Whether launches of several shapes go over streams: one is sampled that is not what was sampled last.
static void look_at_shape(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape)
{
  const bool is_other = sampler->last_shape != NULL && sampler->last_shape != shape;
  sampler->last_shape = shape;
  sampler->is_mixed = sampler->is_mixed || (is_other && sampler->streams > 1);
}

// Take in what is over. What is charged for it comes on top of what the launches between two events are charged.
static jvgpu_late_t take_in(jvgpu_sampler_t *sampler, uint32_t contenders)
{
  const jvgpu_late_t late = jvgpu_sampler_learn(sampler, contenders);
  if (late.ns > 0) {
    sampler->run.busy_ns += (uint64_t)late.ns;
    sampler->span.busy_ns += (uint64_t)late.ns;
  }
  return late;
}

// Count the streams, and open a span when it is one's turn. returns: whether no run is to be opened beside it.
static bool look_at_streams(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, CUstream stream,
                            const jvgpu_stream_calls_t *calls, uint32_t contenders, uint64_t busy_ns)
{
  const uint32_t before = sampler->streams;
  sampler->streams = (uint32_t)__builtin_popcountll(__atomic_exchange_n(&sampler->streams_seen, 0, __ATOMIC_RELAXED));
  const bool is_one = sampler->streams < 2;
  if (is_one) {
    // What company does to launches on one stream is known of each shape.
    sampler->overlap = 1.0;
    __atomic_store_n(&sampler->overlap_ppm, 1000000, __ATOMIC_RELAXED);
  } else if (before < 2 || !sampler->is_mixed) {
    jvgpu_sampler_set_overlap(sampler, 1.0);
  }
  sampler->turn += 1;
  if (is_one ? sampler->turn % SPANS_EVERY != 0 : !sampler->is_mixed) {
    return false;
  }
  const int sample = begin(sampler, NULL, stream, calls, contenders);
  if (sample >= 0) {
    const uint32_t launches = is_one ? sampler->span_launches : SPAN_LAUNCHES_A_STREAM * sampler->streams;
    sampler->samples[sample].shapes[sampler->samples[sample].spanned++] = shape;
    jvgpu_sampler_open_over(sampler, &sampler->span, sample, stream, launches, busy_ns);
  }
  return is_one;
}

// A run that begins where the GPU has nothing to do is never all queued. A program that never has more queued is sampled
// launch by launch.
static bool is_worth(jvgpu_shape_t *shape, uint32_t run, bool is_idle)
{
  if (!is_idle || run == 1) {
    shape->idle_tries = is_idle ? shape->idle_tries : 0;
    return true;
  }
  shape->idle_tries += 1;
  if (shape->idle_tries < IDLE_IN_A_ROW) {
    return false;
  }
  shape->singly = 1;
  return true;
}

// returns: the launches that the next sample of `shape` takes in.
static uint32_t run_of(const jvgpu_sampler_t *sampler, const jvgpu_shape_t *shape, uint32_t contenders)
{
  const uint64_t run_alone_ns = __atomic_load_n(&sampler->run_alone_ns, __ATOMIC_RELAXED);
  const bool     is_beside = contenders > 1 && (sampler->streams > 1 || sampler_clear_ns(sampler) == 0);
  // Where one looked cut somebody may be there that nobody counts: of those that last a turn each would be.
  const bool     is_short = is_beside || shape->odd != 0;
  const uint32_t run = jvgpu_shape_run(shape, is_short ? JVGPU_RUN_NS : (double)run_alone_ns);
  if (sampler->streams < 2 || sampler->is_mixed) {
    return run;
  }
  return contenders > 1 ? jvgpu_paced_run(shape) : run < 2 * sampler->streams ? 2 * sampler->streams : run;
}

static bool can_begin(const jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, uint32_t run, bool is_idle,
                      uint32_t contenders)
{
  if (sampler->streams < 2) {
    return is_worth(shape, run, is_idle);
  }
  // A run from full to full begins where the queues are full.
  return run == 1 || contenders < 2 || __atomic_load_n(&sampler->full_ns, __ATOMIC_RELAXED) != 0;
}

int jvgpu_sampler_open(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, CUstream stream, bool is_idle,
                       const jvgpu_stream_calls_t *calls, uint32_t contenders, uint64_t busy_ns, jvgpu_late_t *late)
{
  int      sample = -1;
  uint32_t run = 1;
  *late = (jvgpu_late_t){.ns = 0};
  // Another thread is sampling: this launch does without.
  if (!sampler_try_lock(sampler)) {
    return -1;
  }
  if (sampler->known_ns == 0) {
    jvgpu_sampler_note_known(sampler);
  }
  if (prepare(sampler)) {
    *late = take_in(sampler, contenders);
    busy_ns += late->ns > 0 ? (uint64_t)late->ns : 0;
    look_at_shape(sampler, shape);
    const bool is_spans = sampler->span.sample < 0 && shape->samples != 0 &&
                          look_at_streams(sampler, shape, stream, calls, contenders, busy_ns);
    // Streams take turns on the GPU: one launch alone says little there, once a first guess is made, and
    // a run has to go round at least twice.
    const bool alone = sampler->streams < 2 || !sampler->is_mixed || shape->samples == 0;
    run = run_of(sampler, shape, contenders);
    sample = alone && !is_spans && sampler->run.sample < 0 && can_begin(sampler, shape, run, is_idle, contenders)
                 ? begin(sampler, shape, stream, calls, contenders)
                 : -1;
  }
  if (sample >= 0) {
    __atomic_store_n(&shape->tries, shape->tries + 1, __ATOMIC_RELAXED);
    if (run > 1) {
      jvgpu_sampler_open_over(sampler, &sampler->run, sample, stream, run, busy_ns);
      sample = -1;
    } else {
      sampler->samples[sample].was_idle = is_idle;
      sampler->samples[sample].host_ns = sampler_now_ns();
    }
  }
  jvgpu_sampler_note_guess(sampler);
  jvgpu_unlock(&sampler->lock);
  return sample;
}

bool jvgpu_sampler_mark(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, CUstream stream,
                        const jvgpu_stream_calls_t *calls, uint32_t contenders, uint64_t busy_ns)
{
  int sample = -1;
  if (!sampler_try_lock(sampler)) {
    return false;
  }
  if (shape->samples != 0 && sampler->streams < 2 && prepare(sampler)) {
    // What is open holds a pause.
    jvgpu_sampler_drop(sampler);
    sample = begin(sampler, NULL, stream, calls, contenders);
  }
  if (sample >= 0) {
    sampler->samples[sample].is_mark = true;
    sampler->samples[sample].shapes[sampler->samples[sample].spanned++] = shape;
    jvgpu_sampler_open_over(sampler, &sampler->span, sample, stream, MARK_LAUNCHES, busy_ns);
    __atomic_store_n(&sampler->is_marking, true, __ATOMIC_RELAXED);
  }
  jvgpu_unlock(&sampler->lock);
  return sample >= 0;
}

jvgpu_late_t jvgpu_sampler_collect(jvgpu_sampler_t *sampler, uint32_t contenders)
{
  jvgpu_late_t late = {.ns = 0};
  if (sampler_try_lock(sampler)) {
    late = take_in(sampler, contenders);
    jvgpu_unlock(&sampler->lock);
  }
  return late;
}

void jvgpu_sampler_end(jvgpu_sampler_t *sampler, int index, CUstream stream, const jvgpu_stream_calls_t *calls,
                       CUresult result)
{
  const double         ended_ns = sampler_now_ns();
  jvgpu_sample_t      *sample = &sampler->samples[index];
  jvgpu_sample_state_t state = JVGPU_SAMPLE_FREE;
  if (result == CUDA_SUCCESS && calls->record(sample->ended, stream) == CUDA_SUCCESS) {
    sample->host_ns = ended_ns - sample->host_ns;
    sample->late_ns = sampler_now_ns() - ended_ns;
    while (sampler_now_ns() < ended_ns + ARRIVED_NS) {
      // Some microseconds, once a sample.
    }
    sample->was_queued = jvgpu_real.cuEventQuery(sample->begun) != CUDA_SUCCESS;
    if (sample->is_contended && sampler_try_lock(sampler)) {
      sampler_watch(sampler, sample);
      jvgpu_pulse_close(&sampler->pulse, sample->watch);
      jvgpu_unlock(&sampler->lock);
    }
    state = JVGPU_SAMPLE_PENDING;
  }
  sample_set_state(sample, state);
}

bool jvgpu_sampler_is_idle(jvgpu_sampler_t *sampler)
{
  bool is_idle = false;
  if (sampler_try_lock(sampler)) {
    is_idle = sampler_last(sampler) != JVGPU_NO_STREAM && sampler_is_last_done(sampler);
    jvgpu_unlock(&sampler->lock);
  }
  return is_idle;
}

void jvgpu_sampler_stream_gone(jvgpu_sampler_t *sampler, CUstream stream)
{
  jvgpu_lock(&sampler->lock);
  if (sampler_last(sampler) == stream) {
    __atomic_store_n(&sampler->last, JVGPU_NO_STREAM, __ATOMIC_RELAXED);
  }
  jvgpu_unlock(&sampler->lock);
}

void jvgpu_sampler_forget(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape)
{
  jvgpu_lock(&sampler->lock);
  jvgpu_shape_forget(shape);
  jvgpu_unlock(&sampler->lock);
}

uint32_t jvgpu_sampler_pending(const jvgpu_sampler_t *sampler)
{
  uint32_t pending = 0;
  for (int i = 0; i < JVGPU_MOST_SAMPLES; i++) {
    pending += __atomic_load_n(&sampler->samples[i].state, __ATOMIC_RELAXED) != JVGPU_SAMPLE_FREE;
  }
  return pending;
}
