// Which runs over several streams count beside others, whom the sampler asks, and what threads count. The driver is
// played by two clocks.

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "sampler_driver.h"

#define STREAMS 4u
#define LAUNCH_MS 0.2
// As many may be under way.
#define FILL 20

// Where the GPU is, in milliseconds of its own time.
static double       gpu_ms;
static unsigned int streams_asked;
static bool         is_dry;
// Whether the GPU has not come to a sample's first event when its last is recorded.
static bool is_queued;

static CUresult record(CUevent event, CUstream stream)
{
  (void)stream;
  *(double *)event = gpu_ms;
  return CUDA_SUCCESS;
}

static CUresult is_done(CUevent event)
{
  const bool is_first = ((double *)event - stamps_ms) % 2 == 0;
  return is_first && is_queued ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult ask_stream(CUstream stream)
{
  (void)stream;
  streams_asked += 1;
  return is_dry ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static const jvgpu_stream_calls_t calls = {.record = record};

static CUstream stream_of(uint32_t number)
{
  return (CUstream)(uintptr_t)(1 + number % STREAMS);
}

// A saturating tenant beside another: launches on all streams in turn. `waited`: how many of each hundred had to wait for
// room. The GPU keeps pace where as much is under way as may be, and starts with nothing to do.
static uint64_t seen_after(uint32_t launches, uint32_t waited)
{
  static jvgpu_sampler_t sampler;
  jvgpu_shape_t          shape = {.key = 1, .samples = 6, .mean_ns = LAUNCH_MS * 2e6, .duration_ns = 400000};
  jvgpu_late_t           late;
  events = 0;
  memset(&sampler, 0, sizeof sampler);
  jvgpu_sampler_start(&sampler);
  for (uint32_t i = 0; i < launches; i++) {
    jvgpu_sampler_launched(&sampler, i % 2 == 0, 1);
    sampler.full_ns = i % 100 >= 100 - waited ? 4000000 : 0;
    sampler.last = stream_of(i);
    sampler.streams_seen |= UINT64_C(1) << (i % STREAMS);
    // The program waited for all of it. The host runs ahead until as much as may be is under way, then goes at the
    // GPU's pace.
    gpu_ms += i % 100 == 0 ? FILL * LAUNCH_MS : i % 100 < FILL ? 0.001 : LAUNCH_MS;
    if (jvgpu_sampler_is_open(&sampler)) {
      jvgpu_sampler_step(&sampler, &shape, stream_of(i), &calls, 0, false);
    }
    if (i % 7 != 0) {
      continue;
    }
    const int sample = jvgpu_sampler_open(&sampler, &shape, stream_of(i), false, &calls, 2, 0, &late);
    if (sample >= 0) {
      sampler.samples[sample].state = JVGPU_SAMPLE_FREE;
    }
  }
  return shape.duration_ns;
}

static void runs_count_from_full_to_full(void)
{
  const uint64_t seen_ns = seen_after(1000, 80);
  CHECK("a run that begins and ends with as much under way as may be counts", seen_ns > 195000 && seen_ns < 205000);
  CHECK("one that begins while it fills does not, nor where it never is full", seen_after(1000, 0) == 400000);
  is_dry = true;
  CHECK("nor where the GPU had nothing to do meanwhile", seen_after(1000, 80) == 400000);
  is_dry = false;
}

// Launches of three shapes over streams in turn, of which one is charged `times` what it takes. returns: what all are
// charged in the end, as a part of what they take. `turn_ms`: others have the GPU for so long after every forty.
static double charged_after(double times, double turn_ms)
{
  static jvgpu_sampler_t sampler;
  jvgpu_shape_t          shapes[3];
  jvgpu_late_t           late;
  uint64_t               busy_ns = 0;
  const double           each_ns = LAUNCH_MS * 1e6 * times;
  events = 0;
  memset(&sampler, 0, sizeof sampler);
  jvgpu_sampler_start(&sampler);
  for (uint32_t i = 0; i < 3; i++) {
    shapes[i] = (jvgpu_shape_t){.key = i + 1, .samples = 6, .mean_ns = each_ns, .duration_ns = (uint64_t)each_ns};
  }
  for (uint32_t i = 0; i < 4000; i++) {
    jvgpu_shape_t *shape = &shapes[i % 3];
    busy_ns += shape->duration_ns * sampler.overlap_ppm / 1000000;
    jvgpu_sampler_launched(&sampler, true, 1);
    sampler.last = stream_of(i);
    sampler.streams_seen |= UINT64_C(1) << (i % STREAMS);
    if (jvgpu_sampler_is_open(&sampler)) {
      jvgpu_sampler_step(&sampler, shape, stream_of(i), &calls, busy_ns, false);
    }
    if (i % 7 == 0) {
      const int sample = jvgpu_sampler_open(&sampler, shape, stream_of(i), false, &calls, 2, busy_ns, &late);
      if (sample >= 0) {
        sampler.samples[sample].state = JVGPU_SAMPLE_FREE;
      }
    }
    gpu_ms += LAUNCH_MS + (i % 40 == 39 ? turn_ms : 0);
  }
  return (double)shapes[0].duration_ns * (double)sampler.overlap_ppm / 1e6 / (LAUNCH_MS * 1e6);
}

static bool is_right(double part)
{
  return part > 0.97 && part < 1.03;
}

// Catches a bug where functions that alternate over streams beside others were charged for others' turns, up to five
// times what they had, and one where who was charged too much could have so little under way that it never was corrected.
static void alternating_launches_are_charged_what_they_take_together(void)
{
  is_queued = true;
  CHECK("charged too much at first", is_right(charged_after(2.5, 2.475)));
  CHECK("or too little", is_right(charged_after(0.5, 2.475)));
  CHECK("or right, and others have most of the GPU", is_right(charged_after(1, 16.15)));
  is_queued = false;
  CHECK("too much, and the host keeps the GPU waiting", is_right(charged_after(2.5, 2.475)));
  CHECK("where the GPU waits too little is believed to be right", charged_after(0.5, 2.475) < 0.51);
}

// A guess of `times` what launches of sixteen streams take, of which a window tells. returns: what is to be charged
// for it, less than 0: to give back; what a launch is charged then in *duration_ns.
static int64_t made_good_after(double times, double *duration_ns, bool *is_guess)
{
  static jvgpu_sampler_t sampler;
  const double           true_ns = 20000;
  jvgpu_shape_t          shape = {
      .key = 1, .samples = 6, .mean_ns = true_ns * times, .duration_ns = (uint64_t)(true_ns * times)};
  int64_t late_ns = 0;
  memset(&sampler, 0, sizeof sampler);
  jvgpu_sampler_start(&sampler);
  sampler.streams = 16;
  sampler.last_shape = &shape;
  sampler.known_ns = 1;  // long ago
  for (int i = 0; i < 1000; i++) {
    jvgpu_sampler_launched(&sampler, true, shape.duration_ns);
  }
  for (int i = 0; i < 5; i++) {
    double            scale = 1.0;
    const jvgpu_had_t had = {.ns = 2000000, .charged_ns = 100 * shape.duration_ns, .launches = 100, .is_all = true};
    late_ns += jvgpu_sampler_had(&sampler, had, &scale).ns;
    CHECK("what is under way is told by how much it was wrong",
          i != 0 || times > 0.8 || (scale * times > 0.99 && scale * times < 1.01));
  }
  *duration_ns = (double)shape.duration_ns;
  *is_guess = jvgpu_sampler_is_guess(&sampler);
  return late_ns;
}

static void windows_set_guesses_right(void)
{
  double duration_ns;
  bool   is_guess;
  // A thousand launches of 20 µs.
  const int64_t little_ns = made_good_after(0.02, &duration_ns, &is_guess);
  CHECK("who guessed a fiftieth is charged the rest", little_ns > 19000000 && little_ns < 20000000);
  CHECK("and what its launches take from then on", duration_ns > 19900 && duration_ns < 20100 && !is_guess);
  const int64_t much_ns = made_good_after(100, &duration_ns, &is_guess);
  CHECK("who guessed a hundred times as much is given that back", much_ns < -1970000000 && much_ns > -1990000000);
  CHECK("and is charged what they take", duration_ns > 19900 && duration_ns < 20100 && !is_guess);
  const int64_t right_ns = made_good_after(1, &duration_ns, &is_guess);
  CHECK("who was right is charged nothing more", right_ns > -100000 && right_ns < 100000);
}

// Who may never have a window of its own must not have few launches under way, and an event behind each, for ever.
static void who_is_blind_is_so_for_two_seconds(void)
{
  static jvgpu_sampler_t sampler;
  jvgpu_sampler_start(&sampler);
  sampler.streams = 4;
  jvgpu_sampler_note_guess(&sampler);
  CHECK("four streams are told by events", !jvgpu_sampler_is_blind(&sampler) && !jvgpu_sampler_is_guess(&sampler));
  sampler.streams = 16;
  jvgpu_sampler_note_guess(&sampler);
  CHECK("nothing is known of sixteen", jvgpu_sampler_is_blind(&sampler) && jvgpu_sampler_is_guess(&sampler));
  sampler.blind_ns -= UINT64_C(2000000000);
  jvgpu_sampler_note_guess(&sampler);
  CHECK("after two seconds it is a guess as before",
        !jvgpu_sampler_is_blind(&sampler) && jvgpu_sampler_is_guess(&sampler));
  sampler.hads = 3;
  sampler.had_ns = jvgpu_now_ns();
  jvgpu_sampler_note_guess(&sampler);
  CHECK("and once it was seen none", !jvgpu_sampler_is_guess(&sampler));
  sampler.had_ns -= UINT64_C(5000000000);
  jvgpu_sampler_note_guess(&sampler);
  CHECK("what was seen long ago is asked for, and goes on counting",
        jvgpu_sampler_is_guess(&sampler) && !jvgpu_sampler_is_blind(&sampler));
  sampler.hads = 0;
  jvgpu_sampler_note_guess(&sampler);
  CHECK("where it was wrong all begins anew", jvgpu_sampler_is_blind(&sampler));
}

static void a_stream_that_is_gone_is_not_asked_for(void)
{
  is_dry = true;
  streams_asked = 0;
  static jvgpu_sampler_t sampler;
  jvgpu_sampler_start(&sampler);
  sampler.last = stream_of(1);
  CHECK("the latest launch's stream says whether it is done", jvgpu_sampler_is_idle(&sampler) && streams_asked == 1);
  jvgpu_sampler_stream_gone(&sampler, stream_of(2));
  CHECK("also where another ends", jvgpu_sampler_is_idle(&sampler) && streams_asked == 2);
  jvgpu_sampler_stream_gone(&sampler, stream_of(1));
  CHECK("once it is destroyed the driver is not asked about it",
        !jvgpu_sampler_is_idle(&sampler) && streams_asked == 2);
}

// --- threads that launch at once -------------------------------------------------------------------------------------

#define THREADS 3
#define LAUNCHES 2000000u

typedef struct counting_s {
  jvgpu_sampler_t *sampler;
  jvgpu_shape_t   *shape;
  bool             is_writer;
} counting_t;

static void *launch(void *argument)
{
  const counting_t *counting = argument;
  for (uint32_t i = 0; i < LAUNCHES; i++) {
    jvgpu_sampler_launched(counting->sampler, counting->is_writer, 1);
    jvgpu_shape_charged(counting->shape, counting->is_writer, 3);
  }
  return NULL;
}

static void threads_lose_no_launch(void)
{
  static jvgpu_sampler_t sampler;
  jvgpu_shape_t          shape = {.key = 1};
  pthread_t              threads[THREADS];
  counting_t             counting[THREADS];
  for (int i = 0; i < THREADS; i++) {
    counting[i] = (counting_t){.sampler = &sampler, .shape = &shape, .is_writer = i == 0};
    if (pthread_create(&threads[i], NULL, launch, &counting[i]) != 0) {
      abort();
    }
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  const jvgpu_shape_mark_t mark = jvgpu_shape_mark(&shape);
  CHECK("a run counts all of them", jvgpu_sampler_launches(&sampler) == THREADS * LAUNCHES);
  CHECK("and so does their shape", mark.made == THREADS * LAUNCHES && mark.sum_ns == UINT64_C(3) * mark.made);
}

int main(void)
{
  threads_lose_no_launch();
  driver_plays(is_done, ask_stream);
  runs_count_from_full_to_full();
  alternating_launches_are_charged_what_they_take_together();
  a_stream_that_is_gone_is_not_asked_for();
  windows_set_guesses_right();
  who_is_blind_is_so_for_two_seconds();
  RESULT();
}
