#include "device.h"

#include <stddef.h>
#include <stdlib.h>

// At rest: shorter than the 100 ms after which a share is back with its owner, and a sign of life is due.
#define REST_NS UINT64_C(80000000)
// Nothing waits for a look then, but time goes by for the governor too.
#define REST_LOOK_NS UINT64_C(800000000)
// Who need not be looked at for so long has nobody at work: with one it is 20 ms (governor.c).
#define CALM_NS UINT64_C(40000000)

// What is read of a claim while its device is at rest; by itself, since nothing else is in the cache then.
typedef struct jvgpu_watched_s {
  jvgpu_control_t *control;
  jvgpu_slot_t    *slots;
  uint64_t         index;
  uint64_t         signature;  // of what it did
} jvgpu_watched_t;

// --- looking ------------------------------------------------------------------------------------------------------

static void record_look(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns)
{
  if (!jvgpu_records_are_kept(records)) {
    return;
  }
  for (uint32_t i = 0; i < device->count; i++) {
    const uint32_t number = device->steered[i]->number;
    if (device->runners[i].used_ns != 0) {
      jvgpu_records_add(records, number, JVGPU_WAS_CHARGED, device->runners[i].used_ns, at_ns);
    }
    jvgpu_records_add(records, number, JVGPU_UNDER_WAY, device->runners[i].flight_ns, at_ns);
  }
}

static void record_window(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns)
{
  const int holder = device->governor.holder;
  if (holder != device->holder) {
    if (device->holder >= 0 && device->holder < (int)device->count) {
      jvgpu_records_add(records, device->steered[device->holder]->number, JVGPU_WINDOW_OVER, 0, at_ns);
    }
    if (holder >= 0) {
      jvgpu_records_add(records, device->steered[holder]->number, JVGPU_WINDOW_BEGUN, 0, at_ns);
    }
  }
  device->holder = holder;
}

static bool is_calm(const jvgpu_steered_device_t *device, uint64_t pause_ns)
{
  bool is_calm = pause_ns >= CALM_NS && device->governor.holder < 0 && device->governor.next < 0;
  for (uint32_t i = 0; i < device->count; i++) {
    is_calm = is_calm && device->runners[i].is_open;
  }
  return is_calm;
}

void jvgpu_steered_device_read(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns)
{
  for (uint32_t i = 0; i < device->count; i++) {
    jvgpu_steered_read(device->steered[i], &device->runners[i]);
    jvgpu_steered_judge(device->steered[i], &device->runners[i], at_ns);
  }
  record_look(device, records, at_ns);
}

static void look(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns)
{
  jvgpu_steered_device_read(device, records, at_ns);
  const uint64_t pause_ns = jvgpu_governor_look(&device->governor, device->runners, device->count, at_ns);
  for (uint32_t i = 0; i < device->count; i++) {
    jvgpu_steered_write_clear(device->steered[i], device->runners[i].clear_ns);
  }
  for (uint32_t i = 0; i < device->count; i++) {
    jvgpu_steered_write(device->steered[i], &device->runners[i], records, at_ns);
  }
  record_window(device, records, at_ns);
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
static uint64_t signature_of(const jvgpu_watched_t *watched)
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
static bool sign(jvgpu_steered_device_t *device)
{
  bool is_same = device->is_signed;
  for (uint32_t i = 0; i < device->count; i++) {
    jvgpu_watched_t *watched = &device->watched[i];
    if (!device->is_signed) {
      const jvgpu_steered_runner_t *steered = device->steered[i];
      *watched = (jvgpu_watched_t){steered->tenant->control, steered->tenant->usage->slots, steered->index, 0};
    }
    const uint64_t signature = signature_of(watched);
    is_same = is_same && watched->signature == signature;
    watched->signature = signature;
  }
  return is_same;
}

static void rest(jvgpu_steered_device_t *device, uint64_t at_ns)
{
  for (uint32_t i = 0; i < device->count; i++) {
    __atomic_store_n(&device->watched[i].control->governor_ns, at_ns, __ATOMIC_RELAXED);
  }
  // Nothing was used until now: what comes is measured from here on.
  device->governor.looked_ns = at_ns;
  device->due_ns = at_ns + REST_NS;
}

bool jvgpu_steered_device_look(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns)
{
  // Before the look: what changes while it is made is seen by the next.
  const bool was_calm = device->is_calm;
  if (was_calm && sign(device) && at_ns - device->looked_ns < REST_LOOK_NS) {
    rest(device, at_ns);
    return false;
  }
  look(device, records, at_ns);
  device->is_signed = was_calm;
  return was_calm && !device->is_calm;
}

// --- who is steered -----------------------------------------------------------------------------------------------

void jvgpu_steered_device_start(jvgpu_steered_device_t *device)
{
  jvgpu_governor_start(&device->governor);
  device->holder = -1;
}

void jvgpu_steered_device_restart(jvgpu_steered_device_t *device)
{
  jvgpu_steered_device_start(device);
  device->is_grouped = false;
  device->is_calm = false;
  device->is_signed = false;
  device->due_ns = 0;
}

void jvgpu_steered_device_end(jvgpu_steered_device_t *device, jvgpu_records_t *records, uint64_t at_ns)
{
  while (device->count > 0) {
    jvgpu_steered_device_remove(device, 0, records, at_ns);
  }
  free(device->runners);
  free(device->steered);
  free(device->watched);
}

static bool make_room(jvgpu_steered_device_t *device)
{
  if (device->runners == NULL) {
    device->runners = calloc(JVGPU_MOST_RUNNERS, sizeof *device->runners);
    device->steered = calloc(JVGPU_MOST_RUNNERS, sizeof *device->steered);
    device->watched = calloc(JVGPU_MOST_RUNNERS, sizeof *device->watched);
  }
  return device->runners != NULL && device->steered != NULL && device->watched != NULL &&
         device->count < JVGPU_MOST_RUNNERS;
}

// Somebody comes or goes, whose gate is open: nobody has the device for itself before the next look.
static void forget_clear(jvgpu_steered_device_t *device)
{
  for (uint32_t i = 0; i < device->count; i++) {
    device->runners[i].clear_ns = 0;
    jvgpu_steered_write_clear(device->steered[i], 0);
  }
}

bool jvgpu_steered_device_add(jvgpu_steered_device_t *device, struct jvgpu_tenant_s *tenant, uint32_t index,
                              uint32_t priority, uint32_t number)
{
  jvgpu_steered_runner_t *steered = make_room(device) ? calloc(1, sizeof *steered) : NULL;
  if (steered == NULL) {
    return false;
  }
  forget_clear(device);
  *steered = (jvgpu_steered_runner_t){
      .tenant = tenant, .index = index, .number = number, .priority = priority, .was_open = true};
  device->runners[device->count] =
      (jvgpu_runner_t){.priority = priority, .is_gang = tenant->device_count > 1, .is_open = true};
  device->steered[device->count] = steered;
  device->count += 1;
  device->is_signed = false;
  device->due_ns = 0;
  return true;
}

void jvgpu_steered_device_remove(jvgpu_steered_device_t *device, uint32_t place, jvgpu_records_t *records,
                                 uint64_t at_ns)
{
  forget_clear(device);
  jvgpu_steered_let_go(device->steered[place], records, at_ns);
  free(device->steered[place]);
  const uint32_t last = jvgpu_governor_remove(&device->governor, device->runners, device->count, place);
  device->steered[place] = device->steered[last];
  device->count = last;
  device->is_signed = false;
  device->holder = -1;
}
