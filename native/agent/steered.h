// Steered: one claim on one device, between its pages and the governor.
// threads: the steering's lock is held.

#ifndef JVGPU_STEERED_H
#define JVGPU_STEERED_H

#include <stdbool.h>
#include <stdint.h>

#include "governor.h"
#include "guarantee.h"
#include "records.h"
#include "tenant.h"

struct jvgpu_tenant_s;

typedef struct jvgpu_steered_runner_s {
  struct jvgpu_tenant_s *tenant;  // NULL = free
  uint32_t               index;   // of the device in the claim
  uint32_t               number;
  uint32_t               priority;  // the claim's own
  jvgpu_guarantee_t      guarantee;
  bool                   was_open;
  bool                   was_governed;
  uint64_t               alive_ns;
  uint64_t               closed_since_ns;  // 0 = its gate is open
  uint64_t               closed_ns;
  uint64_t               seen_ns[JVGPU_MAX_SLOTS];  // charged by the last look, less what was too much
  uint64_t               base_done_ns[JVGPU_MAX_SLOTS];  // as it stood when nobody kept it
  uint32_t               generations[JVGPU_MAX_SLOTS];
} jvgpu_steered_runner_t;

// Take in what the claim's processes did since the last look, as untrusted figures.
void jvgpu_steered_read(jvgpu_steered_runner_t *steered, jvgpu_runner_t *runner);
// Hold its guarantee against that, and say how loudly it asks: between reading and the governor's look.
void jvgpu_steered_judge(jvgpu_steered_runner_t *steered, jvgpu_runner_t *runner, uint64_t at_ns);
// Say whether the claim has the device for itself. First of all claims on it, then gates are opened: who sees it still
// said has not met what came through them.
void jvgpu_steered_write_clear(const jvgpu_steered_runner_t *steered, uint64_t clear_ns);
// Write what the governor decided: gate, bound, a sign of life.
void jvgpu_steered_write(jvgpu_steered_runner_t *steered, const jvgpu_runner_t *runner, jvgpu_records_t *records,
                         uint64_t at_ns);
// Nobody steers it any more: its gate is open, nothing is bounded.
void jvgpu_steered_let_go(jvgpu_steered_runner_t *steered, jvgpu_records_t *records, uint64_t at_ns);

#endif
