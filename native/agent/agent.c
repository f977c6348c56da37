// The agent's side of a claim's two pages: make, seal, write limits, read use.
//
// Runs in the agent, driven through cffi. The usage page is hostile input: everything read from it
// goes through one copy and is clamped to what could be true.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jvgpu/pages.h"
#include "tenant.h"

#pragma GCC visibility push(default)
#include "agent_api.h"
#pragma GCC visibility pop

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 0x0001u
#define MFD_ALLOW_SEALING 0x0002u
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#endif
#ifndef F_SEAL_SEAL
#define F_SEAL_SEAL 0x0001
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW 0x0004
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // source: Linux 5.1, fcntl(2)
#endif

// No device has this much; a larger figure in a usage page is nonsense.
#define MOST_BYTES (UINT64_C(1) << 50)

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

// A memfd of `bytes`, mapped writable here and then sealed with `seals`; MAP_FAILED on failure.
static void *make_page(const char *name, size_t bytes, unsigned seals, int *fd)
{
  // glibc has memfd_create only since 2.27; the floor is 2.17.
  *fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (*fd < 0) {
    return MAP_FAILED;
  }
  if (ftruncate(*fd, (off_t)bytes) != 0) {
    return MAP_FAILED;
  }
  void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  if (page == MAP_FAILED) {
    return MAP_FAILED;
  }
  // Shrinking would let a tenant turn the agent's reads into SIGBUS.
  if (fcntl(*fd, F_ADD_SEALS, seals | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error = errno;
    munmap(page, bytes);
    errno = error;
    return MAP_FAILED;
  }
  return page;
}

uint32_t jvgpu_agent_layout(void)
{
  return JVGPU_LAYOUT;
}
uint32_t jvgpu_agent_request_bytes(void)
{
  return sizeof(jvgpu_attach_request_t);
}
uint32_t jvgpu_agent_reply_bytes(void)
{
  return sizeof(jvgpu_attach_reply_t);
}
uint32_t jvgpu_agent_max_devices(void)
{
  return JVGPU_MAX_DEVICES;
}
uint32_t jvgpu_agent_max_slots(void)
{
  return JVGPU_MAX_SLOTS;
}

jvgpu_tenant_t *jvgpu_tenant_create(uint32_t device_count)
{
  if (device_count == 0 || device_count > JVGPU_MAX_DEVICES) {
    errno = EINVAL;
    return NULL;
  }
  jvgpu_tenant_t *tenant = calloc(1, sizeof *tenant);
  if (tenant == NULL) {
    return NULL;
  }
  tenant->control_fd = -1;
  tenant->usage_fd = -1;
  tenant->device_count = device_count;
  tenant->control = MAP_FAILED;
  tenant->usage = MAP_FAILED;

  tenant->control = make_page("jvgpu-control", sizeof *tenant->control, F_SEAL_FUTURE_WRITE, &tenant->control_fd);
  if (tenant->control != MAP_FAILED) {
    tenant->usage = make_page("jvgpu-usage", sizeof *tenant->usage, 0, &tenant->usage_fd);
  }
  if (tenant->control == MAP_FAILED || tenant->usage == MAP_FAILED) {
    const int error = errno;
    jvgpu_tenant_destroy(tenant);
    errno = error;
    return NULL;
  }
  tenant->control->layout = JVGPU_LAYOUT;
  tenant->control->state = JVGPU_CLAIM_BOUND;
  tenant->control->device_count = device_count;
  tenant->control->agent_pid = (uint64_t)getpid();
  tenant->control->heartbeat_ns = now_ns();
  tenant->usage->layout = JVGPU_LAYOUT;
  tenant->usage->magic = JVGPU_MAGIC;
  tenant->control->magic = JVGPU_MAGIC;
  return tenant;
}

void jvgpu_tenant_destroy(jvgpu_tenant_t *tenant)
{
  if (tenant == NULL) {
    return;
  }
  if (tenant->control != MAP_FAILED) {
    munmap(tenant->control, sizeof *tenant->control);
  }
  if (tenant->usage != MAP_FAILED) {
    munmap(tenant->usage, sizeof *tenant->usage);
  }
  if (tenant->control_fd >= 0) {
    close(tenant->control_fd);
  }
  if (tenant->usage_fd >= 0) {
    close(tenant->usage_fd);
  }
  free(tenant);
}

int jvgpu_tenant_control_fd(const jvgpu_tenant_t *tenant)
{
  return tenant->control_fd;
}
int jvgpu_tenant_usage_fd(const jvgpu_tenant_t *tenant)
{
  return tenant->usage_fd;
}

static void bump_epoch(jvgpu_tenant_t *tenant)
{
  // Release: whoever reads the new epoch reads the change it stands for.
  __atomic_fetch_add(&tenant->control->epoch, 1, __ATOMIC_RELEASE);
}

int jvgpu_tenant_set_device(jvgpu_tenant_t *tenant, uint32_t index, const uint8_t *uuid, uint64_t memory_limit_bytes,
                            uint32_t share_ppm, uint32_t ceiling_ppm)
{
  if (index >= tenant->device_count) {
    return -1;
  }
  jvgpu_control_device_t *device = &tenant->control->devices[index];
  memcpy(device->uuid, uuid, JVGPU_UUID_BYTES);
  __atomic_store_n(&device->memory_limit_bytes, memory_limit_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&device->share_ppm, share_ppm, __ATOMIC_RELAXED);
  __atomic_store_n(&device->ceiling_ppm, ceiling_ppm, __ATOMIC_RELAXED);
  bump_epoch(tenant);
  return 0;
}

int jvgpu_tenant_set_overhead(jvgpu_tenant_t *tenant, uint32_t index, uint64_t overhead_bytes)
{
  if (index >= tenant->device_count) {
    return -1;
  }
  __atomic_store_n(&tenant->control->devices[index].memory_overhead_bytes, overhead_bytes, __ATOMIC_RELAXED);
  bump_epoch(tenant);
  return 0;
}

int jvgpu_tenant_set_contenders(jvgpu_tenant_t *tenant, uint32_t index, uint32_t contenders)
{
  if (index >= tenant->device_count) {
    return -1;
  }
  __atomic_store_n(&tenant->control->devices[index].contenders, contenders, __ATOMIC_RELAXED);
  return 0;
}

void jvgpu_tenant_release(jvgpu_tenant_t *tenant)
{
  __atomic_store_n(&tenant->control->state, JVGPU_CLAIM_RELEASED, __ATOMIC_RELAXED);
  bump_epoch(tenant);
}

void jvgpu_tenant_heartbeat(jvgpu_tenant_t *tenant)
{
  __atomic_store_n(&tenant->control->heartbeat_ns, now_ns(), __ATOMIC_RELAXED);
}

// How far the tenants' sums have to look.
static void publish_slot_count(jvgpu_tenant_t *tenant)
{
  uint32_t count = JVGPU_MAX_SLOTS;
  while (count > 0 && tenant->pids[count - 1] == 0) {
    count -= 1;
  }
  __atomic_store_n(&tenant->control->slot_count, count, __ATOMIC_SEQ_CST);
}

int jvgpu_tenant_slot_take(jvgpu_tenant_t *tenant, uint32_t pid, uint32_t *generation)
{
  for (uint32_t i = 0; i < JVGPU_MAX_SLOTS; i++) {
    if (tenant->pids[i] != 0) {
      continue;
    }
    jvgpu_slot_t *slot = &tenant->usage->slots[i];
    memset(slot, 0, sizeof *slot);
    tenant->pids[i] = pid;
    tenant->generations[i] += 1;
    slot->generation = tenant->generations[i];
    __atomic_store_n(&slot->pid, pid, __ATOMIC_RELEASE);
    *generation = tenant->generations[i];
    publish_slot_count(tenant);
    return (int)i;
  }
  return -1;
}

int jvgpu_tenant_slot_clear(jvgpu_tenant_t *tenant, uint32_t slot)
{
  if (slot >= JVGPU_MAX_SLOTS) {
    return -1;
  }
  memset(&tenant->usage->slots[slot], 0, sizeof tenant->usage->slots[slot]);
  tenant->pids[slot] = 0;
  publish_slot_count(tenant);
  return 0;
}

static uint64_t read_clamped(const uint64_t *figure, uint64_t most)
{
  const uint64_t value = __atomic_load_n(figure, __ATOMIC_RELAXED);
  return value <= most ? value : most;
}

int jvgpu_tenant_slot_read(const jvgpu_tenant_t *tenant, uint32_t slot, uint32_t index, jvgpu_reading_t *reading)
{
  if (slot >= JVGPU_MAX_SLOTS || index >= tenant->device_count) {
    return -1;
  }
  const jvgpu_use_t *use = &tenant->usage->slots[slot].devices[index];
  reading->held_bytes = read_clamped(&use->held_bytes, MOST_BYTES);
  reading->pending_bytes = read_clamped(&use->pending_bytes, MOST_BYTES);
  reading->launches = read_clamped(&use->launches, INT64_MAX);
  reading->waited_ns = read_clamped(&use->waited_ns, INT64_MAX);
  reading->busy_ns = read_clamped(&use->busy_ns, INT64_MAX);
  reading->refused = read_clamped(&use->refused, INT64_MAX);
  reading->gated_ns = read_clamped(&use->gated_ns, INT64_MAX);
  reading->throttled = read_clamped(&use->throttled, INT64_MAX);
  reading->sm_ns = read_clamped(&use->sm_ns, INT64_MAX);
  reading->allocations = read_clamped(&use->allocations, INT64_MAX);
  reading->ahead_ns = read_clamped(&use->ahead_ns, INT64_MAX);
  return 0;
}

uint64_t jvgpu_tenant_signature(const jvgpu_tenant_t *tenant)
{
  uint64_t signature = UINT64_C(0xcbf29ce484222325);
  for (uint32_t slot = 0; slot < JVGPU_MAX_SLOTS && slot < tenant->control->slot_count; slot++) {
    signature = (signature ^ tenant->generations[slot]) * UINT64_C(0x100000001b3);
    for (uint32_t index = 0; tenant->pids[slot] != 0 && index < tenant->device_count; index++) {
      const uint64_t *figures = (const uint64_t *)&tenant->usage->slots[slot].devices[index];
      for (uint32_t i = 0; i < sizeof(jvgpu_use_t) / sizeof *figures; i++) {
        signature = (signature ^ __atomic_load_n(&figures[i], __ATOMIC_RELAXED)) * UINT64_C(0x100000001b3);
      }
    }
  }
  return signature;
}

uint32_t jvgpu_tenants_beat(jvgpu_tenant_t *const *tenants, uint32_t count, uint64_t *signatures)
{
  uint32_t changed = 0;
  for (uint32_t i = 0; i < count; i++) {
    jvgpu_tenant_heartbeat(tenants[i]);
    const uint64_t signature = jvgpu_tenant_signature(tenants[i]);
    changed += signature != signatures[i];
    signatures[i] = signature;
  }
  return changed;
}

void jvgpu_agent_fill_reply(void *reply, uint32_t status, uint32_t slot, uint32_t generation, const char *message)
{
  jvgpu_attach_reply_t out;
  memset(&out, 0, sizeof out);
  out.magic = JVGPU_MAGIC;
  out.layout = JVGPU_LAYOUT;
  out.status = status;
  out.slot = slot;
  out.generation = generation;
  if (message != NULL) {
    const size_t length = strnlen(message, sizeof out.message - 1);
    memcpy(out.message, message, length);
  }
  memcpy(reply, &out, sizeof out);
}

uint32_t jvgpu_agent_parse_request(const void *request, uint32_t bytes, char *secret_hex)
{
  jvgpu_attach_request_t in;
  secret_hex[0] = '\0';
  if (bytes != sizeof in) {
    return JVGPU_ATTACH_REFUSED;
  }
  memcpy(&in, request, sizeof in);
  if (in.magic != JVGPU_MAGIC) {
    return JVGPU_ATTACH_REFUSED;
  }
  if (in.layout != JVGPU_LAYOUT) {
    return JVGPU_ATTACH_VERSION;
  }
  for (size_t i = 0; i < sizeof in.secret_hex; i++) {
    const char c = in.secret_hex[i];
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
      return JVGPU_ATTACH_REFUSED;
    }
  }
  memcpy(secret_hex, in.secret_hex, sizeof in.secret_hex);
  secret_hex[sizeof in.secret_hex] = '\0';
  return JVGPU_ATTACH_OK;
}
