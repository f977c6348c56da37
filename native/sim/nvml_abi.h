// The part of NVML's ABI that the simulated libnvidia-ml.so.1 speaks.
//
// Our own declarations; names, numbers and layouts are the interface, from the NVML API Reference (driver 580).
// With JVGPU_SIM_CHECK_HEADERS the real nvml.h takes this file's place, as in cuda_abi.h.

#ifndef JVGPU_SIM_NVML_ABI_H
#define JVGPU_SIM_NVML_ABI_H

#ifdef JVGPU_SIM_CHECK_HEADERS
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#else

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef enum nvmlReturn_enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_MEMORY = 20,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
  NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef struct nvmlPciInfo_st {
  char         busIdLegacy[16];
  unsigned int domain, bus, device;
  unsigned int pciDeviceId, pciSubSystemId;
  char         busId[32];
} nvmlPciInfo_t;

typedef struct nvmlMemory_st {
  unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct nvmlMemory_v2_st {
  unsigned int       version;
  unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
typedef struct nvmlBAR1Memory_st {
  unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct nvmlProcessInfo_v1_st {
  unsigned int       pid;
  unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;
typedef struct nvmlProcessInfo_v2_st {
  unsigned int       pid;
  unsigned long long usedGpuMemory;
  unsigned int       gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t, nvmlProcessInfo_t;

typedef struct nvmlUtilization_st {
  unsigned int gpu, memory;
} nvmlUtilization_t;
typedef struct nvmlProcessUtilizationSample_st {
  unsigned int       pid;
  unsigned long long timeStamp;
  unsigned int       smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;
typedef struct nvmlDeviceAttributes_st {
  unsigned int       multiprocessorCount;
  unsigned int       sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
  unsigned int       gpuInstanceSliceCount, computeInstanceSliceCount;
  unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef enum nvmlEnableState_enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 } nvmlEnableState_t;
typedef enum nvmlClockType_enum { NVML_CLOCK_MEM = 2, NVML_CLOCK_COUNT = 4 } nvmlClockType_t;
typedef enum nvmlClockId_enum { NVML_CLOCK_ID_COUNT = 4 } nvmlClockId_t;
typedef enum nvmlTemperatureSensors_enum { NVML_TEMPERATURE_GPU = 0 } nvmlTemperatureSensors_t;
typedef enum nvmlTemperatureThresholds_enum { NVML_TEMPERATURE_THRESHOLD_COUNT = 9 } nvmlTemperatureThresholds_t;
typedef enum nvmlComputeMode_enum { NVML_COMPUTEMODE_DEFAULT = 0 } nvmlComputeMode_t;
typedef enum nvmlPStates_enum { NVML_PSTATE_0 = 0 } nvmlPstates_t;
typedef enum nvmlBrandType_enum { NVML_BRAND_TESLA = 2, NVML_BRAND_NVIDIA = 14 } nvmlBrandType_t;
typedef unsigned int nvmlDeviceArchitecture_t;

#endif  // JVGPU_SIM_CHECK_HEADERS

#define SIM_API __attribute__((visibility("default")))

#endif
