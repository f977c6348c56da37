// Which MIG device a process sees.
//
// source: CUDA Programming Guide, CUDA_VISIBLE_DEVICES: a process uses one compute instance at most; without a name it
// is the first.

#include <string.h>
#include <strings.h>

#include "driver.h"
#include "mig.h"

// returns: true and the first compute instance of the board whose UUID is `uuid`, or any when that is NULL
static bool find(const sim_board_t *board, const sim_control_t *control, const char *uuid, uint32_t *instance,
                 uint32_t *compute)
{
  char text[48];
  for (uint32_t i = 0; i < SIM_MIG_INSTANCES; i++) {
    for (uint32_t k = 0; k < SIM_MIG_INSTANCES; k++) {
      if (control->instances[i].is_used == 0 || control->instances[i].computes[k].is_used == 0) {
        continue;
      }
      sim_mig_uuid_text(board, i, k, text);
      if (uuid == NULL || strcasecmp(uuid, text) == 0) {
        *instance = i;
        *compute = k;
        return true;
      }
    }
  }
  return false;
}

static void see_part(const sim_shared_t *shared, sim_process_t *process, uint32_t board, uint32_t instance,
                     uint32_t compute)
{
  process->board_of[0] = board;
  process->instance_of[0] = instance + 1;
  process->boards[0] =
      sim_mig_board(&shared->boards[board], &shared->controls[board].instances[instance], instance, compute);
}

int sim_visible_mig(sim_shared_t *shared, const char *visible, sim_process_t *process, int count,
                    uint32_t computes[SIM_MAX_BOARDS])
{
  uint32_t instance;
  if (visible != NULL && strncasecmp(visible, "MIG-", 4) == 0) {
    for (uint32_t board = 0; board < shared->board_count; board++) {
      if (shared->controls[board].mig_mode != 0 && shared->controls[board].is_lost == 0 &&
          find(&shared->boards[board], &shared->controls[board], visible, &instance, &computes[0])) {
        see_part(shared, process, board, instance, computes[0]);
        return 1;
      }
    }
    return 0;
  }
  int left = 0;
  for (int i = 0; i < count; i++) {
    const uint32_t board = process->board_of[i];
    if (shared->controls[board].mig_mode == 0) {
      process->board_of[left] = board;
      process->instance_of[left] = 0;
      process->boards[left++] = shared->boards[board];
    }
  }
  // Whole boards and parts of boards do not mix; parts only where there is nothing else.
  for (int i = 0; i < count && left == 0; i++) {
    const uint32_t board = process->board_of[i];
    if (find(&shared->boards[board], &shared->controls[board], NULL, &instance, &computes[0])) {
      see_part(shared, process, board, instance, computes[0]);
      return 1;
    }
  }
  return left;
}
