// Which rows of NVML's are the tenant's own, in the host's PID namespace and in one of the tenant's.

#define _GNU_SOURCE
#include "whose.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

typedef struct row_s {
  unsigned long long memory;
  unsigned int       pid;
} row_t;

static jvgpu_control_t control = {.slot_count = 4};
static jvgpu_usage_t  *usage;
static jvgpu_process_t self;

static void attach(uint32_t slot, uint32_t host_pid, uint64_t local_pid, uint64_t namespace_id)
{
  usage->slots[slot].pid = host_pid;
  usage->slots[slot].reserved[JVGPU_SLOT_LOCAL_PID] = local_pid;
  usage->slots[slot].reserved[JVGPU_SLOT_NAMESPACE] = namespace_id;
}

// returns: how many rows with these ids are kept; out has their ids and memories.
static unsigned int keep(const unsigned int *pids, unsigned int count, row_t *out)
{
  for (unsigned int i = 0; i < count; i++) {
    out[i] = (row_t){.memory = 1000 + i, .pid = pids[i]};
  }
  return jvgpu_whose_keep(&self, out, count, sizeof *out, offsetof(row_t, pid));
}

static void a_process_signs_with_what_it_is_called_here(void)
{
  jvgpu_whose_sign(&usage->slots[0]);
  CHECK("its own id", usage->slots[0].reserved[JVGPU_SLOT_LOCAL_PID] == (uint64_t)getpid());
  CHECK("its namespace", usage->slots[0].reserved[JVGPU_SLOT_NAMESPACE] != 0);
}

static void on_the_host(void)
{
  row_t out[4];
  memset(usage, 0, sizeof *usage);
  attach(0, 500, 500, 9);
  attach(2, 700, 700, 9);
  CHECK("own rows are kept", keep((unsigned int[]){500, 600, 700}, 3, out) == 2 && out[0].pid == 500 &&
                                 out[1].pid == 700 && out[1].memory == 1002);
  CHECK("others' are not", keep((unsigned int[]){600, 0}, 2, out) == 0);
  CHECK("a dead process's slot names nobody", !jvgpu_whose_is_own(&self, 0));
  CHECK("one can be asked for", jvgpu_whose_is_own(&self, 700) && !jvgpu_whose_is_own(&self, 600));
}

static void in_a_container_where_nvml_speaks_the_hosts_ids(void)
{
  row_t out[4];
  memset(usage, 0, sizeof *usage);
  attach(0, 500, 7, 9);
  attach(1, 501, 8, 9);
  attach(3, 900, 7, 11);  // the tenant's other container
  CHECK("own rows get the ids that the caller knows",
        keep((unsigned int[]){7, 501, 500, 8}, 4, out) == 2 && out[0].pid == 8 && out[1].pid == 7);
  CHECK("another's process with an id like ours is not taken for ours", out[0].memory == 1001 && out[1].memory == 1002);
  CHECK("a process of another container keeps the host's id",
        keep((unsigned int[]){900, 500}, 2, out) == 2 && out[0].pid == 900 && out[1].pid == 7);
}

static void in_a_container_where_the_driver_translates(void)
{
  row_t out[4];
  memset(usage, 0, sizeof *usage);
  attach(0, 500, 7, 9);
  attach(1, 501, 8, 9);
  attach(3, 900, 12, 11);
  CHECK("own rows are known by the ids of here",
        keep((unsigned int[]){7, 8, 12}, 3, out) == 2 && out[0].pid == 7 && out[1].pid == 8);
  CHECK("ids of here can be asked for", jvgpu_whose_is_own(&self, 8) && !jvgpu_whose_is_own(&self, 501));
}

static void without_proc(void)
{
  row_t out[4];
  memset(usage, 0, sizeof *usage);
  attach(0, 500, 7, 0);
  CHECK("only the host's ids count",
        keep((unsigned int[]){7, 500}, 2, out) == 1 && out[0].pid == 500 && out[0].memory == 1001);
}

int main(void)
{
  usage = calloc(1, sizeof *usage);
  self = (jvgpu_process_t){.control = &control, .usage = usage, .slot = &usage->slots[0]};
  a_process_signs_with_what_it_is_called_here();
  on_the_host();
  in_a_container_where_nvml_speaks_the_hosts_ids();
  in_a_container_where_the_driver_translates();
  without_proc();
  free(usage);
  RESULT();
}
