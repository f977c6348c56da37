// What was charged wrongly, and what is over.

#include "clock.h"
#include "meter_parts.h"

void jvgpu_meter_look_for_window(const jvgpu_process_t *self, jvgpu_meter_t *meter, int device)
{
  const jvgpu_control_t *control = __atomic_load_n(&self->control, __ATOMIC_ACQUIRE);
  const bool             is_governed = jvgpu_is_recent(&control->governor_ns, JVGPU_SURE_GOVERNOR_NS);
  __atomic_store_n(&meter->sampler.clear_ns, is_governed ? &control->devices[device].clear_ns : NULL, __ATOMIC_RELAXED);
}

void jvgpu_meter_charge_late(jvgpu_meter_t *meter, jvgpu_use_t *use, jvgpu_late_t late)
{
  if (late.ns < 0) {
    const uint64_t back_ns = __atomic_add_fetch(&meter->given_back_ns, (uint64_t)-late.ns, __ATOMIC_RELAXED);
    __atomic_store_n(&use->ahead_ns, back_ns, __ATOMIC_RELAXED);
  } else if (late.ns > 0) {
    __atomic_fetch_add(&use->busy_ns, (uint64_t)late.ns, __ATOMIC_RELAXED);
    __atomic_fetch_add(&use->sm_ns, late.sm_ns > 0 ? (uint64_t)late.sm_ns : 0, __ATOMIC_RELAXED);
  }
}

uint64_t jvgpu_meter_less_given_back(jvgpu_meter_t *meter, jvgpu_use_t *use, uint64_t charge_ns)
{
  uint64_t back_ns = __atomic_load_n(&meter->given_back_ns, __ATOMIC_RELAXED);
  uint64_t part_ns;
  do {
    part_ns = back_ns < charge_ns ? back_ns : charge_ns;
  } while (!__atomic_compare_exchange_n(&meter->given_back_ns, &back_ns, back_ns - part_ns, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  __atomic_store_n(&use->ahead_ns, back_ns - part_ns, __ATOMIC_RELAXED);
  return charge_ns - part_ns;
}

void jvgpu_meter_say_guess(const jvgpu_process_t *self, const jvgpu_meter_t *meter, int device)
{
  jvgpu_use_t   *use = jvgpu_process_use(self, device);
  const uint32_t is_guess = jvgpu_sampler_is_guess(&meter->sampler);
  if (__atomic_load_n(&use->is_guess, __ATOMIC_RELAXED) != is_guess) {
    __atomic_store_n(&use->is_guess, is_guess, __ATOMIC_RELAXED);
  }
}

bool jvgpu_meter_is_blind(const jvgpu_process_t *self, int device)
{
  const jvgpu_meter_t *meter = meter_made(self, device);
  return meter != NULL && jvgpu_sampler_is_blind(&meter->sampler);
}

void jvgpu_meter_too_much(jvgpu_process_t *self, int device, uint64_t excess_ns)
{
  jvgpu_meter_t *meter = meter_made(self, device);
  if (meter != NULL) {
    __atomic_fetch_add(&meter->sampler.held_back_ns, excess_ns, __ATOMIC_RELAXED);
    jvgpu_meter_charge_late(meter, jvgpu_process_use(self, device), (jvgpu_late_t){.ns = -(int64_t)excess_ns});
  }
}

double jvgpu_meter_had(jvgpu_process_t *self, int device, jvgpu_had_t had)
{
  jvgpu_meter_t *meter = meter_made(self, device);
  double         times = 1.0;
  if (meter != NULL) {
    jvgpu_meter_charge_late(meter, jvgpu_process_use(self, device), jvgpu_sampler_had(&meter->sampler, had, &times));
    jvgpu_meter_say_guess(self, meter, device);
  }
  return times;
}

void jvgpu_meter_drained(jvgpu_process_t *self)
{
  for (int device = 0; device < (int)JVGPU_MAX_DEVICES; device++) {
    jvgpu_meter_t *meter = meter_made(self, device);
    if (meter == NULL) {
      continue;
    }
    const uint64_t begun_ns = jvgpu_waiting_end(&meter->waiting);
    // A program may end here: its first samples are done now, and no later launch would take them in.
    if (__atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) == 0) {
      jvgpu_meter_look_for_window(self, meter, device);
      jvgpu_meter_charge_late(meter, jvgpu_process_use(self, device),
                              jvgpu_sampler_collect(&meter->sampler, meter_contenders(self, device)));
    }
    if (begun_ns != 0) {
      jvgpu_waiting_note(&meter->waiting, jvgpu_process_use(self, device), begun_ns);
    }
  }
}

void jvgpu_meter_drained_event(jvgpu_process_t *self)
{
  // Where the last stream has drained everything has, but for programs of several streams, whose
  // flight ends at their next full wait.
  for (int device = 0; device < (int)JVGPU_MAX_DEVICES; device++) {
    jvgpu_meter_t *meter = meter_made(self, device);
    if (meter == NULL || jvgpu_waiting_since(&meter->waiting) == 0 ||
        __atomic_load_n(&self->live_captures, __ATOMIC_RELAXED) != 0) {
      continue;
    }
    if (jvgpu_sampler_is_idle(&meter->sampler)) {
      jvgpu_meter_drained(self);
      return;
    }
  }
}
