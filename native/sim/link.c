// The linker: takes any pieces, and completes to an image that cuModuleLoadData takes.

#include <stdlib.h>

#include "driver.h"

#define LINK_MAGIC 0x4c494e4bu

struct CUlinkState_st {
  uint32_t magic;
  size_t   pieces;
};

static const char image[] = "// linked by the simulated driver\n";

SIM_API CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
  (void)count;
  (void)options;
  (void)values;
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS || out == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  *out = calloc(1, sizeof **out);
  if (*out == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  (*out)->magic = LINK_MAGIC;
  return CUDA_SUCCESS;
}

static bool is_link(CUlinkState state)
{
  return state != NULL && state->magic == LINK_MAGIC;
}

SIM_API CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType kind, void *data, size_t bytes, const char *name,
                                  unsigned int count, CUjit_option *options, void **values)
{
  (void)kind;
  (void)name;
  (void)count;
  (void)options;
  (void)values;
  if (!is_link(state) || data == NULL || bytes == 0) {
    return is_link(state) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  state->pieces++;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuLinkComplete(CUlinkState state, void **cubin, size_t *bytes)
{
  if (!is_link(state) || cubin == NULL || state->pieces == 0) {
    return is_link(state) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  *cubin = (void *)(uintptr_t)image;
  if (bytes != NULL) {
    *bytes = sizeof image;
  }
  return CUDA_SUCCESS;
}

SIM_API CUresult cuLinkDestroy(CUlinkState state)
{
  if (!is_link(state)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  state->magic = SIM_DEAD_MAGIC;
  free(state);
  return CUDA_SUCCESS;
}
