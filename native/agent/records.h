// Records: what the governor saw and did, in a ring, for a person to look at (`jupyter vgpu status --trace`).
// threads: the steering's lock is held.

#ifndef JVGPU_RECORDS_H
#define JVGPU_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct jvgpu_records_s jvgpu_records_t;
struct jvgpu_trace_s;

// As numbered in agent_api.h.
enum {
  JVGPU_GATE_SHUT = 0,
  JVGPU_GATE_OPENED = 1,
  JVGPU_WINDOW_BEGUN = 2,
  JVGPU_WINDOW_OVER = 3,
  JVGPU_WAS_CHARGED = 4,
  JVGPU_UNDER_WAY = 5,
};

jvgpu_records_t *jvgpu_records_make(void);
void jvgpu_records_free(jvgpu_records_t *records);

// Begin anew, or stop keeping and forget.
void jvgpu_records_keep(jvgpu_records_t *records, bool keep);
bool jvgpu_records_are_kept(const jvgpu_records_t *records);

// Does nothing while none are kept; a full ring loses its oldest.
void jvgpu_records_add(jvgpu_records_t *records, uint32_t runner, uint32_t kind, uint64_t value_ns, uint64_t at_ns);

uint32_t jvgpu_records_take(jvgpu_records_t *records, struct jvgpu_trace_s *out, uint32_t room, uint64_t *lost);

#endif
