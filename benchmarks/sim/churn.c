// One of many tenants that do all sorts of things until they are killed.
//
//   churn PROGRESS_FILE INDEX SEED
//
// Counts what it has done in its place of the file. Ends with 1 on any answer a well board would not give.

#include <fcntl.h>

#include "client.h"

int cuMemFree_v2(CUdeviceptr address);
int cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream);
int cuMemFreeAsync(CUdeviceptr address, CUstream stream);
int cuEventQuery(CUevent event);
int cuStreamDestroy_v2(CUstream stream);
int cuCtxSynchronize(void);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);

enum { BLOCKS = 16, OUT_OF_MEMORY = 2, NOT_READY = 600, LARGEST = 3 << 20 };

typedef struct tenant_s {
  client_t    client;
  CUstream    second;
  CUevent     events[2];
  CUdeviceptr blocks[BLOCKS];
  CUdeviceptr pooled[BLOCKS];
} tenant_t;

static void may_be(int result, int also)
{
  if (result != 0 && result != also) {
    fprintf(stderr, "churn: CUDA error %d\n", result);
    _exit(1);
  }
}

static void swap_block(tenant_t *tenant, int place)
{
  if (tenant->blocks[place] != 0) {
    MUST(cuMemFree_v2(tenant->blocks[place]));
    tenant->blocks[place] = 0;
  } else {
    may_be(cuMemAlloc_v2(&tenant->blocks[place], (size_t)(random() % LARGEST + 1)), OUT_OF_MEMORY);
  }
}

static void swap_pooled(tenant_t *tenant, int place)
{
  if (tenant->pooled[place] != 0) {
    MUST(cuMemFreeAsync(tenant->pooled[place], tenant->second));
    tenant->pooled[place] = 0;
  } else {
    may_be(cuMemAllocAsync(&tenant->pooled[place], (size_t)(random() % LARGEST + 1), tenant->second), OUT_OF_MEMORY);
  }
}

static void work(tenant_t *tenant)
{
  for (long i = random() % 20; i >= 0; i--) {
    client_launch(&tenant->client);
  }
  MUST(cuEventRecord(tenant->events[random() % 2], tenant->client.stream));
  if (random() % 2 == 0) {
    MUST(cuStreamSynchronize(tenant->client.stream));
  }
}

static void one_thing(tenant_t *tenant)
{
  const int place = (int)(random() % BLOCKS);
  size_t    free_bytes;
  size_t    total_bytes;
  switch (random() % 8) {
    case 0:
    case 1: swap_block(tenant, place); break;
    case 2:
    case 3: swap_pooled(tenant, place); break;
    case 4:
    case 5: work(tenant); break;
    case 6: may_be(cuEventQuery(tenant->events[place % 2]), NOT_READY); break;
    default:
      MUST(cuMemGetInfo_v2(&free_bytes, &total_bytes));
      if (free_bytes > total_bytes) {
        fprintf(stderr, "churn: %zu of %zu bytes free\n", free_bytes, total_bytes);
        _exit(1);
      }
      MUST(cuCtxSynchronize());
      break;
  }
}

int main(int count, char **arguments)
{
  if (count != 4) {
    fprintf(stderr, "usage: churn PROGRESS_FILE INDEX SEED\n");
    return 2;
  }
  const int fd = open(arguments[1], O_RDWR);
  uint64_t *progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || progress == MAP_FAILED) {
    return 2;
  }
  srandom((unsigned int)atoi(arguments[3]));
  tenant_t tenant = {.client = client_start()};
  MUST(cuStreamCreate(&tenant.second, CLIENT_NON_BLOCKING));
  MUST(cuEventCreate(&tenant.events[0], 0));
  MUST(cuEventCreate(&tenant.events[1], CLIENT_NO_TIMING));
  for (;;) {
    one_thing(&tenant);
    __atomic_fetch_add(&progress[atoi(arguments[2])], 1, __ATOMIC_RELAXED);
    client_sleep(1e-6 * (double)(random() % 4000));
  }
}
