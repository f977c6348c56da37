// Steering: the governor's thread. It reads usage pages, asks the governor, writes gates.
//
// One thread for all devices; it sleeps until the governor wants to look again. Python adds and drops
// claims under the same lock. Usage pages are hostile input: a figure that cannot be is cut, and all that a
// tenant can gain by lying is found by the audit, or is a gate that its own processes stand at.
//
// A device is *at rest* when nobody wants anything of it, and nobody is held back. Then the thread only asks, every
// 80 ms, whether anybody launched, and looks when it has: a share is not in others' hands
// then, so there is nothing to give back sooner. While anybody works there, the governor says when to come again.

#define _GNU_SOURCE
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
#include "steered.h"

#pragma GCC visibility push(default)
#include "agent_api.h"
#pragma GCC visibility pop

#define MOST_DEVICES 64u
// With nobody on any device there is nothing to look at; adding somebody wakes the thread.
#define NOBODY_NS UINT64_C(200000000)
// At rest: shorter than the 100 ms after which a share is back with its owner, and a sign of life is due.
#define REST_NS UINT64_C(80000000)
// Other devices that rest are asked in the same waking, if their turn is so near.
#define JOIN_NS UINT64_C(40000000)
// Nothing waits for a look then, but time goes by for the governor too.
#define REST_LOOK_NS UINT64_C(800000000)
// Who need not be looked at for so long has nobody at work: with one it is 20 ms (governor.c).
#define CALM_NS UINT64_C(40000000)

// What is read of a claim while its device is at rest; by itself, since nothing else is in the cache then.
typedef struct watched_s {
  jvgpu_control_t *control;
  jvgpu_slot_t    *slots;
  uint64_t         index;
  uint64_t         signature;  // of what it did
} watched_t;

typedef struct device_s {
  jvgpu_governor_t         governor;
  jvgpu_runner_t          *runners;
  jvgpu_steered_runner_t **steered;  // same order
  watched_t               *watched;  // same order, where `is_signed`
  uint32_t                 count;
  uint64_t                 due_ns;
  uint64_t                 looked_ns;
  bool                     is_calm;    // nobody wanted anything at the last look, or was held back
  bool                     is_signed;  // the signatures are from before that look
  int                      holder;  // as last recorded
} device_t;

struct jvgpu_steering_s {
  pthread_mutex_t  lock;
  uint32_t         bell;  // a futex word: the thread looks again when it changes
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

static bool is_calm(const device_t *device, uint64_t pause_ns)
{
  bool is_calm = pause_ns >= CALM_NS && device->governor.holder < 0 && device->governor.next < 0;
  for (uint32_t i = 0; i < device->count; i++) {
    is_calm = is_calm && device->runners[i].is_open;
  }
  return is_calm;
}

static void look(jvgpu_steering_t *steering, device_t *device, uint64_t at_ns)
{
  for (uint32_t i = 0; i < device->count; i++) {
    jvgpu_steered_read(device->steered[i], &device->runners[i]);
  }
  record_look(steering, device, at_ns);
  const uint64_t pause_ns = jvgpu_governor_look(&device->governor, device->runners, device->count, at_ns);
  for (uint32_t i = 0; i < device->count; i++) {
    jvgpu_steered_write(device->steered[i], &device->runners[i], steering->records, at_ns);
  }
  record_window(steering, device, at_ns);
  device->looked_ns = at_ns;
  device->is_calm = is_calm(device, pause_ns);
  for (uint32_t i = 0; device->is_calm && i < device->count; i++) {
    // Who wants nothing now has not wanted something all this second, whenever it is looked at next.
    device->runners[i].second_pressed = false;
  }
  device->due_ns = at_ns + (device->is_calm ? REST_NS : pause_ns);
}

static uint64_t mixed(uint64_t signature, uint64_t figure)
{
  return (signature ^ figure) * UINT64_C(0x100000001b3);  // FNV-1a's prime
}

// Changes when a process launches or is charged, when one more attaches, and when limits do. Of each page one line
// of the cache is read: fifty tenants' are out of it again at the next look.
static uint64_t signature_of(const watched_t *watched)
{
  const uint32_t count = __atomic_load_n(&watched->control->slot_count, __ATOMIC_RELAXED);
  uint64_t       signature = mixed(count, __atomic_load_n(&watched->control->epoch, __ATOMIC_RELAXED));
  for (uint32_t slot = 0; slot < count && slot < JVGPU_MAX_SLOTS; slot++) {
    const jvgpu_use_t *use = &watched->slots[slot].devices[watched->index];
    signature = mixed(signature, __atomic_load_n(&use->launches, __ATOMIC_RELAXED));
    signature = mixed(signature, __atomic_load_n(&use->busy_ns, __ATOMIC_RELAXED));
  }
  return signature;
}

// Sign what all claims did anew. returns: whether nobody did anything.
static bool sign(device_t *device)
{
  bool is_same = device->is_signed;
  for (uint32_t i = 0; i < device->count; i++) {
    watched_t *watched = &device->watched[i];
    if (!device->is_signed) {
      const jvgpu_steered_runner_t *steered = device->steered[i];
      *watched = (watched_t){steered->tenant->control, steered->tenant->usage->slots, steered->index, 0};
    }
    const uint64_t signature = signature_of(watched);
    is_same = is_same && watched->signature == signature;
    watched->signature = signature;
  }
  return is_same;
}

static void rest(device_t *device, uint64_t at_ns)
{
  for (uint32_t i = 0; i < device->count; i++) {
    __atomic_store_n(&device->watched[i].control->governor_ns, at_ns, __ATOMIC_RELAXED);
  }
  // Nothing was used until now: what comes is measured from here on.
  device->governor.looked_ns = at_ns;
  device->due_ns = at_ns + REST_NS;
}

static void look_or_rest(jvgpu_steering_t *steering, device_t *device, uint64_t at_ns)
{
  // Before the look: what changes while it is made is seen by the next.
  const bool was_calm = device->is_calm;
  if (was_calm && sign(device) && at_ns - device->looked_ns < REST_LOOK_NS) {
    rest(device, at_ns);
    return;
  }
  look(steering, device, at_ns);
  device->is_signed = was_calm;
}

static void ring(jvgpu_steering_t *steering)
{
  __atomic_fetch_add(&steering->bell, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &steering->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// returns: when the next look is due.
static uint64_t look_at_all(jvgpu_steering_t *steering, uint64_t at_ns)
{
  uint64_t due_ns = at_ns + NOBODY_NS;
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    device_t *device = &steering->devices[i];
    if (device->count == 0) {
      continue;
    }
    if (device->due_ns <= at_ns + (device->is_calm ? JOIN_NS : 0)) {
      look_or_rest(steering, device, at_ns);
    }
    due_ns = device->due_ns < due_ns ? device->due_ns : due_ns;
  }
  return due_ns;
}

void jvgpu_steering_run(jvgpu_steering_t *steering)
{
  // Half a millisecond between looks has to be that: the usual slack is a tenth of it.
  prctl(PR_SET_TIMERSLACK, 5000UL);
  for (bool is_stopping = false; !is_stopping;) {
    const uint32_t bell = __atomic_load_n(&steering->bell, __ATOMIC_ACQUIRE);
    pthread_mutex_lock(&steering->lock);
    const uint64_t due_ns = look_at_all(steering, now_ns());
    is_stopping = steering->is_stopping;
    pthread_mutex_unlock(&steering->lock);
    const uint64_t at_ns = now_ns();
    if (!is_stopping && due_ns > at_ns) {
      const struct timespec pause = {.tv_sec = (time_t)((due_ns - at_ns) / 1000000000u),
                                     .tv_nsec = (long)((due_ns - at_ns) % 1000000000u)};
      syscall(SYS_futex, &steering->bell, FUTEX_WAIT_PRIVATE, bell, &pause, NULL, 0);
    }
  }
}

// --- what Python asks for ----------------------------------------------------------------------------------------

jvgpu_steering_t *jvgpu_steering_make(void)
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
  pthread_mutex_init(&steering->lock, NULL);
  if (steering->records == NULL) {
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
  device->is_signed = false;
  device->holder = -1;
}

void jvgpu_steering_drop(jvgpu_steering_t *steering, jvgpu_tenant_t *tenant)
{
  pthread_mutex_lock(&steering->lock);
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    device_t *device = &steering->devices[i];
    for (uint32_t place = device->count; place-- > 0;) {
      if (device->steered[place]->tenant == tenant) {
        jvgpu_steered_let_go(device->steered[place], steering->records, now_ns());
        remove_runner(device, place);
      }
    }
  }
  pthread_mutex_unlock(&steering->lock);
}

void jvgpu_steering_stop(jvgpu_steering_t *steering)
{
  pthread_mutex_lock(&steering->lock);
  steering->is_stopping = true;
  pthread_mutex_unlock(&steering->lock);
  ring(steering);
}

void jvgpu_steering_free(jvgpu_steering_t *steering)
{
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    device_t *device = &steering->devices[i];
    while (device->count > 0) {
      jvgpu_steered_let_go(device->steered[0], steering->records, now_ns());
      remove_runner(device, 0);
    }
    free(device->runners);
    free(device->steered);
    free(device->watched);
  }
  pthread_mutex_destroy(&steering->lock);
  jvgpu_records_free(steering->records);
  free(steering);
}

static bool make_room(device_t *device)
{
  if (device->runners == NULL) {
    device->runners = calloc(JVGPU_MOST_RUNNERS, sizeof *device->runners);
    device->steered = calloc(JVGPU_MOST_RUNNERS, sizeof *device->steered);
    device->watched = calloc(JVGPU_MOST_RUNNERS, sizeof *device->watched);
  }
  return device->runners != NULL && device->steered != NULL && device->watched != NULL &&
         device->count < JVGPU_MOST_RUNNERS;
}

uint32_t jvgpu_steering_add(jvgpu_steering_t *steering, jvgpu_tenant_t *tenant, uint32_t index, uint32_t device_number,
                            uint32_t priority)
{
  jvgpu_steered_runner_t *steered = calloc(1, sizeof *steered);
  uint32_t                number = 0;
  if (steered == NULL || device_number >= MOST_DEVICES || priority > JVGPU_PRIORITY_HIGH ||
      index >= tenant->device_count) {
    free(steered);
    return 0;
  }
  pthread_mutex_lock(&steering->lock);
  device_t *device = &steering->devices[device_number];
  if (make_room(device)) {
    number = ++steering->last_number;
    *steered = (jvgpu_steered_runner_t){.tenant = tenant, .index = index, .number = number, .was_open = true};
    device->runners[device->count] =
        (jvgpu_runner_t){.priority = priority, .is_gang = tenant->device_count > 1, .is_open = true};
    device->steered[device->count] = steered;
    device->count += 1;
    device->is_signed = false;
    device->due_ns = 0;
    ring(steering);
  } else {
    free(steered);
  }
  pthread_mutex_unlock(&steering->lock);
  return number;
}

static void fill(const device_t *device, uint32_t place, jvgpu_steered_t *out)
{
  const jvgpu_runner_t         *runner = &device->runners[place];
  const jvgpu_steered_runner_t *steered = device->steered[place];
  const uint64_t                closed_ns = steered->closed_since_ns != 0 ? now_ns() - steered->closed_since_ns : 0;
  *out = (jvgpu_steered_t){.windows = runner->windows,
                           .overruns = runner->overruns,
                           .violations = runner->violations,
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
