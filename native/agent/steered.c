#define _GNU_SOURCE
#include "steered.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

// How old the sign of life in the control pages may get.
#define ALIVE_NS UINT64_C(20000000)
// No process uses more between two looks. A first duration that became known late may be long.
#define MOST_USED_NS INT64_C(10000000000)
#define MOST_BLOCKED 4096u
// To wake a thread takes ten microseconds, in which no other gate is seen to: each that is woken wakes the next.
#define WOKEN 16

// --- reading pages -------------------------------------------------------------------------------------------

static uint64_t load(const uint64_t *figure)
{
  return __atomic_load_n(figure, __ATOMIC_RELAXED);
}

static int64_t least(int64_t one, int64_t other)
{
  return one < other ? one : other;
}

// What one process was charged since the last look; less than 0: so much was too much before.
static int64_t used_by(jvgpu_steered_runner_t *steered, uint32_t slot, uint64_t busy_ns)
{
  const uint64_t ahead_ns = load(&steered->tenant->usage->slots[slot].devices[steered->index].ahead_ns);
  const uint64_t charged_ns = busy_ns > ahead_ns ? busy_ns - ahead_ns : 0;
  const uint32_t generation = __atomic_load_n(&steered->tenant->generations[slot], __ATOMIC_RELAXED);
  if (generation != steered->generations[slot]) {
    // A process that comes from an earlier agent's pages brings along what it was charged there.
    steered->generations[slot] = generation;
    steered->seen_ns[slot] = charged_ns;
    steered->base_done_ns[slot] = load(&steered->tenant->usage->slots[slot].devices[steered->index].done_ns);
  }
  const int64_t used_ns = (int64_t)(charged_ns - steered->seen_ns[slot]);
  steered->seen_ns[slot] = charged_ns;
  return used_ns > 0 ? least(used_ns, MOST_USED_NS) : -least(-used_ns, MOST_USED_NS);
}

// What is done is kept by the tenant only while it is governed; what stood there before says nothing.
static uint64_t flight_of(jvgpu_steered_runner_t *steered, uint32_t slot, uint64_t busy_ns, uint64_t done_ns)
{
  if (!steered->was_governed) {
    steered->base_done_ns[slot] = done_ns;
    return 0;
  }
  if (done_ns == steered->base_done_ns[slot] || done_ns >= busy_ns) {
    return 0;
  }
  return busy_ns - done_ns < (uint64_t)MOST_USED_NS ? busy_ns - done_ns : (uint64_t)MOST_USED_NS;
}

void jvgpu_steered_read(jvgpu_steered_runner_t *steered, jvgpu_runner_t *runner)
{
  const jvgpu_control_t        *control = steered->tenant->control;
  const jvgpu_control_device_t *limits = &control->devices[steered->index];
  uint32_t                      slots = __atomic_load_n(&control->slot_count, __ATOMIC_RELAXED);
  slots = slots < JVGPU_MAX_SLOTS ? slots : JVGPU_MAX_SLOTS;
  runner->weight_ppm = __atomic_load_n(&limits->share_ppm, __ATOMIC_RELAXED);
  runner->weight_ppm = runner->weight_ppm != 0 ? runner->weight_ppm : 1;
  runner->ceiling_ppm = __atomic_load_n(&limits->ceiling_ppm, __ATOMIC_RELAXED);
  runner->at_work = 0;
  runner->blocked = 0;
  runner->flight_ns = 0;
  runner->is_guess = false;
  for (uint32_t slot = 0; slot < slots; slot++) {
    if (__atomic_load_n(&steered->tenant->pids[slot], __ATOMIC_RELAXED) == 0) {
      continue;
    }
    const jvgpu_use_t *use = &steered->tenant->usage->slots[slot].devices[steered->index];
    const uint64_t     done_ns = load(&use->done_ns);
    const uint64_t     busy_ns = load(&use->busy_ns);
    const uint32_t     blocked = __atomic_load_n(&use->blocked, __ATOMIC_RELAXED);
    const int64_t      used_ns = used_by(steered, slot, busy_ns);
    const uint64_t     flight_ns = flight_of(steered, slot, busy_ns, done_ns);
    const uint32_t     stand = steered->was_governed && blocked <= MOST_BLOCKED ? blocked : 0;
    runner->used_ns += used_ns > 0 ? (uint64_t)used_ns : 0;
    runner->back_ns += used_ns < 0 ? (uint64_t)-used_ns : 0;
    runner->flight_ns += flight_ns;
    runner->blocked += stand;
    runner->is_guess = runner->is_guess || __atomic_load_n(&use->is_guess, __ATOMIC_RELAXED) != 0;
    runner->at_work += used_ns != 0 || flight_ns != 0 || stand != 0;
  }
}

// Only what others keep it from is owed: not what its own ceiling does, nor work that gets nowhere at an open gate. At
// the look before it wanted something, so what is under way is not what nobody saw the end of; and who is alone, with
// gaps, has nothing that stands.
void jvgpu_steered_judge(jvgpu_steered_runner_t *steered, jvgpu_runner_t *runner, uint64_t at_ns)
{
  const bool may_have_it = runner->wants && !runner->is_capped && !runner->is_stuck;
  const bool stands = runner->blocked != 0 || runner->flight_ns != 0;
  jvgpu_guarantee_note(&steered->guarantee, runner->used_ns, may_have_it && stands, at_ns);
  runner->is_raised = steered->guarantee.is_raised;
  runner->priority = jvgpu_guarantee_priority(&steered->guarantee, steered->priority);
}

// --- writing pages ------------------------------------------------------------------------------------------

static void set_gate(jvgpu_steered_runner_t *steered, bool is_open, jvgpu_records_t *records, uint64_t at_ns)
{
  jvgpu_control_device_t *limits = &steered->tenant->control->devices[steered->index];
  if (is_open == steered->was_open) {
    return;
  }
  steered->was_open = is_open;
  // Release: who sees the gate open sees the bound that goes with it.
  __atomic_store_n(&limits->gate, is_open ? JVGPU_GATE_OPEN : JVGPU_GATE_CLOSED, __ATOMIC_RELEASE);
  if (is_open) {
    syscall(SYS_futex, &limits->gate, FUTEX_WAKE, WOKEN, NULL, NULL, 0);
    steered->closed_ns += at_ns - steered->closed_since_ns;
    steered->closed_since_ns = 0;
  } else {
    steered->closed_since_ns = at_ns;
  }
  jvgpu_records_add(records, steered->number, is_open ? JVGPU_GATE_OPENED : JVGPU_GATE_SHUT, 0, at_ns);
}

void jvgpu_steered_write_clear(const jvgpu_steered_runner_t *steered, uint64_t clear_ns)
{
  jvgpu_control_device_t *limits = &steered->tenant->control->devices[steered->index];
  if (load(&limits->clear_ns) != clear_ns) {
    __atomic_store_n(&limits->clear_ns, clear_ns, __ATOMIC_SEQ_CST);
  }
}

void jvgpu_steered_write(jvgpu_steered_runner_t *steered, const jvgpu_runner_t *runner, jvgpu_records_t *records,
                         uint64_t at_ns)
{
  jvgpu_control_t        *control = steered->tenant->control;
  jvgpu_control_device_t *limits = &control->devices[steered->index];
  if (at_ns - steered->alive_ns > ALIVE_NS) {
    steered->alive_ns = at_ns;
    __atomic_store_n(&control->governor_ns, at_ns, __ATOMIC_RELAXED);
  }
  if (load(&limits->flight_bound_ns) != runner->bound_ns) {
    __atomic_store_n(&limits->least_in_flight, runner->least, __ATOMIC_RELAXED);
    __atomic_store_n(&limits->flight_bound_ns, runner->bound_ns, __ATOMIC_RELAXED);
  }
  set_gate(steered, runner->is_open, records, at_ns);
  if (steered->was_governed != runner->is_governed) {
    steered->was_governed = runner->is_governed;
    __atomic_store_n(&limits->is_governed, runner->is_governed ? 1 : 0, __ATOMIC_RELEASE);
  }
}

void jvgpu_steered_let_go(jvgpu_steered_runner_t *steered, jvgpu_records_t *records, uint64_t at_ns)
{
  const jvgpu_runner_t free_runner = {.is_open = true};
  jvgpu_steered_write_clear(steered, 0);
  jvgpu_steered_write(steered, &free_runner, records, at_ns);
}
