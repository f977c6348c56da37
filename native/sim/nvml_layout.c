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
