// Our own declarations of NVML's structures against NVIDIA's header, where it is installed.
// Nothing to run: it compiles or it does not.

#include <nvml.h>
#include <stddef.h>

#define SAME(type, bytes, member, at) _Static_assert(sizeof(type) == (bytes) && offsetof(type, member) == (at), #type)

SAME(nvmlMemory_t, 24, used, 16);
SAME(nvmlMemory_v2_t, 40, used, 32);
SAME(nvmlProcessInfo_v1_t, 16, usedGpuMemory, 8);
SAME(nvmlProcessInfo_v2_t, 24, pid, 0);
SAME(nvmlProcessDetail_v1_t, 32, pid, 0);
SAME(nvmlProcessDetailList_t, 24, procArray, 16);
SAME(nvmlEncoderSessionInfo_t, 32, pid, 4);
SAME(nvmlFBCSessionInfo_t, 48, pid, 4);
SAME(nvmlUtilization_t, 8, memory, 4);
SAME(nvmlProcessUtilizationSample_t, 32, pid, 0);
SAME(nvmlProcessUtilizationInfo_v1_t, 40, pid, 8);
SAME(nvmlProcessesUtilizationInfo_t, 24, procUtilArray, 16);
_Static_assert(offsetof(nvmlAccountingStats_v2_t, pid) == 0, "nvmlAccountingStats_v2_t");
_Static_assert(sizeof(nvmlSamplingType_t) == sizeof(int) && sizeof(nvmlGpuTopologyLevel_t) == sizeof(int),
               "enumerations");
_Static_assert(NVML_GPU_UTILIZATION_SAMPLES == 1 && NVML_MEMORY_UTILIZATION_SAMPLES == 2, "samples");
_Static_assert(NVML_ERROR_NOT_SUPPORTED == 3 && NVML_ERROR_NO_PERMISSION == 4 && NVML_ERROR_NOT_FOUND == 6, "results");
_Static_assert(NVML_DEVICE_UUID_V2_BUFFER_SIZE == 96, "sizes");
