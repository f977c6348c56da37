// Sampler: now and then, timing events round launches, and what they say taken into the shapes.
//
// Four kinds of sample, all of events on the launches' own stream:
//   one launch   the first of a shape, and where the host is too slow to keep launches queued
//   a run        several launches of one shape, long enough that the events' own cost does not show
//   a mark       the first launches after the GPU had nothing to do: only a border of stretches (sampler_stretch.c)
//   a span       launches of every shape: how far they overlap on the GPU, on one stream too, where a launch
//                begins before its forerunner's last blocks are done
// A run or span counts only if the GPU had not come to its first event when its second was recorded:
// then everything between was queued, and no pause of the host's is in it.

#ifndef JVGPU_SAMPLER_H
#define JVGPU_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "lock.h"
#include "own.h"
#include "pulse.h"
#include "shapes.h"

// As many can be under way: a program without a neighbour may queue a second of work at once.
#define JVGPU_MOST_SAMPLES 32
// A span on one stream takes in so many launches.
#define JVGPU_LEAST_SPAN 8u
#define JVGPU_MOST_SPAN 64u

// A process that has not launched for so long is no contender to the agent.
#define JVGPU_COUNTED_NS UINT64_C(1000000000)
// Of spans over several streams beside others so many are compared: a third or less of them are not cut.
#define JVGPU_SPANS_KEPT 32u

// The driver's functions for one kind of stream handle: legacy, or per-thread default ("_ptsz").
typedef struct jvgpu_stream_calls_s {
  CUresult (*record)(CUevent event, CUstream stream);
  CUresult (*is_capturing)(CUstream stream, int *status);
} jvgpu_stream_calls_t;

typedef enum jvgpu_sample_state_e {
  JVGPU_SAMPLE_FREE = 0,
  JVGPU_SAMPLE_OPEN,
  JVGPU_SAMPLE_PENDING
} jvgpu_sample_state_t;

// All that the GPU did from the first event of one sample to that of the next, if the GPU had not come to the end of the
// one when the other began: no pause is in it.
typedef struct jvgpu_stretch_s {
  CUstream stream;
  uint64_t before_ns;   // what all launches before the sample were charged by their durations
  uint32_t unknown;     // launches so far of which it was not known
  uint32_t begun;       // how often this sample was begun
  int      next;        // the sample at which it ends, -1 = there is none
  uint32_t next_begun;  // how often that one was
  double   charged_ns;  // what the launches in it were charged
  uint32_t from;        // stretches so far, when the sample was begun
  uint32_t to;          // when the next of its shape was
} jvgpu_stretch_t;

typedef struct jvgpu_sample_s {
  jvgpu_sample_state_t state;
  CUevent              begun;
  CUevent              ended;
  jvgpu_shape_t       *shape;       // NULL = a span
  uint32_t             launches;    // between the events
  double               made_ns;     // when it was opened
  double               host_ns;     // one launch: from the first event's record to the launch's return
  double               charged_ns;  // span: what was charged meanwhile, had nothing overlapped
  double               late_ns;     // one launch: from the launch's return to the second event's record
  bool                 is_over;     // a run, a span or a mark: closed by a later launch
  bool                 is_mark;
  bool                 was_queued;  // the GPU had not come to the first event when all was there
  bool                 was_idle;    // one launch: the stream had nothing to do before it
  bool                 is_contended;
  uint64_t             clear_ns;  // the window of this process\'s own in which it was begun, 0 = it was in none
  bool                 is_dry;      // run: at some moment nothing was under way
  bool                 was_full;    // run: begun and ended with as much under way as may be
  uint64_t             full_ns;     // which was so much when it was begun
  uint64_t             known_ns;    // what a launch was charged then: how many are under way goes by it
  uint32_t             watch;       // the number under which its lost turns are watched, 0 = they are not
  bool                 has_next;    // another sample of the same shape was begun later
  jvgpu_shape_mark_t   from;        // of its shape, when it was begun
  jvgpu_shape_mark_t   to;          // when the next was
  jvgpu_stretch_t      stretch;     // from its first event to that of the next sample, of whatever shape
  uint32_t             spanned;     // span on one stream: launches whose shapes are known
  jvgpu_shape_t       *shapes[JVGPU_MOST_SPAN];
} jvgpu_sample_t;

#define JVGPU_NO_STREAM ((CUstream)UINTPTR_MAX)

// A run or a span that is still open; a later launch on its stream closes it.
typedef struct jvgpu_open_s {
  int      sample;  // index, -1 = none
  CUstream stream;
  uint32_t launches;  // the sampler's count when it was opened
  uint32_t wanted;
  uint64_t busy_ns;
} jvgpu_open_t;

// To charge, or less than 0 to give back, for launches made before it was known how long they take.
typedef struct jvgpu_late_s {
  int64_t ns;
  int64_t sm_ns;  // the same, times the part of the SMs
} jvgpu_late_t;

typedef struct jvgpu_sampler_s {
  jvgpu_lock_t   lock;
  CUcontext      ctx;  // the events are this context's
  bool           failed;
  jvgpu_sample_t samples[JVGPU_MOST_SAMPLES];
  jvgpu_open_t   run;
  jvgpu_open_t   span;
  uint32_t       launches[2];   // made, as jvgpu_shape_t.so_far
  uint64_t       charged_ns[2]; // for them, by their durations
  uint64_t       latest_ns;     // for the latest
  uint32_t       unknown;       // launches of which the duration was not known
  int            newest;        // the sample begun last, -1 = none yet
  uint32_t       stretches;  // seen so far
  bool           is_marking;  // the open span is a mark
  CUstream       last;  // of the latest launch, or JVGPU_NO_STREAM: it is gone
  uint64_t       full_ns;  // the launch waited for room: so much is under way; 0 = it did not
  uint64_t       streams_seen;  // as bits of a hash, since the last look
  uint32_t       streams;       // how many that were
  bool           is_mixed;  // launches of several shapes are interleaved over streams
  jvgpu_shape_t *last_shape;  // that was sampled
  uint64_t       known_ns;  // when it was last seen what launches take while nobody else has the GPU, 0 = never
  uint64_t varied_ns;  // when a sample was taken of a shape whose arguments change how long it takes, 0 = none was
  uint64_t known_charged_ns;  // what was charged by then
  uint32_t known_launches;  // and how many were made
  bool     is_owed;  // what was charged since is a guess that was seen to be one, and not made good yet
  uint64_t held_back_ns;  // taken back since, as more than there was time for
  uint32_t hads;  // stretches that the process had for itself, of late
  uint64_t blind_ns;  // since when nothing was seen of its many streams, 0 = something was, or they are few
  bool     is_blind;  // so it is, and not for long
  bool     is_guess;  // what many streams are charged was not seen so lately
  uint64_t had_ns;      // when a stretch was taken in that the process had for itself, 0 = none was
  uint64_t beside_ns;  // when it last was not alone, as far as is known; at first, when it began
  const uint64_t *clear_ns;  // in the control page: since when the device is this process's own; NULL = nobody says
  uint64_t        clear_seen_ns;  // when a sample was taken in that lay within such a window, 0 = none was
  uint64_t        run_alone_ns;  // a run without a neighbour should last so long
  uint32_t        span_launches; // of the next span on one stream
  uint32_t        turn; // on one stream runs and spans take turns: events of one would show in the other
  double          overlap;       // GPU time of all launches together as part of their durations' sum
  uint32_t        spans;         // taken in so far
  uint32_t        unqueued;      // over several streams, in a row, that were not all queued
  float           seen[JVGPU_SPANS_KEPT]; // beside others: what the latest spans over several streams say of it
  uint32_t        seen_count;
  bool            seen_queued;   // some of them were all queued, and no others are kept
  bool            is_free;       // neither others nor a ceiling: it does not matter when something is charged
  uint64_t        overlap_ppm;   // the same, for the launch path; 1000000 = one after the other
  jvgpu_pulse_t   pulse;
} jvgpu_sampler_t;

void jvgpu_sampler_start(jvgpu_sampler_t *sampler);

// Take in what is finished, then open a sample before a launch of `shape`. `contenders` as in the control
// page; `is_idle`: the stream has nothing to do at this moment.
// returns: the index of a sample of this one launch, to be ended after it; -1 when there is none to
// end. *late: of what was taken in.
// pre: no capture is alive.
int jvgpu_sampler_open(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, CUstream stream, bool is_idle,
                       const jvgpu_stream_calls_t *calls, uint32_t contenders, uint64_t busy_ns, jvgpu_late_t *late);
// Take in what is finished, where no launch follows that would.
// pre: no capture is alive.
jvgpu_late_t jvgpu_sampler_collect(jvgpu_sampler_t *sampler, uint32_t contenders);

// Take in a stretch in which the process had the device for itself, and always something under way. Over one stream
// events say more, but where arguments change durations: what single launches say is of those alone.
// *times: how many times what they were believed to take launches do, where that is news; else it stays.
jvgpu_late_t jvgpu_sampler_had(jvgpu_sampler_t *sampler, jvgpu_had_t had, double *times);
// Look whether its many streams have not been seen so lately. pre: the lock is held.
void jvgpu_sampler_note_guess(jvgpu_sampler_t *sampler);
// returns: what was found at the latest such look. threads: any.
static inline bool jvgpu_sampler_is_guess(const jvgpu_sampler_t *sampler)
{
  return __atomic_load_n(&sampler->is_guess, __ATOMIC_RELAXED);
}

// returns: whether they have not been seen so at all, and may be soon. threads: any.
static inline bool jvgpu_sampler_is_blind(const jvgpu_sampler_t *sampler)
{
  return __atomic_load_n(&sampler->is_blind, __ATOMIC_RELAXED);
}

// The GPU had nothing to do, and this launch begins something: mark it. Clocks are low then, and the next sample would
// not tell of that.
// pre: no capture is alive. returns: whether it is marked.
bool jvgpu_sampler_mark(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, CUstream stream,
                        const jvgpu_stream_calls_t *calls, uint32_t contenders, uint64_t busy_ns);

void jvgpu_sampler_end(jvgpu_sampler_t *sampler, int sample, CUstream stream, const jvgpu_stream_calls_t *calls,
                       CUresult result);

// A launch is about to be made while a run or a span is open: it goes on, ends here, or is spoiled.
// `quiet`: a capture is alive, nothing may be recorded or asked.
void jvgpu_sampler_step(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape, CUstream stream,
                        const jvgpu_stream_calls_t *calls, uint64_t busy_ns, bool quiet);

// returns: whether the latest launch is done. threads: any; no where another looks just now.
bool jvgpu_sampler_is_idle(jvgpu_sampler_t *sampler);
// A stream is about to be destroyed: nobody asks for it after this.
void jvgpu_sampler_stream_gone(jvgpu_sampler_t *sampler, CUstream stream);

// What is known of a shape is no longer so (jvgpu_shape_forget). threads: any.
void jvgpu_sampler_forget(jvgpu_sampler_t *sampler, jvgpu_shape_t *shape);

// Take in the samples that are over (sampler_learn.c). pre: the lock is held.
jvgpu_late_t jvgpu_sampler_learn(jvgpu_sampler_t *sampler, uint32_t contenders);
// All launches together were seen to take this part of what each takes.
void jvgpu_sampler_set_overlap(jvgpu_sampler_t *sampler, double seen);

// A gate was closed: what is open holds time in which nothing was allowed.
void jvgpu_sampler_gated(jvgpu_sampler_t *sampler);
// returns: how many samples are under way.
uint32_t jvgpu_sampler_pending(const jvgpu_sampler_t *sampler);

static inline uint32_t jvgpu_sampler_launches(const jvgpu_sampler_t *sampler)
{
  return __atomic_load_n(&sampler->launches[0], __ATOMIC_RELAXED) +
         __atomic_load_n(&sampler->launches[1], __ATOMIC_RELAXED);
}

// Count a launch that is charged `charged_ns` by its duration, 0 = that is not known. `is_writer`: as for
// jvgpu_shape_charged. returns: how many were made.
static inline uint32_t jvgpu_sampler_launched(jvgpu_sampler_t *sampler, bool is_writer, uint64_t charged_ns)
{
  if (is_writer) {
    __atomic_store_n(&sampler->launches[0], sampler->launches[0] + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&sampler->charged_ns[0], sampler->charged_ns[0] + charged_ns, __ATOMIC_RELAXED);
  } else {
    __atomic_fetch_add(&sampler->launches[1], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sampler->charged_ns[1], charged_ns, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&sampler->latest_ns, charged_ns, __ATOMIC_RELAXED);
  if (__builtin_expect(charged_ns == 0, 0)) {
    __atomic_fetch_add(&sampler->unknown, 1, __ATOMIC_RELAXED);
  }
  return jvgpu_sampler_launches(sampler);
}

static inline bool jvgpu_sampler_is_open(const jvgpu_sampler_t *sampler)
{
  return __atomic_load_n(&sampler->run.sample, __ATOMIC_RELAXED) >= 0 ||
         __atomic_load_n(&sampler->span.sample, __ATOMIC_RELAXED) >= 0;
}

// A mark is open: nothing else may be begun.
static inline bool jvgpu_sampler_is_marking(const jvgpu_sampler_t *sampler)
{
  return __atomic_load_n(&sampler->is_marking, __ATOMIC_RELAXED);
}

#endif
