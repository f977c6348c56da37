#define _GNU_SOURCE
#include "meter_parts.h"

#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

#include "clock.h"
#include "flight.h"
#include "occupancy.h"
#include "real.h"

// GPU time between two samples. Alone without a ceiling nobody needs the figure to be quick, and it
// must cost nothing; beside others it has to follow. Clocks follow the card's power within some tens of milliseconds.
#define ALONE_NS UINT64_C(5000000)
#define CONTENDED_NS UINT64_C(4000000)
// And between two marks of its beginnings.
#define MARKS_NS UINT64_C(5000000)
// Launches between two samples while a shape is new.
#define NEW_SHAPE_LAUNCHES 16u
#define NEW_SHAPE_SAMPLES 6u
// So many fewer by chance, for the same reason as below.
#define NEW_SHAPE_JITTER 7u
// Or the time, before the first of a shape.
#define NEW_SHAPE_NS UINT64_C(200000)
// A figure that is far too small would bring no sample nearer, and never be made good: launches do.
#define MOST_UNSAMPLED 8192u
// A shape whose samples are all spoiled is left to the usual interval.
#define NEW_SHAPE_TRIES 32u

// What few launches do is called, not inlined: all others would save and restore the registers that it needs.
#define COLD __attribute__((noinline, cold))

// Its address tells threads apart. The library is there from the start: its place is as near as the stack's.
static __thread char this_thread __attribute__((tls_model("initial-exec")));

static COLD jvgpu_meter_t *make_meter(jvgpu_process_t *self, int device)
{
  jvgpu_meter_t *meter =
      mmap(NULL, sizeof *meter, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (meter == MAP_FAILED) {
    return NULL;
  }
  meter->random = 0x9e3779b9u;
  meter->writer = &this_thread;
  jvgpu_sampler_start(&meter->sampler);
  jvgpu_meter_t *first = NULL;
  if (!__atomic_compare_exchange_n(&self->meters[device], &first, meter, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    munmap(meter, sizeof *meter);
    return first;
  }
  return meter;
}

static inline jvgpu_meter_t *meter_of(jvgpu_process_t *self, int device)
{
  jvgpu_meter_t *meter = meter_made(self, device);
  return __builtin_expect(meter != NULL, 1) ? meter : make_meter(self, device);
}

static bool is_writer(const jvgpu_meter_t *meter)
{
  return meter->writer == &this_thread;
}

// --- launches ----------------------------------------------------------------------------------------------------

// A launch, charged.
typedef struct charged_s {
  bool     is_known;   // how long it takes, else it is charged later
  uint64_t own_ns;     // by its duration, whatever of it was charged before
  uint64_t before_ns;  // GPU time charged to this process before it
  uint64_t busy_ns;    // and with it
} charged_t;

static inline charged_t charge(jvgpu_meter_t *meter, jvgpu_use_t *use, jvgpu_shape_t *shape)
{
  const uint64_t duration_ns = __atomic_load_n(&shape->duration_ns, __ATOMIC_RELAXED);
  if (duration_ns == 0) {
    if (__atomic_load_n(&shape->uncharged, __ATOMIC_RELAXED) == 0) {
      __atomic_store_n(&shape->unknown_since_ns, jvgpu_now_ns(), __ATOMIC_RELAXED);
    }
    jvgpu_shape_uncharged(shape, is_writer(meter));
    const uint64_t busy_ns = __atomic_load_n(&use->busy_ns, __ATOMIC_RELAXED);
    return (charged_t){.before_ns = busy_ns, .busy_ns = busy_ns};
  }
  const uint64_t overlap_ppm = __atomic_load_n(&meter->sampler.overlap_ppm, __ATOMIC_RELAXED);
  const uint64_t own_ns = overlap_ppm == 1000000 ? duration_ns : duration_ns * overlap_ppm / 1000000;
  uint64_t       charge_ns = own_ns;
  jvgpu_shape_charged(shape, is_writer(meter), own_ns);
  if (__builtin_expect(__atomic_load_n(&meter->given_back_ns, __ATOMIC_RELAXED) != 0, 0)) {
    charge_ns = jvgpu_meter_less_given_back(meter, use, charge_ns);
  }
  const uint32_t sm_ppm = __atomic_load_n(&shape->sm_ppm, __ATOMIC_RELAXED);
  __atomic_fetch_add(&use->sm_ns, charge_ns * sm_ppm / 1000000, __ATOMIC_RELAXED);
  const uint64_t before_ns = __atomic_fetch_add(&use->busy_ns, charge_ns, __ATOMIC_RELAXED);
  return (charged_t){.is_known = true, .own_ns = own_ns, .before_ns = before_ns, .busy_ns = before_ns + charge_ns};
}

static uint32_t sms_of(jvgpu_meter_t *meter)
{
  int      sms = (int)__atomic_load_n(&meter->sms, __ATOMIC_RELAXED);
  CUdevice dev;
  if (sms == 0 && jvgpu_real.cuCtxGetDevice(&dev) == CUDA_SUCCESS &&
      jvgpu_real.cuDeviceGetAttribute(&sms, 16 /* MULTIPROCESSOR_COUNT */, dev) == CUDA_SUCCESS && sms > 0) {
    __atomic_store_n(&meter->sms, (uint32_t)sms, __ATOMIC_RELAXED);
  }
  return sms > 0 ? (uint32_t)sms : 0;
}

// Once for each shape, or by two threads at once, with one answer: no call waits for anything, and all may be made while
// a capture lives.
static COLD void ask_sm_part(jvgpu_meter_t *meter, jvgpu_shape_t *shape, const jvgpu_work_t *work)
{
  int            a_sm = 0;
  uint32_t       ppm = 1000000;
  const uint32_t sms = sms_of(meter);
  if (sms != 0 && work->f != NULL && jvgpu_real.cuOccupancyMaxActiveBlocksPerMultiprocessor != NULL &&
      jvgpu_real.cuOccupancyMaxActiveBlocksPerMultiprocessor(&a_sm, work->f, (int)work->threads, work->shared) ==
          CUDA_SUCCESS) {
    ppm = jvgpu_sm_part_ppm(work->blocks, sms, (uint64_t)a_sm * sms);
  }
  __atomic_store_n(&shape->sm_ppm, ppm, __ATOMIC_RELAXED);
}

static void note_stream(jvgpu_meter_t *meter, CUstream stream)
{
  const uint64_t bit = UINT64_C(1) << jvgpu_flight_place(stream);
  if ((__atomic_load_n(&meter->sampler.streams_seen, __ATOMIC_RELAXED) & bit) == 0) {
    __atomic_fetch_or(&meter->sampler.streams_seen, bit, __ATOMIC_RELAXED);
  }
}

// A launch may be the only one of its kind, and last for seconds. And a loop may keep step with the samples: every
// sixteenth launch is always of another shape then.
static COLD bool is_unheard_of(const jvgpu_meter_t *meter, const jvgpu_shape_t *shape)
{
  return __atomic_load_n(&shape->tries, __ATOMIC_RELAXED) == 0 &&
         (__atomic_load_n(&shape->uncharged, __ATOMIC_RELAXED) >= NEW_SHAPE_LAUNCHES ||
          jvgpu_now_ns() - __atomic_load_n(&meter->sampled_ns, __ATOMIC_RELAXED) > NEW_SHAPE_NS);
}

static bool is_mark_due(const jvgpu_process_t *self, const jvgpu_meter_t *meter, int device, uint64_t busy_ns)
{
  return __atomic_load_n(&meter->sampler.is_free, __ATOMIC_RELAXED) && meter_contenders(self, device) <= 1 &&
         busy_ns - __atomic_load_n(&meter->marked_ns, __ATOMIC_RELAXED) > MARKS_NS;
}

// The agent counts processes that launched within the last second: who is at one launch for longer is none of them.
static uint32_t sure_contenders(const jvgpu_process_t *self, const jvgpu_meter_t *meter, int device)
{
  const uint32_t contenders = meter_contenders(self, device);
  const uint64_t sampled_ns = __atomic_load_n(&meter->sampled_ns, __ATOMIC_RELAXED);
  return contenders == 1 && jvgpu_now_ns() - sampled_ns > JVGPU_COUNTED_NS ? 2 : contenders;
}

static void set_next(const jvgpu_process_t *self, jvgpu_meter_t *meter, int device, uint64_t busy_ns)
{
  const bool has_ceiling =
      __atomic_load_n(&jvgpu_process_limits(self, device)->ceiling_ppm, __ATOMIC_RELAXED) < 1000000;
  const bool free_alone = meter_contenders(self, device) <= 1 && !has_ceiling;
  // The more is queued, the further ahead of the GPU the host is, and the more a sample has to stand for.
  const uint64_t pending = jvgpu_sampler_pending(&meter->sampler);
  const uint64_t interval_ns = free_alone ? ALONE_NS + ALONE_NS * pending * pending / 64 : CONTENDED_NS;
  __atomic_store_n(&meter->sampler.is_free, free_alone, __ATOMIC_RELAXED);
  // Half of the time is seen then, where the host is far ahead and samples are few.
  __atomic_store_n(&meter->sampler.run_alone_ns,
                   free_alone && pending > 1 ? interval_ns / 2 : (uint64_t)JVGPU_RUN_ALONE_NS, __ATOMIC_RELAXED);
  // Between half and one and a half intervals, so that no loop keeps step with us.
  const uint32_t random = __atomic_load_n(&meter->random, __ATOMIC_RELAXED) * 1664525u + 1013904223u;
  __atomic_store_n(&meter->random, random, __ATOMIC_RELAXED);
  __atomic_store_n(&meter->due_ns, busy_ns + interval_ns / 2 + interval_ns * (random >> 16) / 65536, __ATOMIC_RELAXED);
  __atomic_store_n(&meter->last_sampled, jvgpu_sampler_launches(&meter->sampler) - (random >> 8) % NEW_SHAPE_JITTER,
                   __ATOMIC_RELAXED);
  __atomic_store_n(&meter->sampled_ns, jvgpu_now_ns(), __ATOMIC_RELAXED);
}

// returns: as jvgpu_sampler_open.
static COLD int open_sample(jvgpu_process_t *self, jvgpu_meter_t *meter, int device, jvgpu_shape_t *shape,
                            CUstream stream, const jvgpu_stream_calls_t *calls, charged_t charged)
{
  jvgpu_late_t late;
  jvgpu_use_t *use = jvgpu_process_use(self, device);
  jvgpu_meter_look_for_window(self, meter, device);
  const bool is_idle = jvgpu_waiting_look(&meter->waiting, use, stream, charged.before_ns);
  const int  sample = jvgpu_sampler_open(&meter->sampler, shape, stream, is_idle, calls,
                                         sure_contenders(self, meter, device), charged.busy_ns, &late);
  set_next(self, meter, device, charged.busy_ns + (late.ns > 0 ? (uint64_t)late.ns : 0));
  jvgpu_meter_charge_late(meter, use, late);
  jvgpu_meter_say_guess(self, meter, device);
  return sample;
}

// The GPU had nothing to do before this launch. returns: whether a beginning is marked.
static COLD bool mark(const jvgpu_process_t *self, jvgpu_meter_t *meter, int device, jvgpu_shape_t *shape,
                      CUstream stream, const jvgpu_stream_calls_t *calls, uint64_t busy_ns)
{
  if (!is_mark_due(self, meter, device, busy_ns) ||
      !jvgpu_sampler_mark(&meter->sampler, shape, stream, calls, meter_contenders(self, device), busy_ns)) {
    return false;
  }
  // A sample follows as soon as that is over.
  __atomic_store_n(&meter->marked_ns, busy_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&meter->due_ns, busy_ns, __ATOMIC_RELAXED);
  return true;
}

void jvgpu_meter_begin(jvgpu_process_t *self, int device, const jvgpu_work_t *work, CUstream stream,
                       const jvgpu_stream_calls_t *calls, jvgpu_launch_t *launch)
{
  jvgpu_meter_t *meter = meter_of(self, device);
  jvgpu_use_t   *use = jvgpu_process_use(self, device);

  if (!work->is_no_launch) {
    __atomic_fetch_add(&use->launches, 1, __ATOMIC_RELAXED);
  }
  if (meter == NULL) {
    return;
  }
  jvgpu_shape_t *shape = jvgpu_shapes_find(&meter->shapes, work->key);
  if (__builtin_expect(__atomic_load_n(&shape->sm_ppm, __ATOMIC_RELAXED) == 0, 0)) {
    ask_sm_part(meter, shape, work);
  }
  const charged_t charged = charge(meter, use, shape);
  const uint64_t  busy_ns = charged.busy_ns;
  launch->charged_ns = charged.own_ns;
  const uint32_t launches = jvgpu_sampler_launched(&meter->sampler, is_writer(meter), charged.own_ns);
  note_stream(meter, stream);
  // What is in flight begins with this launch: its own GPU time is no waiting.
  const bool is_first = jvgpu_waiting_begin(&meter->waiting, charged.before_ns);

  const bool quiet = __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) != 0;
  if (__builtin_expect(is_first, 0) && !quiet && mark(self, meter, device, shape, stream, calls, busy_ns)) {
    __atomic_store_n(&meter->sampler.last, stream, __ATOMIC_RELAXED);
    return;
  }
  if (jvgpu_sampler_is_open(&meter->sampler)) {
    jvgpu_sampler_step(&meter->sampler, shape, stream, calls, busy_ns, quiet);
  }
  __atomic_store_n(&meter->sampler.last, stream, __ATOMIC_RELAXED);
  // What is not charged brings no sample nearer: until something is known, launches do.
  const bool     is_little_known = __atomic_load_n(&shape->samples, __ATOMIC_RELAXED) < NEW_SHAPE_SAMPLES &&
                                   __atomic_load_n(&shape->tries, __ATOMIC_RELAXED) < NEW_SHAPE_TRIES;
  const uint32_t unsampled = launches - __atomic_load_n(&meter->last_sampled, __ATOMIC_RELAXED);
  const bool     is_new =
      (!charged.is_known || is_little_known) && (unsampled >= NEW_SHAPE_LAUNCHES || is_unheard_of(meter, shape));
  const bool is_due = busy_ns >= __atomic_load_n(&meter->due_ns, __ATOMIC_RELAXED) || unsampled >= MOST_UNSAMPLED;
  if (quiet || (!is_new && !is_due) || jvgpu_sampler_is_marking(&meter->sampler)) {
    return;
  }
  launch->sample = open_sample(self, meter, device, shape, stream, calls, charged);
  launch->meter = launch->sample >= 0 ? meter : NULL;
}

void jvgpu_meter_waits(jvgpu_process_t *self, int device)
{
  jvgpu_meter_t *meter = meter_of(self, device);
  if (meter != NULL) {
    jvgpu_waiting_begin(&meter->waiting, __atomic_load_n(&jvgpu_process_use(self, device)->busy_ns, __ATOMIC_RELAXED));
  }
}

void jvgpu_meter_gated(jvgpu_process_t *self, int device)
{
  jvgpu_meter_t *meter = meter_made(self, device);
  if (meter != NULL) {
    jvgpu_sampler_gated(&meter->sampler);
  }
}

void jvgpu_meter_stream_gone(jvgpu_process_t *self, CUstream stream)
{
  for (int device = 0; device < (int)JVGPU_MAX_DEVICES; device++) {
    jvgpu_meter_t *meter = meter_made(self, device);
    if (meter != NULL) {
      jvgpu_sampler_stream_gone(&meter->sampler, stream);
    }
  }
}

void jvgpu_meter_full(jvgpu_process_t *self, int device, uint64_t full_ns)
{
  jvgpu_meter_t *meter = meter_made(self, device);
  if (meter != NULL && __atomic_load_n(&meter->sampler.full_ns, __ATOMIC_RELAXED) != full_ns) {
    __atomic_store_n(&meter->sampler.full_ns, full_ns, __ATOMIC_RELAXED);
  }
}

void jvgpu_meter_end(jvgpu_meter_t *meter, int sample, CUstream stream, const jvgpu_stream_calls_t *calls,
                     CUresult result)
{
  jvgpu_sampler_end(&meter->sampler, sample, stream, calls, result);
}

void jvgpu_meter_forget(jvgpu_process_t *self, const void *function)
{
  for (int device = 0; device < (int)JVGPU_MAX_DEVICES; device++) {
    jvgpu_meter_t *meter = meter_made(self, device);
    if (meter != NULL) {
      jvgpu_sampler_forget(&meter->sampler, jvgpu_shapes_find(&meter->shapes, jvgpu_shape_key(function, 0, 0, 0)));
    }
  }
}
