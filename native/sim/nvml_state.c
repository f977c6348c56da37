// The state of a device that the simulation keeps simple: clocks, heat, power and modes follow from how busy it is.

#include "nvml_device.h"

#define check(handle, board, number, out) sim_nvml_given(sim_nvml_board(handle, board, number), (out) != NULL)

// A getter whose answer is `value`; `board` and `busy()` may stand in it.
#define SIM_STATE(name, type, value)                                 \
  SIM_API nvmlReturn_t name(nvmlDevice_t handle, type *out)          \
  {                                                                  \
    const sim_board_t *board;                                        \
    unsigned int       number;                                       \
    const nvmlReturn_t result = check(handle, &board, &number, out); \
    if (result == NVML_SUCCESS) {                                    \
      *out = (type)(value);                                          \
    }                                                                \
    return result;                                                   \
  }

#define BUSY sim_nvml_busy_percent(number)

SIM_STATE(nvmlDeviceGetPowerUsage, unsigned int,
          board->power_idle_mw + (board->power_limit_mw - board->power_idle_mw) / 100u * BUSY)
SIM_STATE(nvmlDeviceGetPowerManagementLimit, unsigned int, board->power_limit_mw)
SIM_STATE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, board->power_limit_mw)
SIM_STATE(nvmlDeviceGetEnforcedPowerLimit, unsigned int, board->power_limit_mw)
SIM_STATE(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
SIM_STATE(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
SIM_STATE(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_STATE(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_STATE(nvmlDeviceGetAccountingMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_STATE(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
SIM_STATE(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
SIM_STATE(nvmlDeviceGetPowerState, nvmlPstates_t, NVML_PSTATE_0)
#define THROTTLED atomic_load(&sim_nvml_control(number)->throttle_reasons)
#define REASONS ((BUSY == 0 ? 1u : 0u) | THROTTLED)  // bit 0: idle
SIM_STATE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, REASONS)
SIM_STATE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, REASONS)
SIM_STATE(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, 0x1ff)
SIM_STATE(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, 0x1ff)
SIM_STATE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long,
          (sim_now_ns() * board->power_idle_mw +
           sim_nvml_total_busy_ns(number) / 100u * (board->power_limit_mw - board->power_idle_mw) / 10u * 1000u) /
              1000000000u)
SIM_STATE(nvmlDeviceGetPcieReplayCounter, unsigned int, 0)
SIM_STATE(nvmlDeviceGetAccountingBufferSize, unsigned int, 4000)  // as NVML documents it for an off mode, too
SIM_STATE(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, NVML_GPU_VIRTUALIZATION_MODE_NONE)
SIM_STATE(nvmlDeviceGetIrqNum, unsigned int, 100 + number)

SIM_API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, nvmlTemperatureSensors_t sensor,
                                              unsigned int *celsius)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = check(handle, &board, &number, celsius);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if (sensor != NVML_TEMPERATURE_GPU) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const uint32_t told = atomic_load(&sim_nvml_control(number)->temperature_c);
  *celsius = told != 0 ? told : 30 + sim_nvml_busy_percent(number) * 35 / 100;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t handle, nvmlTemperatureThresholds_t threshold,
                                                       unsigned int *celsius)
{
  static const unsigned int thresholds[] = {92, 89};  // shutdown, slowdown
  const sim_board_t        *board;
  const nvmlReturn_t        result = check(handle, &board, NULL, celsius);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if ((unsigned int)threshold >= sizeof thresholds / sizeof *thresholds) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  *celsius = thresholds[threshold];
  return NVML_SUCCESS;
}

static nvmlReturn_t clock_mhz(nvmlDevice_t handle, nvmlClockType_t kind, bool is_current, unsigned int *mhz)
{
  const sim_board_t *board;
  unsigned int       number;
  const nvmlReturn_t result = check(handle, &board, &number, mhz);
  if (result != NVML_SUCCESS) {
    return result;
  }
  if ((unsigned int)kind >= NVML_CLOCK_COUNT) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  *mhz = kind == NVML_CLOCK_MEM ? board->memory_clock_mhz : board->sm_clock_mhz;
  if (is_current && kind != NVML_CLOCK_MEM) {
    // Hot: half. Idle: a fifth, as a board lets its clock down.
    *mhz = THROTTLED != 0 ? *mhz / 2 : BUSY == 0 ? *mhz / 5 / 15 * 15 : *mhz;
  }
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, nvmlClockType_t kind, unsigned int *mhz)
{
  return clock_mhz(handle, kind, true, mhz);
}

SIM_API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, nvmlClockType_t kind, unsigned int *mhz)
{
  return clock_mhz(handle, kind, false, mhz);
}

SIM_API nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t handle, nvmlClockType_t kind, unsigned int *mhz)
{
  return clock_mhz(handle, kind, false, mhz);
}

SIM_API nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t handle, nvmlClockType_t kind, unsigned int *mhz)
{
  return clock_mhz(handle, kind, false, mhz);
}

SIM_API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t handle, nvmlClockType_t kind, nvmlClockId_t id, unsigned int *mhz)
{
  return (unsigned int)id >= NVML_CLOCK_ID_COUNT ? NVML_ERROR_INVALID_ARGUMENT
                                                 : clock_mhz(handle, kind, (unsigned int)id == 0, mhz);
}

SIM_API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t handle, unsigned int *least,
                                                                  unsigned int *most)
{
  const sim_board_t *board;
  const nvmlReturn_t result = check(handle, &board, NULL, least == NULL ? NULL : most);
  if (result == NVML_SUCCESS) {
    *least = board->power_limit_mw / 4;
    *most = board->power_limit_mw;
  }
  return result;
}

SIM_API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t handle, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
  const sim_board_t *board;
  const nvmlReturn_t result = check(handle, &board, NULL, current == NULL ? NULL : pending);
  if (result == NVML_SUCCESS) {
    *current = NVML_FEATURE_ENABLED;
    *pending = NVML_FEATURE_ENABLED;
  }
  return result;
}

// Two values, both zero: no video engines at work.
static nvmlReturn_t idle_engine(nvmlDevice_t handle, unsigned int *percent, unsigned int *period_us)
{
  const sim_board_t *board;
  const nvmlReturn_t result = check(handle, &board, NULL, percent == NULL ? NULL : period_us);
  if (result == NVML_SUCCESS) {
    *percent = 0;
    *period_us = 167000;
  }
  return result;
}

SIM_API nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t handle, unsigned int *percent,
                                                     unsigned int *period_us)
{
  return idle_engine(handle, percent, period_us);
}

SIM_API nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t handle, unsigned int *percent,
                                                     unsigned int *period_us)
{
  return idle_engine(handle, percent, period_us);
}

// Passively cooled boards: no fans.
SIM_API nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t handle, unsigned int *percent)
{
  const sim_board_t *board;
  const nvmlReturn_t result = check(handle, &board, NULL, percent);
  return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

SIM_API nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t handle, unsigned int fan, unsigned int *percent)
{
  (void)fan;
  return nvmlDeviceGetFanSpeed(handle, percent);
}

SIM_API nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t handle, unsigned int *count)
{
  const sim_board_t *board;
  const nvmlReturn_t result = check(handle, &board, NULL, count);
  if (result == NVML_SUCCESS) {
    *count = 0;
  }
  return result;
}
