// Steering: the governor's thread. It reads usage pages, asks the governor, writes gates.
//
// One thread for all devices; it sleeps until the governor wants to look again. Python adds and drops
// claims under the same lock. Usage pages are hostile input: a figure that cannot be is cut, and all that a
// tenant can gain by lying is found by the audit, or is a gate that its own processes stand at.

#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "gangs.h"
#include "governor.h"
#include "records.h"
#include "steered.h"

#pragma GCC visibility push(default)
#include "agent_api.h"
#pragma GCC visibility pop

#define MOST_DEVICES 64u
// With nobody on any device there is nothing to look at; adding somebody wakes the thread.
#define NOBODY_NS UINT64_C(200000000)

struct jvgpu_steering_s {
  pthread_mutex_t        lock;
  uint32_t               bell;  // a futex word: the thread looks again when it changes
  int                    begun_fd;  // an eventfd: somebody began where nobody did anything
  bool                   is_stopping;
  uint32_t               last_number;
  jvgpu_steered_device_t devices[MOST_DEVICES];
  jvgpu_gangs_t         *gangs;
  jvgpu_records_t       *records;
};

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

// --- the thread: the lock is held --------------------------------------------------------------------------------

static void ring(jvgpu_steering_t *steering)
{
  __atomic_fetch_add(&steering->bell, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &steering->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void tell_begun(const jvgpu_steering_t *steering)
{
  const uint64_t one = 1;
  // It is full only if nobody ever reads it.
  const ssize_t written = write(steering->begun_fd, &one, sizeof one);
  (void)written;
}

// returns: when the next look is due.
static uint64_t look_at_all(jvgpu_steering_t *steering, uint64_t at_ns)
{
  uint64_t due_ns = at_ns + NOBODY_NS;
  jvgpu_gangs_gather(steering->gangs, steering->devices, MOST_DEVICES, at_ns);
  const uint64_t gangs_ns = jvgpu_gangs_look(steering->gangs, steering->records, at_ns);
  due_ns = gangs_ns < due_ns ? gangs_ns : due_ns;
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    jvgpu_steered_device_t *device = &steering->devices[i];
    if (device->count == 0 || device->is_grouped) {
      continue;
    }
    if (device->due_ns <= at_ns + (device->is_calm ? JVGPU_JOIN_NS : 0)) {
      if (jvgpu_steered_device_look(device, steering->records, at_ns)) {
        tell_begun(steering);
      }
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
  steering->gangs = jvgpu_gangs_make();
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    jvgpu_steered_device_start(&steering->devices[i]);
  }
  pthread_mutex_init(&steering->lock, NULL);
  steering->begun_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (steering->records == NULL || steering->gangs == NULL || steering->begun_fd < 0) {
    if (steering->begun_fd >= 0) {
      close(steering->begun_fd);
    }
    jvgpu_records_free(steering->records);
    jvgpu_gangs_free(steering->gangs);
    free(steering);
    return NULL;
  }
  return steering;
}

int jvgpu_steering_begun_fd(const jvgpu_steering_t *steering)
{
  return steering->begun_fd;
}

void jvgpu_steering_drop(jvgpu_steering_t *steering, jvgpu_tenant_t *tenant)
{
  pthread_mutex_lock(&steering->lock);
  jvgpu_gangs_dissolve(steering->gangs);
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    jvgpu_steered_device_t *device = &steering->devices[i];
    for (uint32_t place = device->count; place-- > 0;) {
      if (device->steered[place]->tenant == tenant) {
        jvgpu_steered_device_remove(device, place, steering->records, now_ns());
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
  jvgpu_gangs_free(steering->gangs);
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    jvgpu_steered_device_end(&steering->devices[i], steering->records, now_ns());
  }
  pthread_mutex_destroy(&steering->lock);
  close(steering->begun_fd);
  jvgpu_records_free(steering->records);
  free(steering);
}

uint32_t jvgpu_steering_add(jvgpu_steering_t *steering, jvgpu_tenant_t *tenant, uint32_t index, uint32_t device_number,
                            uint32_t priority)
{
  uint32_t number = 0;
  if (device_number >= MOST_DEVICES || priority > JVGPU_PRIORITY_HIGH || index >= tenant->device_count) {
    return 0;
  }
  pthread_mutex_lock(&steering->lock);
  jvgpu_gangs_dissolve(steering->gangs);
  if (jvgpu_steered_device_add(&steering->devices[device_number], tenant, index, priority, steering->last_number + 1)) {
    number = ++steering->last_number;
    ring(steering);
  }
  pthread_mutex_unlock(&steering->lock);
  return number;
}

static void fill(const jvgpu_steered_device_t *device, uint32_t place, jvgpu_steered_t *out)
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

// returns: the device that a claim has at `index`, and in *place where on it; NULL when it is not steered.
static jvgpu_steered_device_t *find(jvgpu_steering_t *steering, const jvgpu_tenant_t *tenant, uint32_t index,
                                    uint32_t *place)
{
  for (uint32_t i = 0; i < MOST_DEVICES; i++) {
    jvgpu_steered_device_t *device = &steering->devices[i];
    for (*place = 0; *place < device->count; *place += 1) {
      if (device->steered[*place]->tenant == tenant && device->steered[*place]->index == index) {
        return device;
      }
    }
  }
  return NULL;
}

int jvgpu_steering_read(jvgpu_steering_t *steering, const jvgpu_tenant_t *tenant, uint32_t index, jvgpu_steered_t *out)
{
  uint32_t place;
  pthread_mutex_lock(&steering->lock);
  const jvgpu_steered_device_t *device = find(steering, tenant, index, &place);
  if (device != NULL) {
    fill(device, place, out);
  }
  pthread_mutex_unlock(&steering->lock);
  return device != NULL ? 0 : -1;
}

int jvgpu_steering_guarantee(jvgpu_steering_t *steering, const jvgpu_tenant_t *tenant, uint32_t index,
                             uint32_t least_ppm)
{
  uint32_t place;
  pthread_mutex_lock(&steering->lock);
  const jvgpu_steered_device_t *device = least_ppm <= 1000000 ? find(steering, tenant, index, &place) : NULL;
  if (device != NULL) {
    jvgpu_guarantee_set(&device->steered[place]->guarantee, least_ppm);
  }
  pthread_mutex_unlock(&steering->lock);
  return device != NULL ? 0 : -1;
}

int jvgpu_steering_guaranteed(jvgpu_steering_t *steering, const jvgpu_tenant_t *tenant, uint32_t index,
                              jvgpu_guaranteed_t *out)
{
  uint32_t place;
  pthread_mutex_lock(&steering->lock);
  const jvgpu_steered_device_t *device = find(steering, tenant, index, &place);
  if (device != NULL) {
    const jvgpu_guarantee_t *guarantee = &device->steered[place]->guarantee;
    *out = (jvgpu_guaranteed_t){.violations = guarantee->violations,
                                .in_a_row = guarantee->in_a_row,
                                .least_ppm = guarantee->least_ppm,
                                .is_raised = guarantee->is_raised};
  }
  pthread_mutex_unlock(&steering->lock);
  return device != NULL ? 0 : -1;
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
