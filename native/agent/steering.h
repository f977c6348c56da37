// Steering: the governor's thread. It reads usage pages, asks the governor (governor.h), writes gates.
// One for the agent; its API towards Python is in agent_api.h.

#ifndef JVGPU_STEERING_H
#define JVGPU_STEERING_H

#include "jvgpu/pages.h"

// A claim's two pages, as the agent holds them.
struct jvgpu_tenant_s {
  jvgpu_control_t *control;
  jvgpu_usage_t   *usage;
  int              control_fd;
  int              usage_fd;
  uint32_t         device_count;
  uint32_t         pids[JVGPU_MAX_SLOTS];  // the agent's own record; the page's copy is the tenant's to spoil
  uint32_t         generations[JVGPU_MAX_SLOTS];
};

#endif
