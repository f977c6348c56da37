// Threads that make pools, and the memory of graphs, grow at the same moment: what the driver has reserved after that.
//
// usage: grow_at_once pools|graphs ROUNDS THREADS
// In each round all threads take 2 MiB at once, from the round's pool, or each by a graph of its own. Says "start" when
// the context is there and waits for a line; then how many bytes the driver has reserved in all, and waits for a line
// again.

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "../../benchmarks/memory/abi.h"
#include "at_once.h"

enum { MOST_ROUNDS = 120, MOST_GROWING = 8, BLOCK = 2 << 20, POOL_RESERVED = 5, GRAPH_RESERVED = 2 };

extern int cuMemPoolCreate(void **pool, const void *props);
extern int cuMemPoolGetAttribute(void *pool, int attribute, void *value);
extern int cuMemAllocFromPoolAsync(pointer_t *place, size_t bytes, void *pool, void *stream);
extern int cuGraphCreate(void **graph, unsigned flags);
extern int cuGraphAddMemAllocNode(void **made, void *graph, const void *needs, size_t count, node_t *params);
extern int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
extern int cuGraphLaunch(void *exec, void *stream);
extern int cuDeviceGetGraphMemAttribute(int device, int attribute, void *value);

static void       *pools[MOST_ROUNDS];
static int         is_graphs, rounds, threads;
static _Atomic int arrived[MOST_ROUNDS];

static void *executable(void)
{
  node_t node = {.bytes = BLOCK};
  void  *graph, *made, *exec;
  memcpy(node.pool, pool_of_device, sizeof node.pool);
  ok(cuGraphCreate(&graph, 0), "cuGraphCreate");
  ok(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &node), "cuGraphAddMemAllocNode");
  ok(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  return exec;
}

static void *work(void *unused)
{
  void     *stream = own_stream();
  pointer_t place;
  for (int round = 0; round < rounds; round++) {
    void *exec = is_graphs ? executable() : NULL;
    atomic_fetch_add(&arrived[round], 1);
    while (atomic_load(&arrived[round]) < threads) {
      sched_yield();
    }
    if (is_graphs) {
      ok(cuGraphLaunch(exec, stream), "cuGraphLaunch");
    } else {
      ok(cuMemAllocFromPoolAsync(&place, BLOCK, pools[round], stream), "cuMemAllocFromPoolAsync");
    }
  }
  return unused;
}

static uint64_t reserved(void)
{
  uint64_t all = 0, one = 0;
  if (is_graphs) {
    ok(cuDeviceGetGraphMemAttribute(0, GRAPH_RESERVED, &all), "cuDeviceGetGraphMemAttribute");
    return all;
  }
  for (int round = 0; round < rounds; round++) {
    ok(cuMemPoolGetAttribute(pools[round], POOL_RESERVED, &one), "cuMemPoolGetAttribute");
    all += one;
  }
  return all;
}

int main(int count, char **words)
{
  if (count != 4 || (rounds = atoi(words[2])) > MOST_ROUNDS || (threads = atoi(words[3])) > MOST_GROWING) {
    return 2;
  }
  is_graphs = strcmp(words[1], "graphs") == 0;
  make_context();
  for (int round = 0; !is_graphs && round < rounds; round++) {
    ok(cuMemPoolCreate(&pools[round], pool_of_device), "cuMemPoolCreate");
  }
  work_at_once(threads, work);
  say(reserved());
  return 0;
}
