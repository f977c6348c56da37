// The linker: takes any pieces, and completes to an image that cuModuleLoadData takes. It holds the device arrays of the
// pieces that are PTX text.

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "module.h"

#define LINK_MAGIC 0x4c494e4bu

struct CUlinkState_st {
  uint32_t magic;
  size_t   pieces;
  bool     is_complete;
  char    *image;
};

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
  CUlinkState state = calloc(1, sizeof *state);
  char       *image = strdup("// linked by the simulated driver\n");
  if (state == NULL || image == NULL) {
    free(state);
    free(image);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  state->magic = LINK_MAGIC;
  state->image = image;
  *out = state;
  return CUDA_SUCCESS;
}

static bool is_link(CUlinkState state)
{
  return state != NULL && state->magic == LINK_MAGIC;
}

// Binary pieces only count.
static CUresult add(CUlinkState state, CUjitInputType kind, const char *data, size_t bytes)
{
  // The caller may hold the image by now, so it stays where it is.
  if (state->is_complete) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (kind == CU_JIT_INPUT_PTX) {
    const size_t before = strlen(state->image);
    const size_t more = strnlen(data, bytes);
    char        *longer = realloc(state->image, before + more + 2);
    if (longer == NULL) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(longer + before, data, more);
    strcpy(longer + before + more, "\n");
    state->image = longer;
  }
  state->pieces++;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType kind, void *data, size_t bytes, const char *name,
                                  unsigned int count, CUjit_option *options, void **values)
{
  (void)name;
  (void)count;
  (void)options;
  (void)values;
  if (!is_link(state) || data == NULL || bytes == 0) {
    return is_link(state) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  return add(state, kind, data, bytes);
}

SIM_API CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType kind, const char *path, unsigned int count,
                                  CUjit_option *options, void **values)
{
  (void)count;
  (void)options;
  (void)values;
  if (!is_link(state) || path == NULL) {
    return is_link(state) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  size_t bytes;
  char  *content = sim_file_read(path, &bytes);
  if (content == NULL) {
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  const CUresult result = add(state, kind, content, bytes);
  free(content);
  return result;
}

SIM_API CUresult cuLinkComplete(CUlinkState state, void **cubin, size_t *bytes)
{
  if (!is_link(state) || cubin == NULL || state->pieces == 0) {
    return is_link(state) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  state->is_complete = true;
  *cubin = state->image;
  if (bytes != NULL) {
    *bytes = strlen(state->image) + 1;
  }
  return CUDA_SUCCESS;
}

SIM_API CUresult cuLinkDestroy(CUlinkState state)
{
  if (!is_link(state)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  state->magic = SIM_DEAD_MAGIC;
  free(state->image);
  free(state);
  return CUDA_SUCCESS;
}
