#define _GNU_SOURCE
#include "meter.h"

#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

#include "account.h"
#include "process.h"
#include "pulse.h"
#include "real.h"

// GPU time between two samples. Alone without a ceiling nobody needs the figure to be quick, and it
// must cost nothing; beside others it has to follow.
#define ALONE_NS UINT64_C(50000000)
#define CONTENDED_NS UINT64_C(4000000)
// Launches between two samples while a shape is new.
#define NEW_SHAPE_LAUNCHES 16u
#define NEW_SHAPE_SAMPLES 6u

// A pair of events costs this much of the GPU's own time when nothing is between them.
// source: measured, H200: 1.28 µs, whether the stream had work before it or not.
#define PAIR_NS 1280.0
// Where the GPU waits for the launch, the pair also spans the host's way from the first event to the
// launch, which is timed, and this much more.
// source: measured, H200: 4.7..5.1 µs for a host way of 4.1..4.2 µs.
#define IDLE_EXTRA_NS 650.0

// Streams seen in one span, as bits of a hash.
#define STREAM_BITS 64u
#define SPAN_LAUNCHES_A_STREAM 6u

typedef enum sample_state_e { SAMPLE_FREE = 0, SAMPLE_OPEN, SAMPLE_PENDING } sample_state_t;

typedef struct sample_s {
  sample_state_t state;
  CUevent        begun;
  CUevent        ended;
  jvgpu_shape_t *shape;      // NULL = a span over many launches
  double         host_ns;    // from the first event's record to the launch's return
  double         charged_ns; // span: what was charged meanwhile, before the overlap was taken off
  uint64_t       launches;   // span: how many
  bool           was_queued; // the GPU had not come to the first event when the second was recorded
} sample_t;

struct jvgpu_meter_s {
  jvgpu_lock_t lock;
  CUcontext    ctx;  // the samples' events are this context's
  bool         failed;
  sample_t     samples[JVGPU_MOST_SAMPLES];
  uint64_t     due_ns;         // GPU time at which the next sample is due
  uint32_t     launches;       // since the first, not exact
  uint32_t     last_sampled;   // of those, at the last sample
  uint32_t     random;
  int          span;           // index of the open span, -1 = none
  CUstream     span_stream;
  uint32_t     span_begun;     // launches when it was opened
  uint32_t     span_wanted;
  uint64_t     span_busy_ns;
  uint64_t     streams_seen;
  double       overlap;        // GPU time of all launches together, of their durations' sum; 1 = one after the other
  uint64_t     overlap_ppm;    // the same, for the launch path
  // In flight: from the first launch after the host saw everything done, to the next such moment.
  uint64_t       flight_begun_ns;  // 0 = nothing is in flight
  uint64_t       flight_busy_ns;   // GPU time charged when it began
  uint64_t       flight_waited_ns; // of it, what has been noted as waiting so far
  CUstream       last_stream;      // of the latest launch
  jvgpu_pulse_t  pulse;
  jvgpu_shapes_t shapes;
};

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static jvgpu_meter_t *meter_of(jvgpu_process_t *self, int device)
{
  jvgpu_meter_t *meter = __atomic_load_n(&self->meters[device], __ATOMIC_ACQUIRE);
  if (meter != NULL) {
    return meter;
  }
  meter = mmap(NULL, sizeof *meter, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (meter == MAP_FAILED) {
    return NULL;
  }
  meter->span = -1;
  meter->overlap = 1.0;
  meter->overlap_ppm = 1000000;
  meter->random = 0x9e3779b9u;
  jvgpu_meter_t *first = NULL;
  if (!__atomic_compare_exchange_n(&self->meters[device], &first, meter, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    munmap(meter, sizeof *meter);
    return first;
  }
  return meter;
}

static uint32_t contenders_of(const jvgpu_process_t *self, int device)
{
  return __atomic_load_n(&self->control->devices[device].contenders, __ATOMIC_RELAXED);
}

// --- taking samples in ---------------------------------------------------------------------------------------

static void learn_span(jvgpu_meter_t *meter, const sample_t *sample, double elapsed_ns)
{
  const double alone_ns = elapsed_ns - PAIR_NS;
  if (!sample->was_queued || sample->charged_ns <= 0 || alone_ns > sample->charged_ns + JVGPU_CUT_NS) {
    return;  // the host was too slow in between, or a turn was lost
  }
  double seen = alone_ns / sample->charged_ns;
  seen = seen > 1.0 ? 1.0 : seen;
  meter->overlap += (seen - meter->overlap) / 8;
  __atomic_store_n(&meter->overlap_ppm, (uint64_t)(meter->overlap * 1e6), __ATOMIC_RELAXED);
}

static void learn(jvgpu_process_t *self, jvgpu_meter_t *meter, int device, const sample_t *sample)
{
  float          elapsed_ms = 0;
  const uint32_t contenders = contenders_of(self, device);
  if (jvgpu_real.cuEventElapsedTime(&elapsed_ms, sample->begun, sample->ended) != CUDA_SUCCESS) {
    return;
  }
  const double elapsed_ns = (double)elapsed_ms * 1e6;
  if (sample->shape == NULL) {
    learn_span(meter, sample, elapsed_ns);
    return;
  }
  const double own_ns = elapsed_ns - (sample->was_queued ? PAIR_NS : sample->host_ns + IDLE_EXTRA_NS);
  const bool   contended = contenders > 1;
  double       on_fraction = 1.0;
  if (contended && own_ns > JVGPU_TURN_NS) {
    on_fraction = jvgpu_pulse_on_fraction(&meter->pulse, meter->ctx, contenders);
  }
  const uint64_t late_ns = jvgpu_shape_learn(sample->shape, own_ns, on_fraction, contended);
  if (late_ns != 0) {
    jvgpu_slot_t *slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE);
    __atomic_fetch_add(&slot->devices[device].busy_ns, late_ns, __ATOMIC_RELAXED);
  }
}

// pre: the lock is held.
static void collect(jvgpu_process_t *self, jvgpu_meter_t *meter, int device)
{
  for (int i = 0; i < JVGPU_MOST_SAMPLES; i++) {
    sample_t *sample = &meter->samples[i];
    if (sample->state == SAMPLE_PENDING && jvgpu_real.cuEventQuery(sample->ended) == CUDA_SUCCESS) {
      learn(self, meter, device, sample);
      sample->state = SAMPLE_FREE;
    }
  }
}

// --- making samples -----------------------------------------------------------------------------------------------

static bool prepare(jvgpu_meter_t *meter)
{
  CUcontext ctx = NULL;
  if (meter->failed || jvgpu_real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS || ctx == NULL) {
    return false;
  }
  if (meter->ctx == ctx) {
    return true;
  }
  if (meter->ctx != NULL) {
    return false;  // a second context on the device is charged by what the first has shown
  }
  for (int i = 0; i < JVGPU_MOST_SAMPLES; i++) {
    if (jvgpu_real.cuEventCreate(&meter->samples[i].begun, 0) != CUDA_SUCCESS ||
        jvgpu_real.cuEventCreate(&meter->samples[i].ended, 0) != CUDA_SUCCESS) {
      meter->failed = true;
      return false;
    }
  }
  meter->ctx = ctx;
  return true;
}

static int free_sample(const jvgpu_meter_t *meter)
{
  for (int i = 0; i < JVGPU_MOST_SAMPLES; i++) {
    if (meter->samples[i].state == SAMPLE_FREE) {
      return i;
    }
  }
  return -1;
}

static void set_next(const jvgpu_process_t *self, jvgpu_meter_t *meter, int device, uint64_t busy_ns)
{
  const jvgpu_control_device_t *limits = &self->control->devices[device];
  const bool                    free_alone = contenders_of(self, device) <= 1 && limits->ceiling_ppm >= 1000000;
  const uint64_t                interval_ns = free_alone ? ALONE_NS : CONTENDED_NS;
  // Between half and one and a half intervals, so that no loop keeps step with us.
  meter->random = meter->random * 1664525u + 1013904223u;
  meter->due_ns = busy_ns + interval_ns / 2 + interval_ns * (meter->random >> 16) / 65536;
  meter->last_sampled = meter->launches;
}

// Several streams at once: time a span of launches of all of them, to learn how far they overlap.
// pre: the lock is held.
static void open_span(jvgpu_meter_t *meter, CUstream stream, const jvgpu_stream_calls_t *calls, uint64_t busy_ns)
{
  const uint32_t streams = (uint32_t)__builtin_popcountll(meter->streams_seen);
  const int      index = free_sample(meter);
  meter->streams_seen = 0;
  if (streams < 2) {
    meter->overlap += (1.0 - meter->overlap) / 8;
    __atomic_store_n(&meter->overlap_ppm, (uint64_t)(meter->overlap * 1e6), __ATOMIC_RELAXED);
    return;
  }
  if (index < 0 || calls->record(meter->samples[index].begun, stream) != CUDA_SUCCESS) {
    return;
  }
  meter->samples[index].state = SAMPLE_OPEN;
  meter->samples[index].shape = NULL;
  meter->span_stream = stream;
  meter->span_begun = meter->launches;
  meter->span_wanted = SPAN_LAUNCHES_A_STREAM * streams;
  meter->span_busy_ns = busy_ns;
  __atomic_store_n(&meter->span, index, __ATOMIC_RELEASE);
}

// pre: the lock is held, a span is open.
static void close_span(jvgpu_meter_t *meter, const jvgpu_stream_calls_t *calls, uint64_t busy_ns)
{
  sample_t *sample = &meter->samples[meter->span];
  sample->state = SAMPLE_FREE;
  if (calls->record(sample->ended, meter->span_stream) == CUDA_SUCCESS) {
    sample->was_queued = jvgpu_real.cuEventQuery(sample->begun) != CUDA_SUCCESS;
    sample->charged_ns = (double)(busy_ns - meter->span_busy_ns) / meter->overlap;
    sample->state = SAMPLE_PENDING;
  }
  __atomic_store_n(&meter->span, -1, __ATOMIC_RELEASE);
}

// Whatever is in flight and has not had the GPU has waited. Launches are charged ahead of their turn,
// so a long queue looks for a while as if nothing waited; the figure only ever grows.
static void note_waiting(jvgpu_process_t *self, jvgpu_meter_t *meter, int device, uint64_t begun_ns)
{
  jvgpu_use_t   *use = &__atomic_load_n(&self->slot, __ATOMIC_ACQUIRE)->devices[device];
  const uint64_t flight_ns = now_ns() - begun_ns;
  const uint64_t busy_ns = __atomic_load_n(&use->busy_ns, __ATOMIC_RELAXED) - meter->flight_busy_ns;
  if (flight_ns > busy_ns + meter->flight_waited_ns) {
    const uint64_t more_ns = flight_ns - busy_ns - meter->flight_waited_ns;
    meter->flight_waited_ns += more_ns;
    __atomic_fetch_add(&use->waited_ns, more_ns, __ATOMIC_RELAXED);
  }
}

// pre: the lock is held. A program that never waits for its work: look whether it is still in flight.
static void look_at_flight(jvgpu_process_t *self, jvgpu_meter_t *meter, int device, CUstream stream)
{
  const uint64_t begun_ns = __atomic_load_n(&meter->flight_begun_ns, __ATOMIC_RELAXED);
  if (begun_ns == 0) {
    return;
  }
  if (jvgpu_real.cuStreamQuery(stream) == CUDA_SUCCESS) {
    // It was done before we came: when, nobody knows. A slow host's pauses are not waiting.
    __atomic_store_n(&meter->flight_begun_ns, 0, __ATOMIC_RELAXED);
  } else {
    note_waiting(self, meter, device, begun_ns);
  }
}

static jvgpu_launch_t open_sample(jvgpu_process_t *self, jvgpu_meter_t *meter, int device, jvgpu_shape_t *shape,
                                  CUstream stream, const jvgpu_stream_calls_t *calls, uint64_t busy_ns)
{
  const jvgpu_launch_t none = {.meter = NULL};
  // Another thread is sampling: this launch does without.
  if (__atomic_exchange_n(&meter->lock, 1, __ATOMIC_ACQUIRE) != 0) {
    return none;
  }
  int index = -1;
  if (prepare(meter)) {
    collect(self, meter, device);
    look_at_flight(self, meter, device, stream);
    set_next(self, meter, device, busy_ns);
    if (meter->span < 0) {
      open_span(meter, stream, calls, busy_ns);
    }
    index = free_sample(meter);
  } else {
    set_next(self, meter, device, busy_ns);
  }
  if (index < 0 || calls->record(meter->samples[index].begun, stream) != CUDA_SUCCESS) {
    jvgpu_unlock(&meter->lock);
    return none;
  }
  meter->samples[index].state = SAMPLE_OPEN;
  meter->samples[index].shape = shape;
  meter->samples[index].host_ns = (double)now_ns();
  jvgpu_unlock(&meter->lock);
  return (jvgpu_launch_t){.meter = meter, .sample = index};
}

void jvgpu_meter_end(jvgpu_launch_t launch, CUstream stream, const jvgpu_stream_calls_t *calls, CUresult result)
{
  sample_t      *sample = &launch.meter->samples[launch.sample];
  const double   ended_ns = (double)now_ns();
  sample_state_t state = SAMPLE_FREE;
  if (result == CUDA_SUCCESS && calls->record(sample->ended, stream) == CUDA_SUCCESS) {
    sample->host_ns = ended_ns - sample->host_ns;
    sample->was_queued = jvgpu_real.cuEventQuery(sample->begun) != CUDA_SUCCESS;
    state = SAMPLE_PENDING;
  }
  // Release: whoever collects it sees all of it.
  __atomic_store_n(&sample->state, state, __ATOMIC_RELEASE);
}

// --- every launch ------------------------------------------------------------------------------------------------------

static void note_flight(jvgpu_meter_t *meter, uint64_t busy_ns)
{
  if (__atomic_load_n(&meter->flight_begun_ns, __ATOMIC_RELAXED) == 0) {
    meter->flight_busy_ns = busy_ns;
    meter->flight_waited_ns = 0;
    __atomic_store_n(&meter->flight_begun_ns, now_ns(), __ATOMIC_RELAXED);
  }
}

jvgpu_launch_t jvgpu_meter_begin(jvgpu_process_t *self, int device, uint64_t shape_key, CUstream stream,
                                 const jvgpu_stream_calls_t *calls)
{
  jvgpu_launch_t none = {.meter = NULL};
  jvgpu_meter_t *meter = meter_of(self, device);
  jvgpu_use_t   *use = &__atomic_load_n(&self->slot, __ATOMIC_ACQUIRE)->devices[device];

  __atomic_fetch_add(&use->launches, 1, __ATOMIC_RELAXED);
  if (meter == NULL) {
    return none;
  }
  jvgpu_shape_t *shape = jvgpu_shapes_find(&meter->shapes, shape_key);
  const uint64_t duration_ns = __atomic_load_n(&shape->duration_ns, __ATOMIC_RELAXED);
  uint64_t       busy_ns;
  if (duration_ns != 0) {
    const uint64_t overlap_ppm = __atomic_load_n(&meter->overlap_ppm, __ATOMIC_RELAXED);
    const uint64_t charge_ns = overlap_ppm == 1000000 ? duration_ns : duration_ns * overlap_ppm / 1000000;
    busy_ns = __atomic_add_fetch(&use->busy_ns, charge_ns, __ATOMIC_RELAXED);
  } else {
    __atomic_fetch_add(&shape->uncharged, 1, __ATOMIC_RELAXED);
    busy_ns = __atomic_load_n(&use->busy_ns, __ATOMIC_RELAXED);
  }
  const uint32_t launches = __atomic_load_n(&meter->launches, __ATOMIC_RELAXED) + 1;
  __atomic_store_n(&meter->launches, launches, __ATOMIC_RELAXED);
  const uint64_t stream_bit = UINT64_C(1) << (((uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15)) >> 58);
  if ((__atomic_load_n(&meter->streams_seen, __ATOMIC_RELAXED) & stream_bit) == 0) {
    __atomic_fetch_or(&meter->streams_seen, stream_bit, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&meter->last_stream, stream, __ATOMIC_RELAXED);
  note_flight(meter, busy_ns);

  const bool is_new = shape->samples < NEW_SHAPE_SAMPLES && launches - meter->last_sampled >= NEW_SHAPE_LAUNCHES;
  const bool ends_span = __atomic_load_n(&meter->span, __ATOMIC_RELAXED) >= 0 && stream == meter->span_stream &&
                         launches - meter->span_begun >= meter->span_wanted;
  // Nothing of ours happens while a capture lives: an event query could spoil it.
  if ((!is_new && !ends_span && busy_ns < meter->due_ns) ||
      __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) != 0) {
    return none;
  }
  if (ends_span && __atomic_exchange_n(&meter->lock, 1, __ATOMIC_ACQUIRE) == 0) {
    if (meter->span >= 0) {
      close_span(meter, calls, busy_ns);
    }
    jvgpu_unlock(&meter->lock);
  }
  if (!is_new && busy_ns < meter->due_ns) {
    return none;
  }
  return open_sample(self, meter, device, shape, stream, calls, busy_ns);
}

// --- waiting -----------------------------------------------------------------------------------------------------------

void jvgpu_meter_drained(jvgpu_process_t *self)
{
  for (int device = 0; device < (int)JVGPU_MAX_DEVICES; device++) {
    jvgpu_meter_t *meter = __atomic_load_n(&self->meters[device], __ATOMIC_ACQUIRE);
    if (meter == NULL) {
      continue;
    }
    const uint64_t begun_ns = __atomic_exchange_n(&meter->flight_begun_ns, 0, __ATOMIC_RELAXED);
    if (begun_ns == 0) {
      continue;
    }
    note_waiting(self, meter, device, begun_ns);
  }
}

void jvgpu_meter_drained_event(jvgpu_process_t *self)
{
  // The legacy stream's last launch is the usual one to wait for. Where the last stream has drained,
  // everything has, but for programs of several streams, whose flight ends at their next full wait.
  for (int device = 0; device < (int)JVGPU_MAX_DEVICES; device++) {
    jvgpu_meter_t *meter = __atomic_load_n(&self->meters[device], __ATOMIC_ACQUIRE);
    if (meter == NULL || __atomic_load_n(&meter->flight_begun_ns, __ATOMIC_RELAXED) == 0 ||
        __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) != 0) {
      continue;
    }
    if (jvgpu_real.cuStreamQuery(__atomic_load_n(&meter->last_stream, __ATOMIC_RELAXED)) == CUDA_SUCCESS) {
      jvgpu_meter_drained(self);
      return;
    }
  }
}

void jvgpu_meter_forget(jvgpu_process_t *self, const void *function)
{
  for (int device = 0; device < (int)JVGPU_MAX_DEVICES; device++) {
    jvgpu_meter_t *meter = __atomic_load_n(&self->meters[device], __ATOMIC_ACQUIRE);
    if (meter != NULL) {
      jvgpu_shape_forget(jvgpu_shapes_find(&meter->shapes, jvgpu_shape_key(function, 0, 0, 0)));
    }
  }
}
