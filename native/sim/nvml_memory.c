// How much memory is used, and by whom.

#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nvml_device.h"

#define MEMORY_V2_VERSION ((unsigned int)(sizeof(nvmlMemory_v2_t) | 2u << 24))

// returns: the GPU instance of a MIG device, plus one; 0 for a whole board
static uint32_t instance_of(nvmlDevice_t handle)
{
  sim_mig_place_t place;
  return sim_nvml_mig_place(handle, &place) ? place.instance + 1 : 0;
}

SIM_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, &number), memory != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  // source: NVML API Reference, nvmlMemory_t: in version 1 the reserved part counts as used.
  sim_board_t        seen;
  const sim_board_t *part = sim_nvml_part(handle, board, &seen);
  memory->total = part->memory_bytes;
  memory->used = part->reserved_bytes + sim_shared_used_in(sim_nvml_shared(), number, instance_of(handle));
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, &number), memory != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (memory->version != MEMORY_V2_VERSION) {
    return NVML_ERROR_FUNCTION_NOT_FOUND;  // so a driver 580.159.04, where others say that the version does not match
  }
  sim_board_t        seen;
  const sim_board_t *part = sim_nvml_part(handle, board, &seen);
  memory->total = part->memory_bytes;
  memory->reserved = part->reserved_bytes;
  memory->used = sim_shared_used_in(sim_nvml_shared(), number, instance_of(handle));
  memory->free = memory->total - memory->reserved - memory->used;
  // Whoever is in a group with a limit sees what is left of that.
  const uint64_t room = sim_limits_room(sim_nvml_shared(), number, getpid());
  memory->free = room < memory->free ? room : memory->free;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, nvmlBAR1Memory_t *memory)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), memory != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  memory->bar1Total = board->bar1_bytes;
  memory->bar1Used = 1u << 20;
  memory->bar1Free = memory->bar1Total - memory->bar1Used;
  return NVML_SUCCESS;
}

unsigned int sim_nvml_list(unsigned int number, uint32_t instance, nvmlProcessInfo_v2_t *infos, unsigned int most)
{
  sim_shared_t *shared = sim_nvml_shared();
  unsigned int  count = 0;
  for (unsigned int i = 0; i < SIM_MAX_SLOTS && i < shared->slot_count; i++) {
    sim_slot_t      *slot = &shared->slots[i];
    const pid_t      pid = sim_shared_living_pid(slot);
    const sim_use_t *use = &slot->uses[number];
    if (pid == 0 || use->contexts == 0 || (instance != 0 && use->instance != instance)) {
      continue;
    }
    if (count < most) {
      infos[count] =
          (nvmlProcessInfo_v2_t){.pid = (unsigned int)pid,
                                 .usedGpuMemory = use->held_bytes,
                                 .gpuInstanceId = use->instance == 0 ? UINT32_MAX : (uint32_t)use->instance,
                                 .computeInstanceId = use->instance == 0 ? UINT32_MAX : (uint32_t)use->compute};
    }
    count++;
  }
  if (atomic_load(&sim_nvml_control(number)->is_absurd) != 0) {
    // A row such as real drivers were seen to give.
    if (count < most) {
      infos[count] = (nvmlProcessInfo_v2_t){.pid = 1920151404u,
                                            .usedGpuMemory = 17592186044134ull << 20,
                                            .gpuInstanceId = UINT32_MAX,
                                            .computeInstanceId = UINT32_MAX};
    }
    count++;
  }
  return count;
}

// Which processes are listed: all that have contexts, or those that are clients of an MPS server.
typedef enum sim_listed_e { SIM_ALL, SIM_MPS_CLIENTS } sim_listed_t;

static nvmlReturn_t running(const char *function, sim_listed_t listed, nvmlDevice_t handle, unsigned int *count,
                            nvmlProcessInfo_v2_t *infos)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board_for(function, handle, &board, &number), count != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const bool         is_any = listed == SIM_ALL || atomic_load(&sim_nvml_control(number)->is_mps) != 0;
  const unsigned int room = *count;
  const unsigned int found = is_any ? sim_nvml_list(number, instance_of(handle), infos, infos == NULL ? 0 : room) : 0;
  if (infos == NULL && room > 0 && found > 0) {
    return NVML_ERROR_INVALID_ARGUMENT;  // only now: a real board that nobody is on does not look at the place
  }
  *count = found;
  return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t running_v1(const char *function, sim_listed_t listed, nvmlDevice_t handle, unsigned int *count,
                               nvmlProcessInfo_v1_t *infos)
{
  nvmlProcessInfo_v2_t full[SIM_MAX_SLOTS];
  if (count == NULL) {
    return running(function, listed, handle, NULL, NULL);
  }
  unsigned int       found = *count < SIM_MAX_SLOTS ? *count : SIM_MAX_SLOTS;
  const nvmlReturn_t result = running(function, listed, handle, &found, infos == NULL ? NULL : full);
  for (unsigned int i = 0; result == NVML_SUCCESS && i < found; i++) {
    infos[i] = (nvmlProcessInfo_v1_t){.pid = full[i].pid, .usedGpuMemory = full[i].usedGpuMemory};
  }
  *count = found;
  return result;
}

#define LISTS(name, listed, type, list)                                            \
  SIM_API nvmlReturn_t name(nvmlDevice_t handle, unsigned int *count, type *infos) \
  {                                                                                \
    return list(__func__, listed, handle, count, infos);                           \
  }
LISTS(nvmlDeviceGetComputeRunningProcesses, SIM_ALL, nvmlProcessInfo_v1_t, running_v1)
LISTS(nvmlDeviceGetComputeRunningProcesses_v2, SIM_ALL, nvmlProcessInfo_v2_t, running)
LISTS(nvmlDeviceGetComputeRunningProcesses_v3, SIM_ALL, nvmlProcessInfo_t, running)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, SIM_MPS_CLIENTS, nvmlProcessInfo_v1_t, running_v1)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v2, SIM_MPS_CLIENTS, nvmlProcessInfo_v2_t, running)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, SIM_MPS_CLIENTS, nvmlProcessInfo_t, running)

// A compute board draws nothing.
static nvmlReturn_t none(nvmlDevice_t handle, unsigned int *count)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), count != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *count = 0;
  return NVML_SUCCESS;
}

#define NO_PROCESSES(name, type)                                                   \
  SIM_API nvmlReturn_t name(nvmlDevice_t handle, unsigned int *count, type *infos) \
  {                                                                                \
    (void)infos;                                                                   \
    return none(handle, count);                                                    \
  }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
