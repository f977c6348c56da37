// Device functions: what a name says about time. Those that compute are in body.c.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define DEFAULT_NS 2000u

// `sim_busy_<N>us` takes N microseconds, `sim_busy_<N>ns` nanoseconds, `sim_null` none, everything else two
// microseconds; each for as many blocks as the board holds at once.
static uint64_t duration_of(const char *name)
{
  unsigned long long count;
  char               unit;
  const char        *busy = strstr(name, "sim_busy_");
  if (busy != NULL && sscanf(busy, "sim_busy_%12llu%c", &count, &unit) == 2 && (unit == 'u' || unit == 'n')) {
    return unit == 'u' ? count * 1000u : count;
  }
  return strstr(name, "sim_null") != NULL ? 0 : DEFAULT_NS;
}

CUfunction sim_function_new(const char *name, CUmodule module)
{
  CUfunction function = calloc(1, sizeof *function + strlen(name) + 1);
  if (function == NULL) {
    return NULL;
  }
  function->magic = SIM_FUNCTION_MAGIC;
  function->module = module;
  strcpy(function->name, name);
  function->duration_ns = duration_of(name);
  const sim_body_t *body = sim_body_of(name);
  if (body != NULL) {
    function->body = body->run;
    function->param_sizes = body->sizes;
    function->param_count = body->count;
  }
  return function;
}

static bool is_function(CUfunction function)
{
  return function != NULL && function->magic == SIM_FUNCTION_MAGIC;
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
  enum { MAX_THREADS = 0, NUM_REGISTERS = 4, PTX_VERSION = 5, BINARY_VERSION = 6 };
  if (value == NULL || !is_function(function) || (unsigned int)attribute >= CU_FUNC_ATTRIBUTE_MAX) {
    return is_function(function) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  const sim_board_t *board = sim_board(0);
  switch ((int)attribute) {
    case MAX_THREADS: *value = 1024; break;
    case NUM_REGISTERS: *value = 32; break;
    case PTX_VERSION:
    case BINARY_VERSION: *value = (int)(board->capability_major * 10 + board->capability_minor); break;
    default: *value = function->attributes[attribute]; break;
  }
  return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction function, CUfunction_attribute attribute, int value)
{
  if (!is_function(function) || (int)attribute < 8 || (unsigned int)attribute >= CU_FUNC_ATTRIBUTE_MAX) {
    return is_function(function) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  if ((int)attribute == 8 && (value < 0 || (uint32_t)value > sim_board(0)->shared_per_block_optin_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;  // more dynamic shared memory than a block can have
  }
  function->attributes[attribute] = value;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
  const CUresult ready = sim_ready();
  return ready != CUDA_SUCCESS ? ready : get_attribute(value, attribute, function);
}

SIM_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
  const CUresult ready = sim_ready();
  return ready != CUDA_SUCCESS ? ready : set_attribute(function, attribute, value);
}

SIM_API CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
  const CUresult result = sim_check_device(device);
  return result != CUDA_SUCCESS ? result : get_attribute(value, attribute, (CUfunction)kernel);
}

SIM_API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
  const CUresult result = sim_check_device(device);
  return result != CUDA_SUCCESS ? result : set_attribute((CUfunction)kernel, attribute, value);
}

SIM_API CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
  (void)config;
  return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
  const CUresult result = sim_check_device(device);
  return result != CUDA_SUCCESS ? result : cuFuncSetCacheConfig((CUfunction)kernel, config);
}

SIM_API CUresult cuFuncGetName(const char **name, CUfunction function)
{
  if (name == NULL || !is_function(function)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *name = function->name;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
  return cuFuncGetName(name, (CUfunction)kernel);
}

SIM_API CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
  if (module == NULL || !is_function(function)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *module = function->module;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuFuncLoad(CUfunction function)
{
  return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// ---- occupancy: threads and blocks are what limits a launch here

SIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_size,
                                                                      size_t shared_bytes, unsigned int flags)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (blocks == NULL || !is_function(function) || block_size <= 0 || flags > 1) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_board_t *board = sim_board(context->device);
  uint32_t           most = block_size > 1024 ? 0 : board->threads_per_sm / (uint32_t)block_size;
  most = most > board->blocks_per_sm ? board->blocks_per_sm : most;
  if (shared_bytes > 0 && board->shared_per_sm_bytes / shared_bytes < most) {
    most = (uint32_t)(board->shared_per_sm_bytes / shared_bytes);
  }
  *blocks = (int)most;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                             size_t shared_bytes)
{
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared_bytes, 0);
}

SIM_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid_size, int *block_size, CUfunction function,
                                                           CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
                                                           unsigned int flags)
{
  if (grid_size == NULL || block_size == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int      size = limit > 0 && limit < 1024 ? limit : 1024;
  int            blocks = 0;
  const size_t   shared = shared_of != NULL ? shared_of(size) : shared_bytes;
  const CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, size, shared, flags);
  if (result == CUDA_SUCCESS) {
    CUcontext context;
    sim_current(&context);
    *block_size = size;
    *grid_size = blocks * (int)sim_board(context->device)->sm_count;
  }
  return result;
}

SIM_API CUresult cuOccupancyMaxPotentialBlockSize(int *grid_size, int *block_size, CUfunction function,
                                                  CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit)
{
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid_size, block_size, function, shared_of, shared_bytes, limit, 0);
}
