// A claim's two pages, as the agent's parts hold them: pages (agent.c) and steering (steering.c).

#ifndef JVGPU_TENANT_H
#define JVGPU_TENANT_H

#include "jvgpu/pages.h"

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
