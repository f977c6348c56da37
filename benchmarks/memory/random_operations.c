// Random operations on device memory of all kinds, from several threads: what is charged must come back.
//
//   random_operations OPERATIONS THREADS SEED [nothing-launched]
//
// With `nothing-launched` no graph is, so that only memory is looked at.
// Each thread takes and gives at random, at most LIVE things at a time, then gives all back. Prints "start" when the
// context is there, and waits for a line; after the operations "done: N taken, N refused", and waits for a line again.
// Every answer must be success or out of memory; anything else ends it with 1.

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

enum { LIVE = 32, OUT_OF_MEMORY = 2, RELAXED = 2 };
#define MIB ((size_t)1 << 20)

typedef int (*call_t)();

static void *driver;
static long  taken_count, refused_count;
static int   launches_nothing;

static call_t find(const char *name)
{
  void *found = dlsym(driver, name);
  if (found == NULL) {
    fprintf(stderr, "no %s\n", name);
    exit(1);
  }
  return (call_t)found;
}

// Found once, by whoever comes first; all find the same.
#define CALL(name, ...)                  \
  ({                                     \
    static call_t call_;                 \
    call_ = call_ ? call_ : find(#name); \
    call_(__VA_ARGS__);                  \
  })

// returns: whether it was success; out of memory is not, anything else ends the program.
static int ok(int code, const char *what)
{
  if (code != 0 && code != OUT_OF_MEMORY) {
    fprintf(stderr, "%s answered %d\n", what, code);
    exit(1);
  }
  return code == 0;
}
#define OK(name, ...) ok(CALL(name, __VA_ARGS__), #name)

typedef struct thing_s {
  int       kind;  // 0 = none
  size_t    bytes;
  pointer_t a, b;
} thing_t;

typedef struct worker_s {
  pthread_t thread;
  uint64_t  random;
  long      operations;
  long      taken, refused;
  void     *context, *stream, *pool;
  thing_t   things[LIVE];
} worker_t;

static uint64_t next_random(worker_t *worker)
{
  worker->random ^= worker->random << 13;
  worker->random ^= worker->random >> 7;
  worker->random ^= worker->random << 17;
  return worker->random;
}

// A CUmemAllocationProp of device 0, a CUDA_ARRAY3D_DESCRIPTOR.
static const int allocation[8] = {1, 0, 1, 0};

typedef struct shape_s {
  size_t       width, height, depth;
  int          format;
  unsigned int channels, flags;
} shape_t;

enum { PLAIN = 1, PITCHED, MANAGED, ASYNC, POOLED, CREATED, MAPPED, ARRAY, MIPMAP, GRAPH, FREED_LATE, KINDS };

static int take_mapped(thing_t *thing)
{
  if (!OK(cuMemCreate, &thing->b, thing->bytes, allocation, 0ull)) {
    return 0;
  }
  const int is_there = OK(cuMemAddressReserve, &thing->a, thing->bytes, (size_t)0, (pointer_t)0, 0ull) &&
                       OK(cuMemMap, thing->a, thing->bytes, (size_t)0, thing->b, 0ull);
  OK(cuMemRelease, thing->b);
  return is_there;
}

static int take_graph(worker_t *worker, thing_t *thing)
{
  node_t node = {.bytes = thing->bytes};
  void  *graph, *exec, *made;
  memcpy(node.pool, pool_of_device, sizeof node.pool);
  OK(cuGraphCreate, &graph, 0u);
  if (!OK(cuGraphAddMemAllocNode, &made, graph, NULL, (size_t)0, &node)) {
    OK(cuGraphDestroy, graph);
    return 0;
  }
  OK(cuGraphInstantiateWithFlags, &exec, graph, 0ull);
  const int is_taken = OK(cuGraphLaunch, exec, worker->stream);
  OK(cuStreamSynchronize, worker->stream);
  OK(cuGraphExecDestroy, exec);
  thing->a = node.address;
  thing->b = (pointer_t)(uintptr_t)graph;
  if (!is_taken) {
    OK(cuGraphDestroy, graph);
  }
  return is_taken;
}

static int take(worker_t *worker, thing_t *thing)
{
  size_t        pitch;
  const shape_t shape = {.width = 4096, .height = thing->bytes >> 16, .format = 0x20, .channels = 4};
  switch (thing->kind) {
    case PITCHED: return OK(cuMemAllocPitch_v2, &thing->a, &pitch, (size_t)5000, thing->bytes / 5000, 4u);
    case MANAGED: return OK(cuMemAllocManaged, &thing->a, thing->bytes, 1u);
    case ASYNC: return OK(cuMemAllocAsync, &thing->a, thing->bytes, worker->stream);
    case POOLED: return OK(cuMemAllocFromPoolAsync, &thing->a, thing->bytes, worker->pool, worker->stream);
    case CREATED: return OK(cuMemCreate, &thing->a, thing->bytes, allocation, 0ull);
    case MAPPED: return take_mapped(thing);
    case ARRAY: return OK(cuArray3DCreate_v2, &thing->a, &shape);
    case MIPMAP: return OK(cuMipmappedArrayCreate, &thing->a, &shape, 4u);
    case GRAPH: return take_graph(worker, thing);
    default: return OK(cuMemAlloc_v2, &thing->a, thing->bytes);
  }
}

static void give(worker_t *worker, thing_t *thing)
{
  switch (thing->kind) {
    case ASYNC:
    case POOLED:
    case FREED_LATE: OK(cuMemFreeAsync, thing->a, worker->stream); break;
    case CREATED: OK(cuMemRelease, thing->a); break;
    case MAPPED:
      OK(cuMemUnmap, thing->a, thing->bytes);
      OK(cuMemAddressFree, thing->a, thing->bytes);
      break;
    case ARRAY: OK(cuArrayDestroy, (void *)(uintptr_t)thing->a); break;
    case MIPMAP: OK(cuMipmappedArrayDestroy, (void *)(uintptr_t)thing->a); break;
    case GRAPH:
      OK(cuMemFree_v2, thing->a);
      OK(cuGraphDestroy, (void *)(uintptr_t)thing->b);
      break;
    default: OK(cuMemFree_v2, thing->a);
  }
  thing->kind = 0;
}

static void step(worker_t *worker)
{
  const uint64_t random = next_random(worker);
  thing_t       *thing = &worker->things[random % LIVE];
  if (thing->kind != 0) {
    give(worker, thing);
    return;
  }
  // Mostly small, now and then more than a slice has beside the others.
  const size_t blocks = (random >> 8) % 64 == 0 ? 512 : 1 + (random >> 16) % 8;
  thing->kind = 1 + (int)((random >> 24) % (KINDS - 1));
  thing->kind = thing->kind == GRAPH && launches_nothing ? PLAIN : thing->kind;
  thing->bytes = blocks * 2 * MIB;
  if (take(worker, thing)) {
    worker->taken++;
  } else {
    worker->refused++;
    thing->kind = 0;
  }
}

static void *work(void *argument)
{
  worker_t *worker = argument;
  OK(cuCtxSetCurrent, worker->context);
  OK(cuStreamCreate, &worker->stream, 1u);
  OK(cuMemPoolCreate, &worker->pool, pool_of_device);
  for (long i = 0; i < worker->operations; i++) {
    step(worker);
  }
  for (int i = 0; i < LIVE; i++) {
    if (worker->things[i].kind != 0) {
      give(worker, &worker->things[i]);
    }
  }
  OK(cuStreamSynchronize, worker->stream);
  OK(cuMemPoolDestroy, worker->pool);
  return NULL;
}

int main(int count, char **words)
{
  static worker_t workers[64];
  char            line[16];
  void           *context, *pool;
  launches_nothing = count == 5 && strcmp(words[4], "nothing-launched") == 0;
  if (count != 4 + launches_nothing || (driver = dlopen("libcuda.so.1", RTLD_NOW)) == NULL) {
    fprintf(stderr, "usage: random_operations OPERATIONS THREADS SEED [nothing-launched]\n");
    return 2;
  }
  const long operations = atol(words[1]);
  const int  threads = atoi(words[2]) < 64 ? atoi(words[2]) : 64;
  OK(cuInit, 0u);
  OK(cuDevicePrimaryCtxRetain, &context, 0);
  OK(cuCtxSetCurrent, context);
  puts("start");
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) {
    return 2;
  }
  for (int i = 0; i < threads; i++) {
    workers[i].random = (uint64_t)atol(words[3]) * 1000003u + (uint64_t)i + 1;
    workers[i].operations = operations / threads;
    workers[i].context = context;
    pthread_create(&workers[i].thread, NULL, work, &workers[i]);
  }
  for (int i = 0; i < threads; i++) {
    pthread_join(workers[i].thread, NULL);
    taken_count += workers[i].taken;
    refused_count += workers[i].refused;
  }
  OK(cuCtxSynchronize);
  OK(cuDeviceGetDefaultMemPool, &pool, 0);
  OK(cuMemPoolTrimTo, pool, (size_t)0);
  OK(cuDeviceGraphMemTrim, 0);
  printf("done: %ld taken, %ld refused\n", taken_count, refused_count);
  fflush(stdout);
  return fgets(line, sizeof line, stdin) == NULL;
}
