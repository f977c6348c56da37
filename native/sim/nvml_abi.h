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
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_OPERATING_SYSTEM = 17,
  NVML_ERROR_IN_USE = 19,
  NVML_ERROR_MEMORY = 20,
  NVML_ERROR_NO_DATA = 21,
  NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
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
typedef enum nvmlGpuVirtualizationMode { NVML_GPU_VIRTUALIZATION_MODE_NONE = 0 } nvmlGpuVirtualizationMode_t;
typedef enum nvmlPStates_enum { NVML_PSTATE_0 = 0 } nvmlPstates_t;
typedef enum nvmlBrandType_enum { NVML_BRAND_TESLA = 2, NVML_BRAND_NVIDIA = 14 } nvmlBrandType_t;
typedef unsigned int nvmlDeviceArchitecture_t;

typedef enum nvmlMemoryErrorType_enum { NVML_MEMORY_ERROR_TYPE_COUNT = 2 } nvmlMemoryErrorType_t;
typedef enum nvmlEccCounterType_enum { NVML_ECC_COUNTER_TYPE_COUNT = 2 } nvmlEccCounterType_t;
typedef enum nvmlMemoryLocation_enum { NVML_MEMORY_LOCATION_COUNT = 8 } nvmlMemoryLocation_t;

#define nvmlEventTypeXidCriticalError 0x8ll
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef struct nvmlEventData_st {
  nvmlDevice_t       device;
  unsigned long long eventType, eventData;
  unsigned int       gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

#define NVML_DEVICE_MEMORY_LIMIT_MAX 0xffffffffffffffffull
typedef struct nvmlSetMemoryLimits_v1_st {
  const char        *nameSpace;
  unsigned long long softLimit, hardLimit;
} nvmlSetMemoryLimits_v1_t;
typedef struct nvmlGetMemoryLimits_v1_st {
  const char        *nameSpace;
  unsigned long long softLimit, hardLimit, currentUsed;
} nvmlGetMemoryLimits_v1_t;

typedef struct nvmlGpuInstance_st     *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;
#define NVML_GPU_INSTANCE_PROFILE_COUNT 0x12
#define NVML_COMPUTE_INSTANCE_PROFILE_COUNT 9
typedef struct nvmlGpuInstancePlacement_st {
  unsigned int start, size;
} nvmlGpuInstancePlacement_t;
typedef struct nvmlGpuInstanceProfileInfo_st {
  unsigned int       id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
  unsigned int       copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;
typedef struct nvmlGpuInstanceProfileInfo_v2_st {
  unsigned int       version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
  unsigned int       copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
  char               name[96];
} nvmlGpuInstanceProfileInfo_v2_t;
typedef struct nvmlGpuInstanceProfileInfo_v3_st {
  unsigned int       version, id, sliceCount, instanceCount, multiprocessorCount;
  unsigned int       copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
  char               name[96];
  unsigned int       capabilities;
} nvmlGpuInstanceProfileInfo_v3_t;
typedef struct nvmlGpuInstanceInfo_st {
  nvmlDevice_t               device;
  unsigned int               id, profileId;
  nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;
typedef struct nvmlComputeInstanceProfileInfo_st {
  unsigned int id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount;
  unsigned int sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;
typedef struct nvmlComputeInstancePlacement_st {
  unsigned int start, size;
} nvmlComputeInstancePlacement_t;
typedef struct nvmlComputeInstanceInfo_st {
  nvmlDevice_t                   device;
  nvmlGpuInstance_t              gpuInstance;
  unsigned int                   id, profileId;
  nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

#define NVML_GPM_METRIC_MAX 477
typedef struct nvmlGpmSample_st *nvmlGpmSample_t;
typedef struct nvmlGpmMetric_st {
  unsigned int metricId;
  nvmlReturn_t nvmlReturn;
  double       value;
  struct {
    char *shortName, *longName, *unit;
  } metricInfo;
} nvmlGpmMetric_t;
typedef struct nvmlGpmMetricsGet_st {
  unsigned int    version, numMetrics;
  nvmlGpmSample_t sample1, sample2;
  nvmlGpmMetric_t metrics[NVML_GPM_METRIC_MAX];
} nvmlGpmMetricsGet_t;
typedef struct nvmlGpmSupport_st {
  unsigned int version, isSupportedDevice;
} nvmlGpmSupport_t;

#endif  // JVGPU_SIM_CHECK_HEADERS

#define SIM_API __attribute__((visibility("default")))

#endif
