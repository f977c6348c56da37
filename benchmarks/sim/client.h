// What the clients of `make sim-facts` share: the driver API, a device function of known length, a clock.
//
// The same source runs on a GPU: the module is real PTX, whose loop takes about as long as the function's name says
// on an H200 at full occupancy. A simulated board goes by the name alone.

#ifndef JVGPU_FACTS_CLIENT_H
#define JVGPU_FACTS_CLIENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Our own declarations of what is used; the interface is NVIDIA's (CUDA Driver API 13.0).
typedef struct CUctx_st    *CUcontext;
typedef struct CUmod_st    *CUmodule;
typedef struct CUfunc_st   *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st  *CUevent;
typedef unsigned long long  CUdeviceptr;
typedef int                 CUdevice;

int cuInit(unsigned int flags);
int cuDeviceGet(CUdevice *device, int ordinal);
int cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
int cuCtxSetCurrent(CUcontext context);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuModuleLoadData(CUmodule *module, const void *image);
int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
int cuStreamCreate(CUstream *stream, unsigned int flags);
int cuStreamSynchronize(CUstream stream);
int cuEventCreate(CUevent *event, unsigned int flags);
int cuEventRecord(CUevent event, CUstream stream);
int cuEventSynchronize(CUevent event);
int cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
int cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                   unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                   CUstream stream, void **params, void **extra);

enum { CLIENT_THREADS = 256, CLIENT_NON_BLOCKING = 1, CLIENT_NO_TIMING = 2 };

#define MUST(call)                                                                \
  do {                                                                            \
    const int must_result = (call);                                               \
    if (must_result != 0) {                                                       \
      fprintf(stderr, "%s:%d: CUDA error %d\n", __FILE__, __LINE__, must_result); \
      _exit(1);                                                                   \
    }                                                                             \
  } while (0)

static inline int client_setting(const char *name, int otherwise)
{
  const char *text = getenv(name);
  return text == NULL ? otherwise : atoi(text);
}

// Seconds of the board's clock, which SLOWDOWN makes slower than the machine's (jupyter_vgpu.sim.create_boards).
static inline double client_now(void)
{
  static int      slowdown;
  struct timespec now;
  slowdown = slowdown == 0 ? client_setting("SLOWDOWN", 1) : slowdown;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return ((double)now.tv_sec + 1e-9 * (double)now.tv_nsec) / slowdown;
}

// A process that another one wakes runs again some 80 us later on the host of the GPU. Where the board's clock is slow,
// that is as much less of its time: this makes up for it.
static inline void client_woken(void)
{
  const int slowdown = client_setting("SLOWDOWN", 1);
  if (slowdown > 1) {
    usleep((useconds_t)(80 * (slowdown - 1)));
  }
}

static inline void client_sleep(double seconds)
{
  usleep((useconds_t)(seconds * 1e6 * client_setting("SLOWDOWN", 1)));
}

typedef struct client_s {
  CUstream    stream;
  CUfunction  function;
  CUdeviceptr out;
  int         iterations;
  int         blocks;
} client_t;

// A loop of `iterations` pairs of multiply-adds in each thread.
static const char *const client_ptx =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry %s(.param .u64 out, .param .u32 iterations)\n"
    "{\n  .reg .pred %%p<3>;\n  .reg .f32 %%f<6>;\n  .reg .b32 %%r<4>;\n  .reg .b64 %%d<3>;\n"
    "  ld.param.u64 %%d1, [out];\n  ld.param.u32 %%r1, [iterations];\n"
    "  mov.u32 %%r2, %%tid.x;\n  cvt.rn.f32.u32 %%f1, %%r2;\n  add.f32 %%f2, %%f1, 0f3F800000;\n"
    "  mov.u32 %%r3, 0;\n"
    "again:\n  fma.rn.f32 %%f1, %%f1, 0f3F800347, 0f3F000000;\n  fma.rn.f32 %%f2, %%f2, 0f3F800347, 0f3F000000;\n"
    "  add.u32 %%r3, %%r3, 1;\n  setp.lt.u32 %%p1, %%r3, %%r1;\n  @%%p1 bra again;\n"
    "  add.f32 %%f3, %%f1, %%f2;\n  setp.neu.f32 %%p2, %%f3, 0f4640E6B7;\n  @%%p2 bra done;\n"
    "  cvta.to.global.u64 %%d2, %%d1;\n  st.global.f32 [%%d2], %%f1;\n"
    "done:\n  ret;\n}\n";

// FUNCTION (default sim_busy_20800ns), ITERS (1000: as long on an H200), GRID (1056: fills its 132 SMs).
static inline client_t client_start(void)
{
  client_t    client = {.iterations = client_setting("ITERS", 1000), .blocks = client_setting("GRID", 1056)};
  const char *name = getenv("FUNCTION");
  char        image[4096];
  CUdevice    device;
  CUcontext   context;
  CUmodule    module;
  name = name == NULL ? "sim_busy_20800ns" : name;
  snprintf(image, sizeof image, client_ptx, name);
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, 0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  MUST(cuMemAlloc_v2(&client.out, 1024));
  MUST(cuModuleLoadData(&module, image));
  MUST(cuModuleGetFunction(&client.function, module, name));
  MUST(cuStreamCreate(&client.stream, CLIENT_NON_BLOCKING));
  return client;
}

static inline void client_launch(client_t *client)
{
  void *params[] = {&client->out, &client->iterations};
  MUST(cuLaunchKernel(client->function, (unsigned int)client->blocks, 1, 1, CLIENT_THREADS, 1, 1, 0, client->stream,
                      params, NULL));
}

static inline void client_spin(double seconds)
{
  const double start = client_now();
  while (client_now() - start < seconds) {
  }
}

static inline void *client_shared(size_t bytes)
{
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static inline int client_compare(const void *a, const void *b)
{
  const double difference = *(const double *)a - *(const double *)b;
  return difference < 0 ? -1 : difference > 0;
}

// returns: the value below which `part` of the sorted values lie
static inline double client_quantile(const double *sorted, size_t count, double part)
{
  return count == 0 ? 0 : sorted[(size_t)(part * (double)(count - 1))];
}

#endif
