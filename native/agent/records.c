#include "records.h"

#include <stdlib.h>

typedef struct jvgpu_tenant_s jvgpu_tenant_t;
#pragma GCC visibility        push(default)
#include "agent_api.h"
#pragma GCC visibility pop

// Some seconds of eight busy tenants.
#define ROOM 131072u

struct jvgpu_records_s {
  jvgpu_trace_t *ring;  // NULL = none are kept
  uint64_t       written;
  uint64_t       taken;
};

jvgpu_records_t *jvgpu_records_make(void)
{
  return calloc(1, sizeof(jvgpu_records_t));
}

void jvgpu_records_free(jvgpu_records_t *records)
{
  if (records != NULL) {
    free(records->ring);
  }
  free(records);
}

void jvgpu_records_keep(jvgpu_records_t *records, bool keep)
{
  free(records->ring);
  *records = (jvgpu_records_t){.ring = keep ? calloc(ROOM, sizeof *records->ring) : NULL};
}

bool jvgpu_records_are_kept(const jvgpu_records_t *records)
{
  return records->ring != NULL;
}

void jvgpu_records_add(jvgpu_records_t *records, uint32_t runner, uint32_t kind, uint64_t value_ns, uint64_t at_ns)
{
  if (records->ring != NULL) {
    records->ring[records->written % ROOM] =
        (jvgpu_trace_t){.time_ns = at_ns, .value_ns = value_ns, .runner = runner, .kind = kind};
    records->written += 1;
  }
}

uint32_t jvgpu_records_take(jvgpu_records_t *records, jvgpu_trace_t *out, uint32_t room, uint64_t *lost)
{
  uint32_t count = 0;
  *lost = 0;
  if (records->written - records->taken > ROOM) {
    *lost = records->written - ROOM - records->taken;
    records->taken = records->written - ROOM;
  }
  while (records->ring != NULL && count < room && records->taken < records->written) {
    out[count++] = records->ring[records->taken++ % ROOM];
  }
  return count;
}
