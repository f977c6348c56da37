// Faults on command (python -m jupyter_vgpu.sim fault …): what the driver does about them.

#include <string.h>

#include "driver.h"

CUresult sim_context_fault(CUcontext context)
{
  const sim_control_t *control = context->control;
  const uint32_t       serial = atomic_load(&control->fault_serial);
  if (atomic_load(&control->is_lost) != 0) {
    return CUDA_ERROR_UNKNOWN;
  }
  if (serial != context->fault_serial) {
    const uint32_t pid = atomic_load(&control->fault_pid);
    context->fault_serial = serial;
    if (pid == 0 || pid == (uint32_t)(sim_shared_identity() & SIM_PID_MASK)) {
      // As after a real one: every call of the context answers this until its process ends.
      context->fault = (CUresult)atomic_load(&control->fault_result);
    }
  }
  return context->fault;
}

bool sim_allocation_fails(CUdevice device)
{
  _Atomic uint64_t *left = &sim_control(device)->allocations_to_failure;
  uint64_t          seen = atomic_load_explicit(left, memory_order_relaxed);
  while (seen != 0) {
    if (atomic_compare_exchange_weak(left, &seen, seen - 1)) {
      return seen == 1;
    }
  }
  return false;
}

bool sim_is_missing(const sim_shared_t *shared, const char *name)
{
  for (uint32_t i = 0; shared != NULL && i < SIM_MISSING; i++) {
    if (shared->missing[i][0] != 0 && strncmp(shared->missing[i], name, sizeof shared->missing[i]) == 0) {
      return true;
    }
  }
  return false;
}
