// Launches: they take the time the function's name says, and some functions really compute.
//
// A launch of `sim_null` takes no time, no lock and no clock: what it costs is what stands before it.

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "graph.h"

static CUresult check_shape(CUfunction function, const unsigned int grid[3], const unsigned int block[3],
                            unsigned int shared_bytes)
{
  enum { SHARED_BYTES = 49152, MOST_SHARED = 8 };  // without asking for more by cuFuncSetAttribute
  if (function == NULL || function->magic != SIM_FUNCTION_MAGIC) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  const bool     ok = grid[0] != 0 && grid[1] != 0 && grid[2] != 0 && threads != 0 && threads <= 1024 &&
                      grid[0] <= 2147483647u && grid[1] <= 65535u && grid[2] <= 65535u &&
                      (shared_bytes <= SHARED_BYTES || (int)shared_bytes <= function->attributes[MOST_SHARED]);
  return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// What the launch takes: the time the function's name says while all blocks fit on the board at once, and as often
// again as it takes for them to have had their place. Launches of one stream follow each other with a gap in which
// no SM works.
// source: the gap, from what several processes gain under MPS on an H200, docs/simulated-board.md
static sim_cost_t cost_of(uint64_t duration_ns, uint64_t blocks, uint64_t threads, CUcontext context)
{
  enum { GAP_NS = 2000 };
  const sim_board_t *board = sim_board(context->device);
  const uint64_t     sms = context->sm_count;
  const uint64_t     by_threads = board->threads_per_sm / threads;
  const uint64_t per_sm = by_threads < 1 ? 1 : by_threads < board->blocks_per_sm ? by_threads : board->blocks_per_sm;
  const uint64_t at_once = (blocks < board->sm_count * per_sm ? blocks : board->sm_count * per_sm);
  const uint64_t waves = (blocks + board->sm_count * per_sm - 1) / (board->sm_count * per_sm);
  // Fewer SMs than the board has, by MPS or MIG: the blocks wait for each other.
  const uint64_t fits = sms * per_sm;
  const uint64_t gap = duration_ns > GAP_NS ? GAP_NS : 0;
  const uint64_t busy = (duration_ns - gap) * waves * (at_once > fits ? at_once : fits) / fits;
  const uint64_t used = blocks < sms ? blocks : sms;
  return (sim_cost_t){.duration_ns = gap + busy,
                      .sm_ns = busy * used / board->sm_count,
                      .sm_groups = (uint32_t)((used * SIM_SM_GROUPS + sms - 1) / sms)};
}

static inline void submit(CUfunction function, const unsigned int grid[3], const unsigned int block[3], CUstream stream)
{
  if (function->duration_ns != 0) {
    const sim_cost_t cost = cost_of(function->duration_ns, (uint64_t)grid[0] * grid[1] * grid[2],
                                    (uint64_t)block[0] * block[1] * block[2], stream->context);
    sim_submit_launch(stream, &cost);
  }
}

CUresult sim_kernel_run(const sim_kernel_work_t *kernel, CUstream stream)
{
  if (kernel->function->body != NULL) {
    const uint64_t threads = (uint64_t)kernel->grid[0] * kernel->grid[1] * kernel->grid[2] * kernel->block[0] *
                             kernel->block[1] * kernel->block[2];
    const CUresult result =
        kernel->params == NULL ? CUDA_ERROR_INVALID_VALUE : kernel->function->body(kernel->params, threads);
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  submit(kernel->function, kernel->grid, kernel->block, stream);
  return CUDA_SUCCESS;
}

// source: CUDA Driver API 13.0, cuLaunchKernel, `extra`: pairs of a key and a value, ended by key 0
static const char *packed_params(void **extra, size_t *bytes)
{
  const char *buffer = NULL;
  *bytes = 0;
  for (size_t i = 0; extra != NULL && extra[i] != (void *)0; i += 2) {
    if (extra[i] == (void *)1) {
      buffer = extra[i + 1];
    } else if (extra[i] == (void *)2) {
      *bytes = *(size_t *)extra[i + 1];
    }
  }
  return buffer;
}

void **sim_params_copy(CUfunction function, void **params, void **extra)
{
  const unsigned int count = function->param_count;
  size_t             packed_bytes;
  const char        *packed = params == NULL ? packed_params(extra, &packed_bytes) : NULL;
  if (params == NULL && packed == NULL) {
    return NULL;
  }
  // Pointers first, then the values, eight bytes each, in one block.
  void **copy = calloc(count, sizeof *copy + sizeof(uint64_t));
  size_t offset = 0;
  for (unsigned int i = 0; i < count && copy != NULL; i++) {
    const size_t size = function->param_sizes[i];
    copy[i] = (char *)(copy + count) + i * sizeof(uint64_t);
    if (packed != NULL) {
      offset = (offset + size - 1) / size * size;
      if (offset + size > packed_bytes) {
        free(copy);
        return NULL;
      }
      memcpy(copy[i], packed + offset, size);
      offset += size;
    } else {
      memcpy(copy[i], params[i], size);
    }
  }
  return copy;
}

static CUresult launch_with_body(sim_kernel_work_t *kernel, void **extra, CUstream stream)
{
  void **copy = sim_params_copy(kernel->function, kernel->params, extra);
  if (copy == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  kernel->params = copy;
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_KERNEL, .of.kernel = *kernel};
  const CUresult   result = sim_stream_do(stream, &work);
  free(copy);
  return result;
}

static CUresult launch_slowly(sim_kernel_work_t *kernel, void **extra, CUstream stream)
{
  if (kernel->function->body != NULL) {
    return launch_with_body(kernel, extra, stream);
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_KERNEL, .of.kernel = *kernel};
  return sim_stream_do(stream, &work);
}

static inline CUresult launch(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                              unsigned int block_x, unsigned int block_y, unsigned int block_z,
                              unsigned int shared_bytes, CUstream handle, void **params, void **extra, sim_face_t face)
{
  const unsigned int grid[3] = {grid_x, grid_y, grid_z};
  const unsigned int block[3] = {block_x, block_y, block_z};
  CUstream           stream;
  CUresult           result = sim_stream_of(handle, face, &stream);
  if (result == CUDA_SUCCESS) {
    result = check_shape(function, grid, block, shared_bytes);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (function->body == NULL && atomic_load_explicit(&sim_captures, memory_order_relaxed) == 0) {
    submit(function, grid, block, stream);
    return CUDA_SUCCESS;
  }
  sim_kernel_work_t kernel = {.function = function,
                              .grid = {grid_x, grid_y, grid_z},
                              .block = {block_x, block_y, block_z},
                              .shared_bytes = shared_bytes,
                              .params = params};
  return launch_slowly(&kernel, extra, stream);
}

SIM_TWINS(cuLaunchKernel, ptsz,
          (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
           unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params,
           void **extra),
          launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, extra,
                 face))
SIM_TWINS(cuLaunchCooperativeKernel, ptsz,
          (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
           unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params),
          launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, NULL, face))
SIM_TWINS(cuLaunchKernelEx, ptsz, (const CUlaunchConfig *config, CUfunction function, void **params, void **extra),
          config == NULL ? CUDA_ERROR_INVALID_VALUE
                         : launch(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                                  config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, params,
                                  extra, face))
