// Inside the simulated NVML: from a GPU instance's handle to what it names.

#ifndef JVGPU_SIM_NVML_MIG_H
#define JVGPU_SIM_NVML_MIG_H

#include "mig.h"
#include "nvml_device.h"

// One GPU instance as its handle names it.
typedef struct sim_mig_found_s {
  const sim_board_t *board;
  sim_control_t     *control;
  sim_instance_t    *instance;
  unsigned int       number;  // of the board
  unsigned int       index;
} sim_mig_found_t;

// returns: NVML_SUCCESS and the instance, or why the handle names none
nvmlReturn_t sim_nvml_mig_find(nvmlGpuInstance_t handle, sim_mig_found_t *found);
nvmlGpuInstance_t sim_nvml_gpu_instance(unsigned int number, unsigned int index);
// returns: the domain that guards the board's MIG state, locked
sim_domain_t *sim_nvml_mig_lock(unsigned int number);

#endif
