// Whose: which of the tenant's processes a process id of NVML's means, and what the caller calls it.
//
// The agent writes each process's host id into its slot, and the process itself what it is called in its
// own PID namespace. NVML speaks of processes by the host's ids, or by the caller's where the driver
// translates; which it is, the rows tell.

#ifndef JVGPU_WHOSE_H
#define JVGPU_WHOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "process.h"

// Words of a slot's `reserved` that its process writes.
enum {
  JVGPU_SLOT_MARK = 0,       // for the moment of a renewal: attach.c
  JVGPU_SLOT_LOCAL_PID = 1,  // the process's id in its own PID namespace
  JVGPU_SLOT_NAMESPACE = 2,  // which namespace that is; 0 = not known
};

// Write into `slot` what this process is called here.
void jvgpu_whose_sign(jvgpu_slot_t *slot);

// Keep the rows of the tenant's own processes, in place, and give each the id that the caller knows it
// by. A row has its process id, an unsigned int, at `pid_at`.
// returns: how many there are.
unsigned int jvgpu_whose_keep(const jvgpu_process_t *self, void *rows, unsigned int count, size_t row_bytes,
                              size_t pid_at);

// returns: whether the process that the caller calls `pid` is the tenant's.
bool jvgpu_whose_is_own(const jvgpu_process_t *self, unsigned int pid);

#endif
