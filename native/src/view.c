#define _GNU_SOURCE
#include "view.h"

#include "account.h"
#include "attach.h"
#include "pools.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

jvgpu_view_t jvgpu_view(jvgpu_process_t *self, uint32_t device, uint64_t physical_total_bytes,
                        uint64_t physical_free_bytes)
{
  jvgpu_view_t view;

  jvgpu_attach_renew(self);
  jvgpu_pools_look(self);
  const uint64_t limit = __atomic_load_n(&self->control->devices[device].memory_limit_bytes, __ATOMIC_RELAXED);
  view.total_bytes = smaller(limit, physical_total_bytes);
  view.used_bytes = smaller(jvgpu_account_used(self->control, self->usage, device), view.total_bytes);
  view.free_bytes = smaller(view.total_bytes - view.used_bytes, physical_free_bytes);
  return view;
}
