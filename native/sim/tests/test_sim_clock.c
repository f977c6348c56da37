// What events say beside what the host's own clock says, and that a pause of the host is not in it.

#include <time.h>

#include "check.h"
#include "cuda_abi_graph.h"
#include "state.h"

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                        void **extra);
CUresult cuGraphCreate(CUgraph *graph, unsigned int flags);
CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                   CUevent event);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *params);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);

#define START_US 0.65  // of a launch that follows no other
#define PAIR_US 1.28   // a timing event in its stream
#define LAUNCH_US 20.0

static CUstream   stream;
static CUfunction function;
static CUevent    first;
static CUevent    last;

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double between_us(void)
{
  float milliseconds = 0;
  cuEventSynchronize(last);
  return cuEventElapsedTime(&milliseconds, first, last) == CUDA_SUCCESS ? (double)milliseconds * 1e3 : -1;
}

// One pair round one launch on an idle board, as a meter makes it.
// returns: what the pair reads beyond the host's way from the first event to the launch
static double beyond_the_host_us(void)
{
  cuStreamSynchronize(stream);
  usleep(1000);  // so that nothing is caught up from the wait before
  cuEventRecord(first, stream);
  const double begun_us = now_us();
  cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, stream, NULL, NULL);
  const double way_us = now_us() - begun_us;
  cuEventRecord(last, stream);
  return between_us() - way_us;
}

// A machine that does something else just then spoils a pair, as it would on a board: most must be good.
static void test_pairs_agree_with_the_hosts_clock(void)
{
  enum { PAIRS = 200 };
  int good = 0;
  for (int i = 0; i < PAIRS; i++) {
    const double beyond_us = beyond_the_host_us() - START_US - LAUNCH_US;
    // If the host's clock ran ahead it would be the whole way, more than 4 us.
    good += beyond_us > -2 && beyond_us < 2;
  }
  CHECK("a pair round one launch reads the host's way, the launch's start and the launch", good > PAIRS / 2);
}

static void test_graphs_reach_the_device_as_one(void)
{
  enum { LAUNCHES = 2000, TRIES = 5 };
  CUgraph                    graph;
  CUgraphExec                exec;
  CUgraphNode                node;
  CUDA_KERNEL_NODE_PARAMS_v2 params = {
      .func = function, .gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 256, .blockDimY = 1, .blockDimZ = 1};
  cuGraphCreate(&graph, 0);
  cuGraphAddEventRecordNode(&node, graph, NULL, 0, first);
  for (int i = 0; i < LAUNCHES; i++) {
    const CUgraphNode before = node;
    cuGraphAddKernelNode_v2(&node, graph, &before, 1, &params);
  }
  const CUgraphNode before = node;
  cuGraphAddEventRecordNode(&node, graph, &before, 1, last);
  CHECK("a graph with events can be made", cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  for (int i = 0; i < TRIES; i++) {
    cuGraphLaunch(exec, stream);
    const double beyond_us = between_us() - PAIR_US - START_US - LAUNCHES * LAUNCH_US;
    CHECK("no pause of the host falls between a graph's nodes", beyond_us > -5 && beyond_us < 5);
  }
}

int main(void)
{
  CUcontext context;
  CUmodule  module;
  char     *path = state_write(1, 256ull << 20);
  CHECK("the driver starts", path != NULL && cuInit(0) == CUDA_SUCCESS);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  cuModuleLoadData(&module, "// any text");
  cuModuleGetFunction(&function, module, "sim_busy_20us");
  cuStreamCreate(&stream, 1);
  cuEventCreate(&first, 0);
  cuEventCreate(&last, 0);
  test_pairs_agree_with_the_hosts_clock();
  test_graphs_reach_the_device_as_one();
  if (path != NULL) {
    unlink(path);
  }
  RESULT();
}
