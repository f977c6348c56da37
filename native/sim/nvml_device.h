// Inside the simulated libnvidia-ml.so.1: from a handle to a board.

#ifndef JVGPU_SIM_NVML_DEVICE_H
#define JVGPU_SIM_NVML_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "nvml_abi.h"
#include "shared.h"

// returns: NVML_SUCCESS and the board of a handle. `number` may be NULL. Of a MIG device it is the board it is on.
// The caller's name is looked up among the functions this driver was told to be without.
#define sim_nvml_board(handle, board, number) sim_nvml_board_for(__func__, handle, board, number)
nvmlReturn_t sim_nvml_board_for(const char *function, nvmlDevice_t handle, const sim_board_t **board,
                                unsigned int *number);
// returns: `result`, but NVML_ERROR_INVALID_ARGUMENT instead of success unless `are_good`, the caller's arguments
static inline nvmlReturn_t sim_nvml_given(nvmlReturn_t result, bool are_good)
{
  return result == NVML_SUCCESS && !are_good ? NVML_ERROR_INVALID_ARGUMENT : result;
}
// Which part of its board a MIG device is.
typedef struct sim_mig_place_s {
  unsigned int          number;    // of the board
  unsigned int          instance;  // index of the GPU instance, and of the compute instance in it
  unsigned int          compute;
  const sim_instance_t *part;
} sim_mig_place_t;
bool sim_nvml_is_mig(nvmlDevice_t handle);
// returns: false when the handle is none of a MIG device that exists
bool sim_nvml_mig_place(nvmlDevice_t handle, sim_mig_place_t *place);
nvmlDevice_t sim_nvml_mig_handle(unsigned int number, unsigned int instance, unsigned int compute);
// returns: the board, or for a MIG device what a process in it sees, in `part`
const sim_board_t *sim_nvml_part(nvmlDevice_t handle, const sim_board_t *board, sim_board_t *part);
nvmlReturn_t sim_nvml_ready(void);
// returns: NVML_ERROR_NO_PERMISSION unless root asks
nvmlReturn_t sim_nvml_check_root(void);
sim_control_t *sim_nvml_control(unsigned int number);
sim_shared_t *sim_nvml_shared(void);  // NULL: no board
nvmlDevice_t sim_nvml_handle(unsigned int number);
// returns: NVML_SUCCESS, or NVML_ERROR_INSUFFICIENT_SIZE when `text` with its end does not fit
nvmlReturn_t sim_nvml_text(char *destination, unsigned int length, const char *text);
void sim_nvml_uuid_text(const sim_board_t *board, char *text);  // 41 bytes
// Lists living processes with a context on the board, or in one GPU instance of it (from 1), at most `most` of them.
// returns: how many there are
unsigned int sim_nvml_list(unsigned int number, uint32_t instance, nvmlProcessInfo_v2_t *infos, unsigned int most);
// returns: part of the last utilisation window the board was busy, 0..100
unsigned int sim_nvml_busy_percent(unsigned int number);
// returns: how long the board was busy since it was made; `sm_ns` (may be NULL) weighted by the SMs that were filled
uint64_t sim_nvml_total(unsigned int number, uint64_t *sm_ns);
static inline uint64_t sim_nvml_total_busy_ns(unsigned int number)
{
  return sim_nvml_total(number, NULL);
}

#endif
