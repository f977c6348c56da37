// The agent's pages: sealed against the tenant, read as untrusted input.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent_api.h"
#include "check.h"
#include "jvgpu/pages.h"

static void the_control_page_is_read_only_for_good(jvgpu_tenant_t *tenant)
{
  const int fd = jvgpu_tenant_control_fd(tenant);
  char      path[64];
  uint32_t  zero = 0;

  CHECK("it cannot be mapped writable", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
  void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  CHECK("it can be mapped to read", page != MAP_FAILED);
  CHECK("a mapping to read cannot be made writable", mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0);
  CHECK("it cannot be written to", write(fd, &zero, sizeof zero) < 0 && errno == EPERM);
  CHECK("it cannot be cut off", ftruncate(fd, 0) != 0);
  CHECK("holes cannot be punched in it", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);

  // catches a bug where a read-only descriptor was reopened through /proc/self/fd
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int again = open(path, O_RDWR);
  CHECK("reopened, it still cannot be mapped writable",
        again < 0 || mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
  CHECK("reopened, it still cannot be written to", again < 0 || write(again, &zero, sizeof zero) < 0);
  CHECK("the seals cannot be taken off", fcntl(fd, 1033 /* F_ADD_SEALS */, 0) != 0);
  if (again >= 0) {
    close(again);
  }
  CHECK("the agent still writes it", jvgpu_tenant_set_overhead(tenant, 0, 7) == 0 &&
                                         ((const jvgpu_control_t *)page)->devices[0].memory_overhead_bytes == 7);
  munmap(page, 4096);
}

static void the_usage_page_cannot_hurt_the_agent(jvgpu_tenant_t *tenant)
{
  const int       fd = jvgpu_tenant_usage_fd(tenant);
  uint32_t        generation;
  jvgpu_reading_t reading;
  jvgpu_usage_t  *usage = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

  CHECK("it cannot be cut off under the agent", ftruncate(fd, 0) != 0);
  CHECK("the first process gets the first slot", jvgpu_tenant_slot_take(tenant, 77, &generation) == 0);
  memset(usage, 0xff, sizeof *usage);
  CHECK("random bytes are read as figures that could be", jvgpu_tenant_slot_read(tenant, 0, 0, &reading) == 0 &&
                                                              reading.held_bytes <= (UINT64_C(1) << 50) &&
                                                              reading.launches <= INT64_MAX);
  CHECK("a bad slot is refused", jvgpu_tenant_slot_read(tenant, JVGPU_MAX_SLOTS, 0, &reading) != 0);
  CHECK("a bad device is refused", jvgpu_tenant_slot_read(tenant, 0, 1, &reading) != 0);
  CHECK("a PID written over by the tenant does not free the slot",
        jvgpu_tenant_slot_take(tenant, 78, &generation) == 1);
  CHECK("death clears a slot", jvgpu_tenant_slot_clear(tenant, 0) == 0 &&
                                   jvgpu_tenant_slot_read(tenant, 0, 0, &reading) == 0 && reading.held_bytes == 0);
  CHECK("a freed slot is given out again, as another generation",
        jvgpu_tenant_slot_take(tenant, 79, &generation) == 0 && generation == 2);
  munmap(usage, sizeof *usage);
}

static void requests_are_checked(void)
{
  jvgpu_attach_request_t request = {.magic = JVGPU_MAGIC, .layout = JVGPU_LAYOUT};
  char                   secret[65];

  memset(request.secret_hex, 'a', sizeof request.secret_hex);
  CHECK("a whole request passes",
        jvgpu_agent_parse_request(&request, sizeof request, secret) == JVGPU_ATTACH_OK && strlen(secret) == 64);
  CHECK("a short one does not",
        jvgpu_agent_parse_request(&request, sizeof request - 1, secret) == JVGPU_ATTACH_REFUSED && secret[0] == '\0');
  request.secret_hex[5] = 'G';
  CHECK("a secret that is not hexadecimal does not",
        jvgpu_agent_parse_request(&request, sizeof request, secret) == JVGPU_ATTACH_REFUSED);
  request.layout += 1;
  CHECK("another layout is named as such",
        jvgpu_agent_parse_request(&request, sizeof request, secret) == JVGPU_ATTACH_VERSION);
}

int main(void)
{
  jvgpu_tenant_t *tenant = jvgpu_tenant_create(1);
  CHECK("no device makes no pages", jvgpu_tenant_create(0) == NULL);
  CHECK("too many devices make no pages", jvgpu_tenant_create(JVGPU_MAX_DEVICES + 1) == NULL);
  the_control_page_is_read_only_for_good(tenant);
  the_usage_page_cannot_hurt_the_agent(tenant);
  requests_are_checked();
  jvgpu_tenant_destroy(tenant);
  RESULT();
}
