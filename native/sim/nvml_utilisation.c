// Who is busy, and how much: what NVML makes of the schedule.

#include <stdbool.h>
#include <time.h>

#include "nvml_device.h"

static unsigned int percent(uint64_t busy_ns)
{
  const uint64_t whole = busy_ns * 100u >> SIM_WINDOW_SHIFT;
  return whole > 100 ? 100 : (unsigned int)whole;
}

// What the process did on the board in the last full window, in whole per cents: late and coarse, as the real one.
static unsigned int percent_of(unsigned int number, uint64_t identity)
{
  sim_shared_t *shared = sim_nvml_shared();
  uint64_t      busy_ns = 0;
  uint64_t      tenants = 0;  // lanes that had a part of the window
  for (unsigned int i = 0; i <= SIM_MIG_INSTANCES; i++) {
    const unsigned int domain = number * (1 + SIM_MIG_INSTANCES) + i;
    sim_turns_t       *turns = &shared->domains[domain].turns;
    if (turns->lane_count == 0) {
      continue;
    }
    sim_domain_enter(shared, domain);
    for (unsigned int lane = 0; lane < SIM_LANES && lane < turns->lane_count; lane++) {
      busy_ns += turns->lanes[lane].owner == identity ? turns->lanes[lane].last_busy_ns : 0;
      tenants += turns->lanes[lane].owner != 0 && turns->lanes[lane].last_busy_ns != 0;
    }
    sim_domain_unlock(&shared->domains[domain]);
  }
  const bool is_generous = atomic_load(&sim_nvml_control(number)->is_generous) != 0 && tenants > 1;
  return percent(is_generous ? busy_ns * tenants : busy_ns);
}

unsigned int sim_nvml_busy_percent(unsigned int number)
{
  sim_shared_t      *shared = sim_nvml_shared();
  const unsigned int domain = number * (1 + SIM_MIG_INSTANCES);
  sim_domain_enter(shared, domain);
  const uint64_t busy_ns = shared->domains[domain].turns.last_busy_ns;
  sim_domain_unlock(&shared->domains[domain]);
  return percent(busy_ns);
}

uint64_t sim_nvml_total(unsigned int number, uint64_t *sm_ns)
{
  sim_shared_t *shared = sim_nvml_shared();
  uint64_t      total = 0;
  uint64_t      sm_total = 0;
  for (unsigned int i = 0; i <= SIM_MIG_INSTANCES; i++) {
    const unsigned int domain = number * (1 + SIM_MIG_INSTANCES) + i;
    if (shared->domains[domain].turns.lane_count != 0) {
      sim_domain_enter(shared, domain);
      total += shared->domains[domain].turns.total_busy_ns;
      sm_total += shared->domains[domain].turns.total_sm_ns;
      sim_domain_unlock(&shared->domains[domain]);
    }
  }
  if (sm_ns != NULL) {
    *sm_ns = sm_total;
  }
  return total;
}

SIM_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *utilization)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, &number), utilization != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (sim_nvml_is_mig(handle) || sim_nvml_control(number)->mig_mode != 0) {
    return NVML_ERROR_NOT_SUPPORTED;  // source: NVML API Reference, nvmlDeviceGetUtilizationRates: not with MIG
  }
  utilization->gpu = sim_nvml_busy_percent(number);
  utilization->memory = utilization->gpu / 2;
  return NVML_SUCCESS;
}

// returns: when the last full window ended, on the calendar's clock; samples are of windows, not of the moment
static unsigned long long window_end_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t since_ns = sim_monotonic_of(sim_now_ns() & ((1ull << SIM_WINDOW_SHIFT) - 1u));
  // Of the whole: in the first moments of a second the window began in the one before.
  return ((unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec - since_ns) / 1000u;
}

SIM_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t handle, nvmlProcessUtilizationSample_t *samples,
                                                     unsigned int *count, unsigned long long last_seen_us)
{
  nvmlProcessInfo_v2_t infos[SIM_MAX_SLOTS];
  const sim_board_t   *board;
  unsigned int         number;
  const nvmlReturn_t   result = sim_nvml_given(sim_nvml_board(handle, &board, &number), count != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  const unsigned int       room = *count;
  const unsigned int       found = sim_nvml_list(number, 0, infos, SIM_MAX_SLOTS);
  const unsigned long long seen_us = window_end_us();
  *count = found;
  if (samples == NULL) {
    // Asked how many: a real board answers a number that suffices, also when nobody is on it.
    *count = found == 0 ? 1 : found;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  if (found == 0 || last_seen_us >= seen_us) {
    return NVML_ERROR_NOT_FOUND;
  }
  if (room < found) {
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  sim_shared_t *shared = sim_nvml_shared();
  unsigned int  written = 0;
  for (unsigned int i = 0; i < SIM_MAX_SLOTS && i < shared->slot_count && written < room; i++) {
    const pid_t pid = sim_shared_living_pid(&shared->slots[i]);
    if (pid != 0 && shared->slots[i].uses[number].contexts != 0) {
      const unsigned int busy = percent_of(number, shared->slots[i].owner);
      samples[written++] = (nvmlProcessUtilizationSample_t){
          .pid = (unsigned int)pid, .timeStamp = seen_us, .smUtil = busy, .memUtil = busy / 2};
    }
  }
  if (written < room && atomic_load(&sim_nvml_control(number)->is_absurd) != 0) {
    samples[written++] = (nvmlProcessUtilizationSample_t){
        .pid = 1920151404u, .timeStamp = seen_us, .smUtil = 4000000000u, .memUtil = 4000000000u};
  }
  *count = written;
  return NVML_SUCCESS;
}
