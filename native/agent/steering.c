// Steering: the governor's thread. It reads usage pages, asks the governor, writes gates.
//
// One thread for all devices; it sleeps until the governor wants to look again. Python adds and drops
// claims under the same lock. Usage pages are hostile input: a figure that cannot be is cut, and all that a
// tenant can gain by lying is found by the audit, or is a gate that its own processes stand at.

#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "governor.h"
#include "records.h"
#include "tenant.h"

#pragma GCC visibility push(default)
#include "agent_api.h"
#pragma GCC visibility pop

#define MOST_DEVICES 64u
// With nobody on any device there is nothing to look at; adding somebody wakes the thread.
#define NOBODY_NS UINT64_C(200000000)
// How old the sign of life in the control pages may get.
#define ALIVE_NS UINT64_C(20000000)
// No process uses more between two looks. A first duration that became known late may be long.
#define MOST_USED_NS UINT64_C(10000000000)
#define MOST_BLOCKED 4096u

// One claim on one device.
typedef struct steered_s {
  jvgpu_tenant_t *tenant;  // NULL = free
  uint32_t        index;   // of the device in the claim
  uint32_t        number;
  uint32_t        runner;  // place in the device's list
  bool            was_open;
  bool            was_governed;
  uint64_t        alive_ns;
  uint64_t        closed_since_ns;  // 0 = its gate is open
  uint64_t        closed_ns;
  uint64_t        seen_busy_ns[JVGPU_MAX_SLOTS];
  uint64_t        base_done_ns[JVGPU_MAX_SLOTS];  // as it stood when nobody kept it
  uint32_t        generations[JVGPU_MAX_SLOTS];
} steered_t;

typedef struct device_s {
  jvgpu_governor_t governor;
  jvgpu_runner_t  *runners;
  steered_t      **steered;  // same order
  uint32_t         count;
  uint64_t         due_ns;
  int              holder;  // as last recorded
} device_t;

struct jvgpu_steering_s {
  pthread_mutex_t  lock;
  pthread_cond_t   changed;
  pthread_t        thread;
  bool             is_stopping;
  uint32_t         last_number;
  device_t         devices[MOST_DEVICES];
  jvgpu_records_t *records;
};

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

// --- reading pages -------------------------------------------------------------------------------------------

static uint64_t load(const uint64_t *figure)
{
  return __atomic_load_n(figure, __ATOMIC_RELAXED);
}

// What one process was charged since the last look.
static uint64_t used_by(steered_t *steered, uint32_t slot, uint64_t busy_ns)
{
  const uint32_t generation = __atomic_load_n(&steered->tenant->generations[slot], __ATOMIC_RELAXED);
  if (generation != steered->generations[slot]) {
    steered->generations[slot] = generation;
    steered->seen_busy_ns[slot] = 0;
    steered->base_done_ns[slot] = 0;
  }
  const uint64_t seen_ns = steered->seen_busy_ns[slot];
  steered->seen_busy_ns[slot] = busy_ns;
  const uint64_t used_ns = busy_ns > seen_ns ? busy_ns - seen_ns : 0;
  return used_ns < MOST_USED_NS ? used_ns : MOST_USED_NS;
}

// What is done is kept by the tenant only while it is governed; what stood there before says nothing.
static uint64_t flight_of(steered_t *steered, uint32_t slot, uint64_t busy_ns, uint64_t done_ns)
{
  if (!steered->was_governed) {
    steered->base_done_ns[slot] = done_ns;
    return 0;
  }
  if (done_ns == steered->base_done_ns[slot] || done_ns >= busy_ns) {
    return 0;
  }
  return busy_ns - done_ns < MOST_USED_NS ? busy_ns - done_ns : MOST_USED_NS;
}

static void read_pages(steered_t *steered, jvgpu_runner_t *runner)
{
  const jvgpu_control_t        *control = steered->tenant->control;
  const jvgpu_control_device_t *limits = &control->devices[steered->index];
  uint32_t                      slots = __atomic_load_n(&control->slot_count, __ATOMIC_RELAXED);
  slots = slots < JVGPU_MAX_SLOTS ? slots : JVGPU_MAX_SLOTS;
  runner->weight_ppm = __atomic_load_n(&limits->share_ppm, __ATOMIC_RELAXED);
  runner->weight_ppm = runner->weight_ppm != 0 ? runner->weight_ppm : 1;
  runner->ceiling_ppm = __atomic_load_n(&limits->ceiling_ppm, __ATOMIC_RELAXED);
  runner->blocked = 0;
  runner->flight_ns = 0;
  for (uint32_t slot = 0; slot < slots; slot++) {
    if (__atomic_load_n(&steered->tenant->pids[slot], __ATOMIC_RELAXED) == 0) {
      continue;
    }
    const jvgpu_use_t *use = &steered->tenant->usage->slots[slot].devices[steered->index];
    const uint64_t     done_ns = load(&use->done_ns);
    const uint64_t     busy_ns = load(&use->busy_ns);
    const uint32_t     blocked = __atomic_load_n(&use->blocked, __ATOMIC_RELAXED);
    runner->used_ns += used_by(steered, slot, busy_ns);
    runner->flight_ns += flight_of(steered, slot, busy_ns, done_ns);
    runner->blocked += steered->was_governed && blocked <= MOST_BLOCKED ? blocked : 0;
  }
}

// --- writing pages ------------------------------------------------------------------------------------------

static void set_gate(jvgpu_steering_t *steering, steered_t *steered, bool is_open, uint64_t at_ns)
{
  jvgpu_control_device_t *limits = &steered->tenant->control->devices[steered->index];
  if (is_open == steered->was_open) {
    return;
  }
  steered->was_open = is_open;
  // Release: who sees the gate open sees the bound that goes with it.
  __atomic_store_n(&limits->gate, is_open ? JVGPU_GATE_OPEN : JVGPU_GATE_CLOSED, __ATOMIC_RELEASE);
  if (is_open) {
    syscall(SYS_futex, &limits->gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    steered->closed_ns += at_ns - steered->closed_since_ns;
    steered->closed_since_ns = 0;
  } else {
    steered->closed_since_ns = at_ns;
  }
  jvgpu_records_add(steering->records, steered->number, is_open ? JVGPU_GATE_OPENED : JVGPU_GATE_SHUT, 0, at_ns);
}

static void write_pages(jvgpu_steering_t *steering, steered_t *steered, const jvgpu_runner_t *runner, uint64_t at_ns)
{
  jvgpu_control_t        *control = steered->tenant->control;
  jvgpu_control_device_t *limits = &control->devices[steered->index];
  if (at_ns - steered->alive_ns > ALIVE_NS) {
    steered->alive_ns = at_ns;
    __atomic_store_n(&control->governor_ns, at_ns, __ATOMIC_RELAXED);
  }
  if (load(&limits->flight_bound_ns) != runner->bound_ns) {
    __atomic_store_n(&limits->flight_bound_ns, runner->bound_ns, __ATOMIC_RELAXED);
  }
  set_gate(steering, steered, runner->is_open, at_ns);
  if (steered->was_governed != runner->is_governed) {
    steered->was_governed = runner->is_governed;
    __atomic_store_n(&limits->is_governed, runner->is_governed ? 1 : 0, __ATOMIC_RELEASE);
  }
}

static void let_go(jvgpu_steering_t *steering, steered_t *steered, uint64_t at_ns)
{
  const jvgpu_runner_t free_runner = {.is_open = true};
  write_pages(steering, steered, &free_runner, at_ns);
}

// --- the thread: the lock is held --------------------------------------------------------------------------------

static void record_look(jvgpu_steering_t *steering, device_t *device, uint64_t at_ns)
{
  if (!jvgpu_records_are_kept(steering->records)) {
    return;
  }
  for (uint32_t i = 0; i < device->count; i++) {
    const uint32_t number = device->steered[i]->number;
    if (device->runners[i].used_ns != 0) {
      jvgpu_records_add(steering->records, number, JVGPU_WAS_CHARGED, device->runners[i].used_ns, at_ns);
    }
    jvgpu_records_add(steering->records, number, JVGPU_UNDER_WAY, device->runners[i].flight_ns, at_ns);
  }
}

static void record_window(jvgpu_steering_t *steering, device_t *device, uint64_t at_ns)
{
  const int holder = device->governor.holder;
  if (holder != device->holder) {
    if (device->holder >= 0 && device->holder < (int)device->count) {
      jvgpu_records_add(steering->records, device->steered[device->holder]->number, JVGPU_WINDOW_OVER, 0, at_ns);
    }
    if (holder >= 0) {
      jvgpu_records_add(steering->records, device->steered[holder]->number, JVGPU_WINDOW_BEGUN, 0, at_ns);
    }
  }
  device->holder = holder;
}

static void look(jvgpu_steering_t *steering, device_t *device, uint64_t at_ns)
{
  for (uint32_t i = 0; i < device->count; i++) {
    read_pages(device->steered[i], &device->runners[i]);
  }
  record_look(steering, device, at_ns);
  device->due_ns = at_ns + jvgpu_governor_look(&device->governor, device->runners, device->count, at_ns);
  for (uint32_t i = 0; i < device->count; i++) {
    write_pages(steering, device->steered[i], &device->runners[i], at_ns);
  }
  record_window(steering, device, at_ns);
}

static void sleep_until(jvgpu_steering_t *steering, uint64_t due_ns)
{
  const struct timespec until = {.tv_sec = (time_t)(due_ns / 1000000000u), .tv_nsec = (long)(due_ns % 1000000000u)};
  pthread_cond_timedwait(&steering->changed, &steering->lock, &until);
}

static void *run(void *argument)
{
  jvgpu_steering_t *steering = argument;
  // Half a millisecond between looks has to be that: the usual slack is a tenth of it.
  prctl(PR_SET_TIMERSLACK, 5000UL);
  pthread_mutex_lock(&steering->lock);
  while (!steering->is_stopping) {
    const uint64_t at_ns = now_ns();
    uint64_t       due_ns = at_ns + NOBODY_NS;
    for (uint32_t i = 0; i < MOST_DEVICES; i++) {
      device_t *device = &steering->devices[i];
      if (device->count == 0) {
        continue;
      }
      if (device->due_ns <= at_ns) {
        look(steering, device, at_ns);
      }
      due_ns = device->due_ns < due_ns ? device->due_ns : due_ns;
    }
    sleep_until(steering, due_ns);
  }
  pthread_mutex_unlock(&steering->lock);
  return NULL;
}

// --- what Python asks for ----------------------------------------------------------------------------------------

static bool start_thread(jvgpu_steering_t *steering)
{
  pthread_condattr_t attributes;
  pthread_mutex_init(&steering->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&steering->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  const int error = pthread_create(&steering->thread, NULL, run, steering);
  errno = error;
  return error == 0;
}

jvgpu_steering_t *jvgpu_steering_start(void)
{
  jvgpu_steering_t *steering = calloc(1, sizeof *steering);
  if (steering == NULL) {
    return NULL;
  }
  steering->records = jvgpu_records_make();
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    jvgpu_governor_start(&steering->devices[i].governor);
    steering->devices[i].holder = -1;
  }
  if (steering->records == NULL || !start_thread(steering)) {
    jvgpu_records_free(steering->records);
    free(steering);
    return NULL;
  }
  return steering;
}

static void remove_runner(device_t *device, uint32_t place)
{
  free(device->steered[place]);
  const uint32_t last = jvgpu_governor_remove(&device->governor, device->runners, device->count, place);
  device->steered[place] = device->steered[last];
  device->count = last;
  device->holder = -1;
}

void jvgpu_steering_drop(jvgpu_steering_t *steering, jvgpu_tenant_t *tenant)
{
  pthread_mutex_lock(&steering->lock);
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    device_t *device = &steering->devices[i];
    for (uint32_t place = device->count; place-- > 0;) {
      if (device->steered[place]->tenant == tenant) {
        let_go(steering, device->steered[place], now_ns());
        remove_runner(device, place);
      }
    }
  }
  pthread_mutex_unlock(&steering->lock);
}

void jvgpu_steering_stop(jvgpu_steering_t *steering)
{
  if (steering == NULL) {
    return;
  }
  pthread_mutex_lock(&steering->lock);
  steering->is_stopping = true;
  pthread_cond_signal(&steering->changed);
  pthread_mutex_unlock(&steering->lock);
  pthread_join(steering->thread, NULL);
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    device_t *device = &steering->devices[i];
    while (device->count > 0) {
      let_go(steering, device->steered[0], now_ns());
      remove_runner(device, 0);
    }
    free(device->runners);
    free(device->steered);
  }
  pthread_cond_destroy(&steering->changed);
  pthread_mutex_destroy(&steering->lock);
  jvgpu_records_free(steering->records);
  free(steering);
}

static bool make_room(device_t *device)
{
  if (device->runners == NULL) {
    device->runners = calloc(JVGPU_MOST_RUNNERS, sizeof *device->runners);
    device->steered = calloc(JVGPU_MOST_RUNNERS, sizeof *device->steered);
  }
  return device->runners != NULL && device->steered != NULL && device->count < JVGPU_MOST_RUNNERS;
}

uint32_t jvgpu_steering_add(jvgpu_steering_t *steering, jvgpu_tenant_t *tenant, uint32_t index, uint32_t device_number)
{
  steered_t *steered = calloc(1, sizeof *steered);
  uint32_t   number = 0;
  if (steered == NULL || device_number >= MOST_DEVICES || index >= tenant->device_count) {
    free(steered);
    return 0;
  }
  pthread_mutex_lock(&steering->lock);
  device_t *device = &steering->devices[device_number];
  if (make_room(device)) {
    number = ++steering->last_number;
    *steered = (steered_t){.tenant = tenant, .index = index, .number = number, .was_open = true};
    memset(&device->runners[device->count], 0, sizeof *device->runners);
    device->steered[device->count] = steered;
    device->count += 1;
    device->due_ns = 0;
    pthread_cond_signal(&steering->changed);
  } else {
    free(steered);
  }
  pthread_mutex_unlock(&steering->lock);
  return number;
}

static void fill(const device_t *device, uint32_t place, jvgpu_steered_t *out)
{
  const jvgpu_runner_t *runner = &device->runners[place];
  const steered_t      *steered = device->steered[place];
  const uint64_t        closed_ns = steered->closed_since_ns != 0 ? now_ns() - steered->closed_since_ns : 0;
  *out = (jvgpu_steered_t){.windows = runner->windows,
                           .overruns = runner->overruns,
                           .closed_ns = steered->closed_ns + closed_ns,
                           .entitled_ppm = (uint32_t)(runner->entitled * 1e6),
                           .use_ppm = runner->use < 1.0 ? (uint32_t)(runner->use * 1e6) : 1000000u,
                           .is_open = runner->is_open,
                           .is_governed = runner->is_governed};
}

int jvgpu_steering_read(jvgpu_steering_t *steering, const jvgpu_tenant_t *tenant, uint32_t index, jvgpu_steered_t *out)
{
  int result = -1;
  pthread_mutex_lock(&steering->lock);
  for (uint32_t i = 0; i < MOST_DEVICES && result != 0; i++) {
    const device_t *device = &steering->devices[i];
    for (uint32_t place = 0; place < device->count; place++) {
      if (device->steered[place]->tenant == tenant && device->steered[place]->index == index) {
        fill(device, place, out);
        result = 0;
      }
    }
  }
  pthread_mutex_unlock(&steering->lock);
  return result;
}

void jvgpu_steering_record(jvgpu_steering_t *steering, uint32_t keep)
{
  pthread_mutex_lock(&steering->lock);
  jvgpu_records_keep(steering->records, keep != 0);
  pthread_mutex_unlock(&steering->lock);
}

uint32_t jvgpu_steering_take(jvgpu_steering_t *steering, jvgpu_trace_t *records, uint32_t room, uint64_t *lost)
{
  pthread_mutex_lock(&steering->lock);
  const uint32_t count = jvgpu_records_take(steering->records, records, room, lost);
  pthread_mutex_unlock(&steering->lock);
  return count;
}
