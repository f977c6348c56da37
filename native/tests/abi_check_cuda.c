// Our own declarations of the driver's structures against NVIDIA's header, where it is installed.
// Nothing to run: it compiles or it does not.

#include <cuda.h>
#include <stddef.h>

// What cuda_abi.h says, under other names, since both cannot be included together.
typedef struct {
  int type;
  int id;
} location_t;

typedef struct {
  int        type;
  int        requestedHandleTypes;
  location_t location;
} allocation_prop_t;

typedef struct {
  int        allocType;
  int        handleTypes;
  location_t location;
} pool_props_t;

typedef struct {
  unsigned int dimensions[7];
  CUstream     stream;
} launch_config_t;

_Static_assert(sizeof(CUdeviceptr) == 8 && sizeof(CUdevice) == sizeof(int) && sizeof(CUresult) == sizeof(int),
               "scalars");
_Static_assert(offsetof(CUmemAllocationProp, location) == offsetof(allocation_prop_t, location), "CUmemAllocationProp");
_Static_assert(offsetof(CUmemPoolProps, location) == offsetof(pool_props_t, location), "CUmemPoolProps");
_Static_assert(offsetof(CUmemLocation, id) == offsetof(location_t, id), "CUmemLocation");
_Static_assert(offsetof(CUlaunchConfig, hStream) == offsetof(launch_config_t, stream), "CUlaunchConfig");
_Static_assert(sizeof(CUuuid) == 16, "CUuuid");
_Static_assert(CU_MEM_LOCATION_TYPE_DEVICE == 1 && CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT == 5, "constants");
_Static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_NO_DEVICE == 100 && CUDA_ERROR_NOT_FOUND == 500, "results");
_Static_assert(CU_STREAM_CAPTURE_STATUS_NONE == 0, "capture");
