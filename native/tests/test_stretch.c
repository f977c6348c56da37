// What a program that queues far ahead is charged while its launches get longer, as under a clock that falls. The driver
// is played by one queue on one clock.

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "check.h"
#include "sampler_driver.h"

#define LAUNCHES 4000
#define LAUNCH_MS 0.2
#define HOST_MS 0.002  // a launch
// As much can be queued, then the host waits.
#define MOST_QUEUED_MS 200.0
#define STREAM ((CUstream)1)
#define EVERY_NS 5000000.0
#define SLEEP_MS 20.0
#define COLD_LAUNCHES 20

static double now_ms;
// When all that is queued will be done.
static double queued_ms;

static CUresult record(CUevent event, CUstream stream)
{
  (void)stream;
  *(double *)event = queued_ms > now_ms ? queued_ms : now_ms;
  return CUDA_SUCCESS;
}

static CUresult is_done(CUevent event)
{
  return *(double *)event <= now_ms ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult ask_stream(CUstream stream)
{
  (void)stream;
  return queued_ms <= now_ms ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static const jvgpu_stream_calls_t calls = {.record = record};

// Launches that the host queues far ahead. The last launch takes `grows` times more than the first; before every hundredth
// the stream waits `pause_ms` for something that is no GPU time of its own, as for a host's function.
typedef struct burst_s {
  double   grows;
  double   pause_ms;
  double   host_ms;
  uint32_t batch;  // it waits for so many launches, then sleeps; 0 = never
  double   cold;  // the first after that take so many times longer
  uint32_t shapes;
  uint32_t contenders;
  bool     is_free;
} burst_t;

// returns: what it was charged, as a part of what the GPU was at work.
static double charged_for(burst_t burst)
{
  static jvgpu_sampler_t sampler;
  static jvgpu_shape_t   shapes[2];
  jvgpu_late_t           late;
  double                 charged_ns = 0, worked_ms = 0, due_ns = EVERY_NS / 2;
  events = 0;
  now_ms = queued_ms = 0;
  memset(&sampler, 0, sizeof sampler);
  jvgpu_sampler_start(&sampler);
  sampler.is_free = burst.is_free;
  for (uint32_t i = 0; i < 2; i++) {
    shapes[i] = (jvgpu_shape_t){
        .key = i + 1, .samples = 24, .mean_ns = LAUNCH_MS * 1e6, .duration_ns = (uint64_t)(LAUNCH_MS * 1e6)};
  }
  for (uint32_t i = 0; i < LAUNCHES; i++) {
    jvgpu_shape_t *shape = &shapes[i % burst.shapes];
    const bool     is_first = burst.batch != 0 && i % burst.batch == 0;
    const bool     is_cold = burst.batch != 0 && i % burst.batch < COLD_LAUNCHES;
    const double   launch_ms = LAUNCH_MS * (1.0 + burst.grows * i / LAUNCHES) * (is_cold ? burst.cold : 1.0);
    const double   own_ns = (double)shape->duration_ns;
    if (is_first) {
      now_ms = queued_ms + SLEEP_MS;
      charged_ns += (double)jvgpu_sampler_collect(&sampler, burst.contenders).ns;
    }
    now_ms += burst.host_ms > 0 ? burst.host_ms : HOST_MS;
    now_ms = queued_ms - now_ms > MOST_QUEUED_MS ? queued_ms - MOST_QUEUED_MS : now_ms;
    charged_ns += own_ns;
    jvgpu_shape_charged(shape, true, shape->duration_ns);
    jvgpu_sampler_launched(&sampler, true, shape->duration_ns);
    sampler.last = STREAM;
    sampler.streams_seen |= 1;
    if (is_first && jvgpu_sampler_mark(&sampler, shape, STREAM, &calls, burst.contenders, (uint64_t)charged_ns)) {
      due_ns = charged_ns;
    } else if (jvgpu_sampler_is_open(&sampler)) {
      jvgpu_sampler_step(&sampler, shape, STREAM, &calls, (uint64_t)charged_ns, false);
    }
    if (charged_ns >= due_ns && !jvgpu_sampler_is_marking(&sampler)) {
      const uint32_t pending = jvgpu_sampler_pending(&sampler);
      const int      sample = jvgpu_sampler_open(&sampler, shape, STREAM, queued_ms <= now_ms, &calls, burst.contenders,
                                                 (uint64_t)charged_ns, &late);
      due_ns = charged_ns + EVERY_NS * (1.0 + pending * pending / 64.0);
      charged_ns += (double)late.ns;
      if (sample >= 0) {
        queued_ms = (queued_ms > now_ms ? queued_ms : now_ms) + launch_ms;
        worked_ms += launch_ms;
        jvgpu_sampler_end(&sampler, sample, STREAM, &calls, CUDA_SUCCESS);
        continue;
      }
    }
    queued_ms = (queued_ms > now_ms ? queued_ms : now_ms) + launch_ms + (i % 100 == 99 ? burst.pause_ms : 0);
    worked_ms += launch_ms;
  }
  now_ms = queued_ms + 1.0;
  charged_ns += (double)jvgpu_sampler_collect(&sampler, burst.contenders).ns;
  return charged_ns / (worked_ms * 1e6);
}

static bool is_near(double figure, double expected, double most_off)
{
  return figure > expected - most_off && figure < expected + most_off;
}

// Catches a bug where each sample stood for some forty launches of a second, made at once, while a clock fell.
static void clocks_that_change(void)
{
  const burst_t falling = {.grows = 0.2, .shapes = 1, .contenders = 1, .is_free = true};
  CHECK("launches that get longer while all are queued are charged what they take",
        is_near(charged_for(falling), 1.0, 0.002));
  burst_t rising = falling;
  rising.grows = -0.15;
  CHECK("and those that get shorter", is_near(charged_for(rising), 1.0, 0.002));
  burst_t of_two = falling;
  of_two.shapes = 2;
  CHECK("and those of several functions in turn", is_near(charged_for(of_two), 1.0, 0.002));
}

// Catches a bug where programs that wait for each batch were charged 4 % too little: clocks rise within a millisecond or
// two of each, and the first sample came later.
static void cold_beginnings(void)
{
  const burst_t batches = {.batch = 100, .cold = 1.5, .shapes = 1, .contenders = 1, .is_free = true};
  CHECK("what a GPU takes longer for when it had nothing to do before is charged",
        is_near(charged_for(batches), 1.0, 0.01));
  burst_t slow_host = batches;
  slow_host.host_ms = 0.5;
  CHECK("and nothing more where the GPU waits for the host", is_near(charged_for(slow_host), 1.0, 0.1));
}

static void what_does_not_count(void)
{
  const burst_t steady = {.shapes = 1, .contenders = 1, .is_free = true};
  CHECK("what takes what it always took is charged that", is_near(charged_for(steady), 1.0, 0.002));
  burst_t pausing = steady;
  pausing.pause_ms = 15.0;
  CHECK("a turn of somebody's who is not counted is not charged", is_near(charged_for(pausing), 1.0, 0.03));
  burst_t beside = {.grows = 0.2, .shapes = 1, .contenders = 2};
  burst_t capped = {.grows = 0.2, .shapes = 1, .contenders = 1};
  CHECK("beside others nothing is charged twice", charged_for(beside) < 1.03);
  CHECK("nor under a ceiling", charged_for(capped) < 1.03);
}

int main(void)
{
  driver_plays(is_done, ask_stream);
  clocks_that_change();
  cold_beginnings();
  what_does_not_count();
  RESULT();
}
