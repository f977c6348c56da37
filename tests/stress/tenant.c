// A program that allocates and frees in every way, launches, and asks, until its time is over or it is killed.
//
//   tenant SECONDS SEED PAUSE_US [PROGRESS_FILE INDEX]      SECONDS 0 = for ever
//
// Counts what it has done, and the longest single call in nanoseconds, in its two places of the file.
// Prints "COUNT SLOWEST_NS" at its end. Ends with 1 on any answer that neither a well board nor a full
// slice would give.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long address_t;
typedef struct {
  int                type;
  int                handle_types;
  int                location_type;
  int                location_id;
  void              *meta;
  unsigned long long flags;
} allocation_t;

int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **ctx, int device);
int cuCtxSetCurrent(void *ctx);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(address_t *address, size_t bytes);
int cuMemAllocPitch_v2(address_t *address, size_t *pitch, size_t width, size_t height, unsigned int element);
int cuMemAllocManaged(address_t *address, size_t bytes, unsigned int flags);
int cuMemFree_v2(address_t address);
int cuStreamCreate(void **stream, unsigned int flags);
int cuStreamSynchronize(void *stream);
int cuMemAllocAsync(address_t *address, size_t bytes, void *stream);
int cuMemFreeAsync(address_t address, void *stream);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemCreate(address_t *handle, size_t bytes, const allocation_t *what, unsigned long long flags);
int cuMemRelease(address_t handle);
int cuMemAddressReserve(address_t *address, size_t bytes, size_t alignment, address_t wanted, unsigned long long flags);
int cuMemAddressFree(address_t address, size_t bytes);
int cuMemMap(address_t address, size_t bytes, size_t offset, address_t handle, unsigned long long flags);
int cuMemUnmap(address_t address, size_t bytes);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                   unsigned int bz, unsigned int shared, void *stream, void **parameters, void **extra);
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *infos);

enum { OUT_OF_MEMORY = 2, BLOCKS = 8, BLOCK_BYTES = 2 << 20, LARGEST = 24 << 20 };

static struct {
  void     *stream;
  void     *function;
  void     *device;
  address_t plain[BLOCKS];
  address_t pooled[BLOCKS];
} tenant;

static void expect(const char *what, int result, int also)
{
  if (result != 0 && result != also) {
    fprintf(stderr, "tenant: %s says %d\n", what, result);
    _exit(1);
  }
}

#define MUST(call) expect(#call, call, 0)

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void start(void)
{
  void *ctx;
  void *module;
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&ctx, 0));
  MUST(cuCtxSetCurrent(ctx));
  MUST(cuStreamCreate(&tenant.stream, 1));
  MUST(cuModuleLoadData(&module, "any text"));
  MUST(cuModuleGetFunction(&tenant.function, module, "sim_busy_20us"));
  MUST(nvmlInit_v2());
  MUST(nvmlDeviceGetHandleByIndex_v2(0, &tenant.device));
}

static void swap_plain(int place, int kind)
{
  size_t       pitch;
  address_t   *block = &tenant.plain[place];
  const size_t bytes = (size_t)(random() % LARGEST + 1);
  if (*block != 0) {
    MUST(cuMemFree_v2(*block));
    *block = 0;
  } else if (kind == 0) {
    expect("cuMemAlloc", cuMemAlloc_v2(block, bytes), OUT_OF_MEMORY);
  } else if (kind == 1) {
    expect("cuMemAllocPitch", cuMemAllocPitch_v2(block, &pitch, bytes / 64 + 1, 64, 4), OUT_OF_MEMORY);
  } else {
    expect("cuMemAllocManaged", cuMemAllocManaged(block, bytes, 1), OUT_OF_MEMORY);
  }
}

static void swap_pooled(int place)
{
  address_t *block = &tenant.pooled[place];
  if (*block != 0) {
    MUST(cuMemFreeAsync(*block, tenant.stream));
    *block = 0;
  } else {
    expect("cuMemAllocAsync", cuMemAllocAsync(block, (size_t)(random() % LARGEST + 1), tenant.stream), OUT_OF_MEMORY);
  }
}

static void map_and_unmap(void)
{
  const allocation_t what = {.type = 1, .location_type = 1};
  address_t          handle;
  address_t          address;
  const int          result = cuMemCreate(&handle, BLOCK_BYTES, &what, 0);
  expect("cuMemCreate", result, OUT_OF_MEMORY);
  if (result == 0) {
    MUST(cuMemAddressReserve(&address, BLOCK_BYTES, 0, 0, 0));
    MUST(cuMemMap(address, BLOCK_BYTES, 0, handle, 0));
    MUST(cuMemRelease(handle));
    MUST(cuMemUnmap(address, BLOCK_BYTES));
    MUST(cuMemAddressFree(address, BLOCK_BYTES));
  }
}

static void ask(void)
{
  size_t       free_bytes;
  size_t       total_bytes;
  unsigned int count = 0;
  MUST(cuMemGetInfo_v2(&free_bytes, &total_bytes));
  expect("nvml", nvmlDeviceGetComputeRunningProcesses_v3(tenant.device, &count, NULL), 7);
}

static void launch(void)
{
  MUST(cuLaunchKernel(tenant.function, 1, 1, 1, 1, 1, 1, 0, tenant.stream, NULL, NULL));
  MUST(cuStreamSynchronize(tenant.stream));
}

static void one_thing(void)
{
  const int place = (int)(random() % BLOCKS);
  switch (random() % 8) {
    case 0: swap_plain(place, 0); break;
    case 1: swap_plain(place, 1); break;
    case 2: swap_plain(place, 2); break;
    case 3:
    case 4: swap_pooled(place); break;
    case 5: map_and_unmap(); break;
    case 6: ask(); break;
    default: launch();
  }
}

static uint64_t *places_in(const char *file, const char *index)
{
  static uint64_t nowhere[2];
  if (file == NULL) {
    return nowhere;
  }
  const int fd = open(file, O_RDWR | O_CLOEXEC);
  void     *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  expect("mmap", page == MAP_FAILED, 0);
  return (uint64_t *)page + 2 * strtoul(index, NULL, 10);
}

int main(int argc, char **argv)
{
  const uint64_t begun_ns = now_ns();
  if (argc < 4) {
    return 2;
  }
  const double seconds = strtod(argv[1], NULL);
  srandom((unsigned int)strtoul(argv[2], NULL, 10));
  const useconds_t pause_us = (useconds_t)strtoul(argv[3], NULL, 10);
  uint64_t        *place = places_in(argc > 5 ? argv[4] : NULL, argc > 5 ? argv[5] : NULL);

  start();
  while (seconds == 0 || (double)(now_ns() - begun_ns) < seconds * 1e9) {
    const uint64_t asked_ns = now_ns();
    one_thing();
    const uint64_t took_ns = now_ns() - asked_ns;
    place[1] = took_ns > place[1] ? took_ns : place[1];
    place[0] += 1;
    usleep(pause_us);
  }
  for (int i = 0; i < BLOCKS; i++) {
    if (tenant.plain[i] != 0) {
      MUST(cuMemFree_v2(tenant.plain[i]));
    }
    if (tenant.pooled[i] != 0) {
      MUST(cuMemFreeAsync(tenant.pooled[i], tenant.stream));
    }
  }
  MUST(cuCtxSynchronize());
  printf("%llu %llu\n", (unsigned long long)place[0], (unsigned long long)place[1]);
  return 0;
}
