#define _GNU_SOURCE
#include "pacer.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach.h"
#include "cancel.h"
#include "clock.h"
#include "pacer_parts.h"

// A governor looks many times a second; one that has not for so long is gone or stuck.
#define GOVERNOR_LOST_NS UINT64_C(500000000)
// No gate is to be closed for as long as this, whatever a governor believes.
#define MOST_GATED_NS UINT64_C(10000000000)

// Between two looks at fences, and at a gate that may have lost its governor.
#define LOOK_NS 60000
#define LEAST_LOOK_NS 20000
#define GATE_LOOK_NS 20000000
#define CEILING_LOOK_NS 1000000
// So much later than a governor is lost nobody stands at its gate any more.
#define MOST_LYING_NS UINT64_C(400000000)
// A look for room that took longer found less under way than may be.
#define FULL_NS UINT64_C(200000)
// The kernel may end a sleep so much later; its usual 50 µs would be most of it.
#define SLACK_NS 1000ul

// What a launch of unknown duration counts for while it is under way.
#define UNKNOWN_NS UINT64_C(500000)

// Launches of which nobody knows what they take are no more than this at a time: as many as there are streams in a program of
// dozens, and of 2 µs each enough for the GPU until the host looks again.
#define MOST_GUESSED 128u
#define GUESSED_A_LOOK 16u

// Without a governor a ceiling is kept by the tenant's own use: so much may be saved up.
#define LOCAL_BURST_NS UINT64_C(10000000)

static jvgpu_pacer_t *pacer_of(jvgpu_process_t *self, int device)
{
  jvgpu_pacer_t *pacer = __atomic_load_n(&self->pacers[device], __ATOMIC_ACQUIRE);
  if (pacer != NULL) {
    return pacer;
  }
  pacer = mmap(NULL, sizeof *pacer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pacer == MAP_FAILED) {
    return NULL;
  }
  pacer->self = self;
  pacer->device = device;
  pacer->standing.most_lying_ns = MOST_LYING_NS;
  jvgpu_pacer_t *first = NULL;
  if (!__atomic_compare_exchange_n(&self->pacers[device], &first, pacer, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    munmap(pacer, sizeof *pacer);
    return first;
  }
  return pacer;
}

// --- waiting ------------------------------------------------------------------------------------------------------

static bool has_governor(const jvgpu_pacer_t *pacer)
{
  return jvgpu_is_recent(&pacer_control(pacer)->governor_ns, GOVERNOR_LOST_NS);
}

// Where what launches take is a guess no bound can be kept by it: their number is bounded as well. So what is over is known
// launch by launch, too, which is what an own window tells by.
static bool has_room_for_one(jvgpu_pacer_t *pacer, uint64_t bound_ns)
{
  const bool is_beside = __atomic_load_n(&pacer_limits(pacer)->contenders, __ATOMIC_RELAXED) > 1;
  pacer->flight.most = is_beside && jvgpu_meter_is_blind(pacer->self, pacer->device) ? MOST_GUESSED : 0;
  return jvgpu_flight_has_room(&pacer->flight, bound_ns,
                               __atomic_load_n(&pacer_limits(pacer)->least_in_flight, __ATOMIC_RELAXED));
}

// While something is under way its end is worth seeing early: the next tenant waits for it. Half of the way, since how
// long it takes is an estimate.
static long until_next_look_ns(uint64_t under_way_ns)
{
  const uint64_t half_ns = under_way_ns / 2;
  if (under_way_ns == 0) {
    return GATE_LOOK_NS;
  }
  return half_ns < LEAST_LOOK_NS ? LEAST_LOOK_NS : half_ns < LOOK_NS ? (long)half_ns : LOOK_NS;
}

static uint64_t tenant_busy_ns(const jvgpu_pacer_t *pacer)
{
  const jvgpu_usage_t *usage = __atomic_load_n(&pacer->self->usage, __ATOMIC_ACQUIRE);
  uint32_t             slots = __atomic_load_n(&pacer_control(pacer)->slot_count, __ATOMIC_RELAXED);
  uint64_t             sum_ns = 0;
  slots = slots < JVGPU_MAX_SLOTS ? slots : JVGPU_MAX_SLOTS;
  for (uint32_t i = 0; i < slots; i++) {
    sum_ns += __atomic_load_n(&usage->slots[i].devices[pacer->device].busy_ns, __ATOMIC_RELAXED);
  }
  return sum_ns;
}

// The lock is held. `busy_ns`: of all the tenant's processes.
static bool is_ahead(jvgpu_pacer_t *pacer, uint64_t ceiling_ppm, uint64_t busy_ns, uint64_t now_ns)
{
  // Another thread may have begun after this one looked at the clock.
  now_ns = now_ns < pacer->local_since_ns ? pacer->local_since_ns : now_ns;
  if (pacer->local_since_ns == 0) {
    pacer->local_since_ns = now_ns;
    pacer->local_busy_ns = busy_ns;
  }
  const uint64_t used_ns = busy_ns > pacer->local_busy_ns ? busy_ns - pacer->local_busy_ns : 0;
  const uint64_t due_ns = (now_ns - pacer->local_since_ns) / 1000 * ceiling_ppm / 1000;
  if (used_ns + LOCAL_BURST_NS < due_ns) {
    // What was not used is not saved up.
    pacer->local_since_ns = now_ns;
    pacer->local_busy_ns = busy_ns;
    return false;
  }
  return used_ns > due_ns;
}

// Nobody governs: keep the ceiling by what all the tenant's processes use. returns: whether to wait.
static bool is_over_ceiling(jvgpu_pacer_t *pacer, uint64_t now_ns)
{
  const uint64_t ceiling_ppm = __atomic_load_n(&pacer_limits(pacer)->ceiling_ppm, __ATOMIC_RELAXED);
  if (ceiling_ppm >= 1000000) {
    return false;
  }
  jvgpu_lock(&pacer->lock);
  const bool is_over = is_ahead(pacer, ceiling_ppm, tenant_busy_ns(pacer), now_ns);
  jvgpu_unlock(&pacer->lock);
  return is_over;
}

// returns: whether the launch may go now; else it has waited a little.
static bool try_to_pass(jvgpu_pacer_t *pacer, bool is_bounded, uint64_t now_ns, bool *is_full)
{
  const jvgpu_control_device_t *limits = pacer_limits(pacer);
  const uint32_t                turn = jvgpu_standing_turn(&pacer->standing);
  if (!has_governor(pacer)) {
    jvgpu_attach_renew(pacer->self);
    if (!is_over_ceiling(pacer, now_ns)) {
      return true;
    }
    jvgpu_standing_wait(&pacer->standing, turn, CEILING_LOOK_NS);
    return false;
  }
  const uint64_t bound_ns = __atomic_load_n(&limits->flight_bound_ns, __ATOMIC_RELAXED);
  jvgpu_lock(&pacer->lock);
  pacer->local_since_ns = 0;
  jvgpu_fences_look(pacer);
  jvgpu_fences_give_up(pacer, jvgpu_now_ns());
  const bool     has_room = !is_bounded || bound_ns == 0 || pacer_is_quiet(pacer) || has_room_for_one(pacer, bound_ns);
  const uint64_t under_way_ns = pacer->flight.under_way_ns;
  pacer->unseen_ns = has_room ? 0 : pacer->unseen_ns;
  jvgpu_unlock(&pacer->lock);
  if (pacer_is_closed(limits)) {
    jvgpu_standing_wait_at_gate(&pacer->standing, &limits->gate, until_next_look_ns(under_way_ns));
    jvgpu_meter_gated(pacer->self, pacer->device);
    *is_full = false;
    return false;
  }
  if (!has_room) {
    jvgpu_standing_wait(&pacer->standing, turn, LOOK_NS);
    // A host that sleeps for longer finds less under way than there may be.
    *is_full = jvgpu_now_ns() - now_ns < FULL_NS;
  }
  return has_room;
}

static bool is_released(const jvgpu_pacer_t *pacer)
{
  return __atomic_load_n(&pacer_control(pacer)->state, __ATOMIC_RELAXED) == JVGPU_CLAIM_RELEASED;
}

// The agent after a restart looks into other pages: who did not stand there would be let through last of all.
// returns: where the thread counts as standing now.
static jvgpu_use_t *stand_where_looked(const jvgpu_pacer_t *pacer, jvgpu_use_t *before)
{
  jvgpu_use_t *use = pacer_use(pacer);
  if (use != before) {
    __atomic_fetch_add(&use->blocked, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&before->blocked, 1, __ATOMIC_RELAXED);
  }
  return use;
}

// returns: whether it had to wait until there was room, and there was none before that.
static bool wait_until_admitted(jvgpu_pacer_t *pacer, bool is_bounded)
{
  bool           is_full = false;
  const uint64_t begun_ns = jvgpu_now_ns();
  uint64_t       now_ns = begun_ns;
  const int      cancel_state = jvgpu_cancel_later();
  jvgpu_use_t   *use = pacer_use(pacer);
  __atomic_fetch_add(&use->blocked, 1, __ATOMIC_RELAXED);
  jvgpu_standing_begin(&pacer->standing);
  jvgpu_meter_waits(pacer->self, pacer->device);
  const long slack_ns = syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);
  syscall(SYS_prctl, PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
  do {
    if (try_to_pass(pacer, is_bounded, now_ns, &is_full)) {
      break;
    }
    use = stand_where_looked(pacer, use);
    now_ns = jvgpu_now_ns();
  } while (now_ns - begun_ns < MOST_GATED_NS && !is_released(pacer));
  // 0 would be the thread's default, which is what could not be asked for.
  syscall(SYS_prctl, PR_SET_TIMERSLACK, slack_ns > 0 ? (unsigned long)slack_ns : 0ul, 0, 0, 0);
  __atomic_fetch_sub(&use->blocked, 1, __ATOMIC_RELAXED);
  jvgpu_standing_end(&pacer->standing, &pacer_limits(pacer)->gate);
  use = pacer_use(pacer);
  __atomic_fetch_add(&use->gated_ns, jvgpu_now_ns() - begun_ns, __ATOMIC_RELAXED);
  __atomic_fetch_add(&use->throttled, 1, __ATOMIC_RELAXED);
  jvgpu_cancel_again(cancel_state);
  return is_full;
}

// Before waiting: set a fence behind what this stream has without one, so that its end is seen.
static void fence_the_rest(jvgpu_pacer_t *pacer, CUstream stream, const jvgpu_stream_calls_t *calls)
{
  const uint32_t place = jvgpu_flight_place(stream);
  jvgpu_lock(&pacer->lock);
  if (pacer->flight.unfenced_launches[place] != 0 && !pacer_is_quiet(pacer)) {
    jvgpu_fences_set(pacer, place, stream, calls);
  }
  jvgpu_unlock(&pacer->lock);
}

jvgpu_pacer_t *jvgpu_pacer_admit(jvgpu_process_t *self, int device, CUstream stream, const jvgpu_stream_calls_t *calls)
{
  jvgpu_pacer_t *pacer = pacer_of(self, device);
  if (pacer == NULL) {
    return NULL;
  }
  const int                     error = errno;
  const jvgpu_control_device_t *limits = pacer_limits(pacer);
  const uint64_t                bound_ns = __atomic_load_n(&limits->flight_bound_ns, __ATOMIC_RELAXED);
  jvgpu_lock(&pacer->lock);
  const bool is_bounded = !pacer_is_quiet(pacer) && jvgpu_fences_prepare(pacer);
  if (!is_bounded || bound_ns == 0) {
    jvgpu_held_forget(&pacer->held);
  }
  if (!is_bounded) {
    jvgpu_fences_publish(pacer);
  }
  bool has_room = !is_bounded || bound_ns == 0 || has_room_for_one(pacer, bound_ns);
  if (!has_room) {
    jvgpu_fences_look(pacer);
    has_room = has_room_for_one(pacer, bound_ns);
  }
  jvgpu_unlock(&pacer->lock);
  bool       is_full = false;
  const bool has_ceiling = __atomic_load_n(&limits->ceiling_ppm, __ATOMIC_RELAXED) < 1000000;
  if (!has_room || pacer_is_closed(limits) || (has_ceiling && !has_governor(pacer))) {
    if (is_bounded) {
      fence_the_rest(pacer, stream, calls);
    }
    is_full = wait_until_admitted(pacer, is_bounded);
  }
  jvgpu_meter_full(self, device, is_full ? __atomic_load_n(&limits->flight_bound_ns, __ATOMIC_RELAXED) : 0);
  errno = error;
  return is_bounded && bound_ns != 0 ? pacer : NULL;
}

void jvgpu_pacer_launched(jvgpu_pacer_t *pacer, CUstream stream, const jvgpu_stream_calls_t *calls, uint64_t charged_ns)
{
  const uint64_t bound_ns = __atomic_load_n(&pacer_limits(pacer)->flight_bound_ns, __ATOMIC_RELAXED);
  const uint32_t place = jvgpu_flight_place(stream);
  jvgpu_lock(&pacer->lock);
  // Not what another thread has been charged for and not launched yet: it would be taken for over.
  pacer->launched_ns += charged_ns;
  pacer->launched += 1;
  if (jvgpu_flight_launch(&pacer->flight, place, charged_ns != 0 ? charged_ns : UNKNOWN_NS, bound_ns) &&
      !pacer_is_quiet(pacer)) {
    jvgpu_fences_set(pacer, place, stream, calls);
    // Where each launch has a fence, not all are asked for after each.
    if (pacer->flight.most == 0 || pacer->launched % GUESSED_A_LOOK == 0) {
      jvgpu_fences_look(pacer);
    }
  }
  jvgpu_unlock(&pacer->lock);
}

// The lock is held.
static void land(jvgpu_pacer_t *pacer, CUstream stream, bool all)
{
  if (pacer->flight.launches == 0) {
    return;
  }
  if (all) {
    jvgpu_flight_clear(&pacer->flight);
  } else {
    jvgpu_flight_landed(&pacer->flight, jvgpu_flight_place(stream));
  }
  jvgpu_fences_publish(pacer);
}

void jvgpu_pacer_drained(jvgpu_process_t *self, CUstream stream, bool all)
{
  for (int device = 0; device < (int)JVGPU_MAX_DEVICES; device++) {
    jvgpu_pacer_t *pacer = __atomic_load_n(&self->pacers[device], __ATOMIC_ACQUIRE);
    if (pacer != NULL) {
      jvgpu_lock(&pacer->lock);
      land(pacer, stream, all);
      jvgpu_unlock(&pacer->lock);
    }
  }
}
