// As abi.c, for NVML.

#include <stddef.h>

#include "nvml_abi.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field)

SIZE(nvmlPciInfo_t, 68);
AT(nvmlPciInfo_t, busId, 36);
SIZE(nvmlMemory_t, 24);
SIZE(nvmlMemory_v2_t, 40);
SIZE(nvmlBAR1Memory_t, 24);
SIZE(nvmlProcessInfo_v1_t, 16);
SIZE(nvmlProcessInfo_v2_t, 24);
SIZE(nvmlUtilization_t, 8);
SIZE(nvmlProcessUtilizationSample_t, 32);
SIZE(nvmlDeviceAttributes_t, 40);
SIZE(nvmlEventData_t, 32);
SIZE(nvmlGetMemoryLimits_v1_t, 32);
SIZE(nvmlGpmMetric_t, 40);
AT(nvmlGpmMetricsGet_t, metrics, 24);
SIZE(nvmlGpuInstanceProfileInfo_t, 48);
SIZE(nvmlGpuInstanceProfileInfo_v2_t, 152);
SIZE(nvmlGpuInstanceProfileInfo_v3_t, 152);
SIZE(nvmlGpuInstanceInfo_t, 24);
SIZE(nvmlComputeInstanceProfileInfo_t, 36);
SIZE(nvmlComputeInstanceInfo_t, 32);
