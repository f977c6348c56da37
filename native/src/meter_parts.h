// What the meter's files share (meter.h is its face).

#ifndef JVGPU_METER_PARTS_H
#define JVGPU_METER_PARTS_H

#include "meter.h"
#include "process.h"
#include "waiting.h"

struct jvgpu_meter_s {
  const char *writer;     // of the thread that alone writes each shape's first figures: it made the first launch
  uint32_t    sms;           // of the device, 0 = not asked yet
  // Written by who has sampled, without a lock: of two at once either interval will do.
  uint64_t        due_ns;        // GPU time at which the next sample is due
  uint32_t        last_sampled;  // the sampler's count of launches at the last sample
  uint64_t        sampled_ns;    // and the moment
  uint64_t        marked_ns;     // GPU time charged when a beginning was marked last
  uint32_t        random;
  uint64_t        given_back_ns; // charged too much, to be taken off what is charged next
  jvgpu_waiting_t waiting;
  jvgpu_sampler_t sampler;
  jvgpu_shapes_t  shapes;
};

// returns: NULL before the device's first launch.
static inline jvgpu_meter_t *meter_made(const jvgpu_process_t *self, int device)
{
  return __atomic_load_n(&self->meters[device], __ATOMIC_ACQUIRE);
}

static inline uint32_t meter_contenders(const jvgpu_process_t *self, int device)
{
  return __atomic_load_n(&jvgpu_process_limits(self, device)->contenders, __ATOMIC_RELAXED);
}

// What was charged wrongly (meter_late.c).
//
// Look whether the process has a window of its own. A governor that may be gone says nothing.
void jvgpu_meter_look_for_window(const jvgpu_process_t *self, jvgpu_meter_t *meter, int device);
// What is charged only rises: what was too much is taken off what comes next.
void jvgpu_meter_charge_late(jvgpu_meter_t *meter, jvgpu_use_t *use, jvgpu_late_t late);
// returns: what is left to charge of a launch once what was charged too much before is taken off.
uint64_t jvgpu_meter_less_given_back(jvgpu_meter_t *meter, jvgpu_use_t *use, uint64_t charge_ns);
// Tell the agent whether what launches are charged is a guess.
void jvgpu_meter_say_guess(const jvgpu_process_t *self, const jvgpu_meter_t *meter, int device);

#endif
