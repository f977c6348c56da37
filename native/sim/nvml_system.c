// What NVML says of the driver and of the machine's processes, and of its own answers.

#include <stdio.h>
#include <string.h>

#include "nvml_device.h"

SIM_API const char *nvmlErrorString(nvmlReturn_t result)
{
  switch ((int)result) {
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 5: return "Already Initialized";
    case 6: return "Not Found";
    case 7: return "Insufficient Size";
    case 8: return "Insufficient External Power";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 12: return "NVML Shared Library Not Found";
    case 13: return "Function Not Found";
    case 15: return "GPU is lost";
    case 17: return "Blocked by Operating System";
    case 18: return "Driver/library version mismatch";
    case 20: return "Insufficient Memory";
    case 21: return "No data";
    case 25: return "Argument version mismatch";
    case 27: return "Not Ready";
    case 999: return "Unknown Error";
    default: return "Unknown Error code";
  }
}

SIM_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
  const nvmlReturn_t  ready = sim_nvml_ready();
  const sim_shared_t *shared = sim_nvml_shared();
  return ready != NVML_SUCCESS ? ready : sim_nvml_text(version, length, shared == NULL ? "" : shared->driver_version);
}

SIM_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
  const nvmlReturn_t  ready = sim_nvml_ready();
  const sim_shared_t *shared = sim_nvml_shared();
  return ready != NVML_SUCCESS ? ready : sim_nvml_text(version, length, shared == NULL ? "" : shared->nvml_version);
}

// source: NVML API Reference, nvmlSystemGetCudaDriverVersion: answers before nvmlInit, too.
SIM_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
  const sim_shared_t *shared = sim_nvml_shared();
  if (version == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *version = shared == NULL ? 13000 : (int)shared->cuda_version;
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
  return nvmlSystemGetCudaDriverVersion(version);
}

SIM_API nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
  char               path[32];
  char               text[256];
  const nvmlReturn_t ready = sim_nvml_ready();
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    return NVML_ERROR_NOT_FOUND;
  }
  const size_t count = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[count] = 0;
  if (name == NULL || length == 0) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  snprintf(name, length, "%s", text);
  return NVML_SUCCESS;
}
