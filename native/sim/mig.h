// MIG: the parts a board is cut into. State lies in the shared file; both libraries read it, NVML changes it.
//
// pre of all that change: the board's first domain locked

#ifndef JVGPU_SIM_MIG_H
#define JVGPU_SIM_MIG_H

#include "shared.h"

#define SIM_MIG_NONE UINT32_MAX

// returns: the id NVML gives a profile within its board
uint32_t sim_mig_profile_number(const sim_board_t *board, uint32_t profile);
// returns: the board's profile of that kind (NVML_GPU_INSTANCE_PROFILE_*) or with that id; SIM_MIG_NONE
uint32_t sim_mig_profile_of_kind(const sim_board_t *board, uint32_t kind);
uint32_t sim_mig_profile_of_number(const sim_board_t *board, uint32_t number);

// returns: true when a GPU instance of the profile may begin at that memory slice now
bool sim_mig_fits(const sim_board_t *board, const sim_control_t *control, uint32_t profile, uint32_t start);
// returns: where one could be made now: the place that leaves most others open; SIM_MIG_NONE when there is none
uint32_t sim_mig_place(const sim_board_t *board, const sim_control_t *control, uint32_t profile);
// returns: how many more of the profile fit
uint32_t sim_mig_room(const sim_board_t *board, const sim_control_t *control, uint32_t profile);
// returns: the new instance's index; SIM_MIG_NONE when it does not fit
uint32_t sim_mig_create(const sim_board_t *board, sim_control_t *control, uint32_t profile, uint32_t start);

// returns: the new compute instance's index in the GPU instance; SIM_MIG_NONE when there is no room
uint32_t sim_mig_create_compute(const sim_board_t *board, sim_instance_t *instance, uint32_t slices);
uint32_t sim_mig_compute_room(const sim_board_t *board, const sim_instance_t *instance, uint32_t slices);
uint32_t sim_mig_compute_sms(const sim_board_t *board, const sim_instance_t *instance, uint32_t slices);
// returns: true when a living process has a context there; `compute` SIM_MIG_NONE: in any of them
bool sim_mig_is_busy(sim_shared_t *shared, uint32_t board, uint32_t instance, uint32_t compute);

void sim_mig_uuid(const sim_board_t *board, uint32_t instance, uint32_t compute, uint8_t uuid[16]);
void sim_mig_uuid_text(const sim_board_t *board, uint32_t instance, uint32_t compute, char text[48]);
// The board a process in that compute instance sees.
sim_board_t sim_mig_board(const sim_board_t *board, const sim_instance_t *instance, uint32_t number, uint32_t compute);

#endif
