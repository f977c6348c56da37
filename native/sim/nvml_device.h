// Inside the simulated libnvidia-ml.so.1: from a handle to a board.

#ifndef JVGPU_SIM_NVML_DEVICE_H
#define JVGPU_SIM_NVML_DEVICE_H

#include <stddef.h>

#include "nvml_abi.h"
#include "shared.h"

// returns: NVML_SUCCESS and the board of a handle. `number` may be NULL.
nvmlReturn_t sim_nvml_board(nvmlDevice_t handle, const sim_board_t **board, unsigned int *number);
nvmlReturn_t sim_nvml_ready(void);
sim_shared_t *sim_nvml_shared(void);  // NULL: no board
nvmlDevice_t sim_nvml_handle(unsigned int number);
// returns: NVML_SUCCESS, or NVML_ERROR_INSUFFICIENT_SIZE when `text` with its end does not fit
nvmlReturn_t sim_nvml_text(char *destination, unsigned int length, const char *text);
void sim_nvml_uuid_text(const sim_board_t *board, char *text);  // 41 bytes
// returns: part of the last utilisation window the board was busy, 0..100
unsigned int sim_nvml_busy_percent(unsigned int number);

#endif
