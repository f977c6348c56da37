// A client in C, linked to the simulated driver: also what the sanitizers look at.

#include <pthread.h>

#include "check.h"
#include "cuda_abi_graph.h"
#include "state.h"

#define MIB (1ull << 20)
#define BOARD_BYTES (256 * MIB)

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr dptr);
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user_data);
CUresult cuMemsetD32_v2(CUdeviceptr dptr, unsigned int value, size_t count);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                        void **extra);

static size_t free_bytes(void)
{
  size_t left = 0;
  cuMemGetInfo_v2(&left, NULL);
  return left;
}

// Random allocations and frees of both kinds; the figures must return to where they began.
static void *churn(void *argument)
{
  enum { HELD = 32, ROUNDS = 4000 };
  CUdeviceptr  held[HELD] = {0};
  bool         is_async[HELD] = {false};
  unsigned int seed = (unsigned int)(uintptr_t)argument + 1;
  CUcontext    context;
  CUstream     stream;
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  cuStreamCreate(&stream, 1);
  for (int round = 0; round < ROUNDS + HELD; round++) {
    const int at = round < ROUNDS ? rand_r(&seed) % HELD : round - ROUNDS;
    if (held[at] != 0) {
      if (is_async[at]) {
        cuMemFreeAsync(held[at], stream);
      } else {
        cuMemFree_v2(held[at]);
      }
      held[at] = 0;
    } else if (round < ROUNDS) {
      const size_t bytes = (size_t)rand_r(&seed) % (rand_r(&seed) % 8 == 0 ? 4 * MIB : 20000) + 1;
      is_async[at] = rand_r(&seed) % 2 == 0;
      if ((is_async[at] ? cuMemAllocAsync(&held[at], bytes, stream) : cuMemAlloc_v2(&held[at], bytes)) !=
          CUDA_SUCCESS) {
        held[at] = 0;
      }
    }
  }
  cuStreamSynchronize(stream);
  cuStreamDestroy_v2(stream);
  cuDevicePrimaryCtxRelease_v2(0);
  return NULL;
}

static void check_memory(void)
{
  CUdeviceptr  place;
  CUdeviceptr  other;
  const size_t before = free_bytes();
  CHECK("a context costs the board memory", before == BOARD_BYTES - 8 * MIB);
  CHECK("half the board can be had", cuMemAlloc_v2(&place, BOARD_BYTES / 2) == CUDA_SUCCESS);
  CHECK("and not again", cuMemAlloc_v2(&other, BOARD_BYTES / 2) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK("a small one still fits", cuMemAlloc_v2(&other, 100) == CUDA_SUCCESS);
  CHECK("a place inside an allocation is not freed", cuMemFree_v2(place + 4096) == CUDA_ERROR_INVALID_VALUE);
  CHECK("freeing works", cuMemFree_v2(place) == CUDA_SUCCESS && cuMemFree_v2(other) == CUDA_SUCCESS);
  CHECK("freeing twice does not", cuMemFree_v2(place) == CUDA_ERROR_INVALID_VALUE);
  CHECK("nothing remains", free_bytes() == before);
  CHECK("no bytes is an error", cuMemAlloc_v2(&place, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK("an absurd size is out of memory", cuMemAlloc_v2(&place, SIZE_MAX - 5) == CUDA_ERROR_OUT_OF_MEMORY);

  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; i++) {
    pthread_create(&threads[i], NULL, churn, (void *)i);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
  }
  cuCtxSynchronize();
  CHECK("sixteen thousand random allocations leave nothing", free_bytes() == before);
}

static void check_contexts(void)
{
  CUcontext    context;
  CUdeviceptr  place;
  const size_t before = free_bytes();
  CHECK("a second context", cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
  CHECK("costs the same again", free_bytes() == before - 8 * MIB);
  cuMemAlloc_v2(&place, 10 * MIB);
  CHECK("a context takes its memory with it", cuCtxDestroy_v2(context) == CUDA_SUCCESS && free_bytes() == before);
  CHECK("a destroyed context is refused", cuCtxSetCurrent(context) == CUDA_ERROR_INVALID_CONTEXT);
}

static void add_one(void *number)
{
  atomic_fetch_add((_Atomic int *)number, 1);
}

// Catches a bug where what a context had not done when it was destroyed had been over since the machine was started.
static void check_cut_off(void)
{
  CUcontext  context;
  CUmodule   module;
  CUfunction busy;
  CUevent    events[2];
  float      ms = 0;
  cuCtxCreate_v2(&context, 0, 0);
  cuModuleLoadData(&module, "// any text");
  cuModuleGetFunction(&busy, module, "sim_busy_20000us");
  cuEventCreate(&events[0], 0);
  cuEventCreate(&events[1], 0);
  cuEventRecord(events[0], NULL);
  cuEventSynchronize(events[0]);
  cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
  CHECK("an event after a launch", cuEventRecord(events[1], NULL) == CUDA_SUCCESS);
  CHECK("a context that has work goes", cuCtxDestroy_v2(context) == CUDA_SUCCESS);
  CHECK("its last event is not before its first",
        cuEventElapsedTime(&ms, events[0], events[1]) != CUDA_SUCCESS || ms >= 0);
}

static void check_work(void)
{
  CUmodule    module;
  CUfunction  scale;
  CUstream    stream;
  CUdeviceptr place;
  float       numbers[100];
  float       factor = 3;
  int         count = 100;
  _Atomic int calls = 0;
  cuModuleLoadData(&module, "// any text");
  cuModuleGetFunction(&scale, module, "scale");
  cuStreamCreate(&stream, 0);
  cuMemAlloc_v2(&place, sizeof numbers);
  cuMemsetD32_v2(place, 0x3f800000u, 100);  // 1.0f
  void *params[] = {&place, &factor, &count};
  CHECK("a launch", cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, stream, params, NULL) == CUDA_SUCCESS);
  CHECK("a host function", cuLaunchHostFunc(stream, add_one, &calls) == CUDA_SUCCESS);
  CHECK("a synchronised stream has called it", cuStreamSynchronize(stream) == CUDA_SUCCESS && calls == 1);
  cuMemcpyDtoH_v2(numbers, place, sizeof numbers);
  CHECK("the launch has computed", numbers[0] == 3 && numbers[99] == 3);
  CHECK("too many threads are refused",
        cuLaunchKernel(scale, 1, 1, 1, 2000, 1, 1, 0, stream, params, NULL) == CUDA_ERROR_INVALID_VALUE);
  place += 1ull << 40;
  CHECK("a wild pointer is an error, not a crash",
        cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, stream, params, NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
  cuMemFree_v2(place - (1ull << 40));
  cuStreamDestroy_v2(stream);
  cuModuleUnload(module);
}

int main(void)
{
  CUcontext   context;
  CUdeviceptr place;
  char       *path = state_write(1, BOARD_BYTES);
  CHECK("before cuInit nothing works", cuMemAlloc_v2(&place, 1) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK("the driver starts", path != NULL && cuInit(0) == CUDA_SUCCESS);
  CHECK("without a context nothing works", cuMemAlloc_v2(&place, 1) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK("the primary context", cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK("becomes current", cuCtxSetCurrent(context) == CUDA_SUCCESS);
  check_memory();
  check_contexts();
  check_cut_off();
  check_work();
  if (path != NULL) {
    unlink(path);
  }
  RESULT();
}
