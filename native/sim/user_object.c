// User objects: what the host needs as long as a graph may use it. Callers and graphs hold references; with the last of
// them its destructor is called.
//
// source: CUDA C++ Programming Guide 13.0, "CUDA User Objects"

#include <limits.h>
#include <stdlib.h>

#include "driver.h"
#include "graph.h"

#define OBJECT_MAGIC 0x55534552u

struct CUuserObject_st {
  uint32_t magic;
  uint64_t callers;  // references that callers hold
  uint64_t graphs;  // that graphs hold
  CUhostFn destroy;
  void    *user_data;
};

struct sim_held_s {
  CUuserObject object;
  uint64_t     count;
  sim_held_t  *next;
};

static bool is_count(unsigned int count)
{
  return count > 0 && count <= INT_MAX;
}

static CUresult check(CUuserObject object, unsigned int count)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  return object != NULL && object->magic == OBJECT_MAGIC && is_count(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The destructor may want what the caller holds now, so another thread calls it: behind the host functions of launches.
// pre: sim_lock held
static void let_go(CUuserObject object)
{
  if (object->callers == 0 && object->graphs == 0) {
    sim_host_run_later(object->destroy, object->user_data);
    object->magic = SIM_DEAD_MAGIC;
    free(object);
  }
}

// returns: where the graph's hold on the object is kept; the end of its list when it has none
static sim_held_t **find(CUgraph graph, CUuserObject object)
{
  sim_held_t **place = &graph->held;
  while (*place != NULL && (*place)->object != object) {
    place = &(*place)->next;
  }
  return place;
}

// returns: false when memory is short
static bool hold(CUgraph graph, CUuserObject object, uint64_t count)
{
  sim_held_t **place = find(graph, object);
  if (*place == NULL) {
    *place = calloc(1, sizeof **place);
    if (*place == NULL) {
      return false;
    }
    (*place)->object = object;
  }
  (*place)->count += count;
  object->graphs += count;
  return true;
}

bool sim_objects_share(CUgraph clone, CUgraph graph)
{
  for (const sim_held_t *held = graph->held; held != NULL; held = held->next) {
    if (!hold(clone, held->object, held->count)) {
      return false;
    }
  }
  return true;
}

static void drop(sim_held_t **place, uint64_t count)
{
  sim_held_t  *held = *place;
  CUuserObject object = held->object;
  held->count -= count;
  object->graphs -= count;
  if (held->count == 0) {
    *place = held->next;
    free(held);
  }
  let_go(object);
}

void sim_objects_drop(CUgraph graph)
{
  while (graph->held != NULL) {
    drop(&graph->held, graph->held->count);
  }
}

SIM_API CUresult cuUserObjectCreate(CUuserObject *out, void *user_data, CUhostFn destroy, unsigned int count,
                                    unsigned int flags)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (out == NULL || destroy == NULL || !is_count(count) || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUuserObject object = calloc(1, sizeof *object);
  if (object == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *object =
      (struct CUuserObject_st){.magic = OBJECT_MAGIC, .callers = count, .destroy = destroy, .user_data = user_data};
  *out = object;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
  const CUresult result = check(object, count);
  if (result == CUDA_SUCCESS) {
    pthread_mutex_lock(&sim_lock);
    object->callers += count;
    pthread_mutex_unlock(&sim_lock);
  }
  return result;
}

SIM_API CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
  const CUresult result = check(object, count);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  const bool has_them = object->callers >= count;
  if (has_them) {
    object->callers -= count;
    let_go(object);
  }
  pthread_mutex_unlock(&sim_lock);
  return has_them ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
  CUresult result = check(object, count);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (graph == NULL || graph->magic != SIM_GRAPH_MAGIC || flags > CU_GRAPH_USER_OBJECT_MOVE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t moved = flags == CU_GRAPH_USER_OBJECT_MOVE ? count : 0;
  pthread_mutex_lock(&sim_lock);
  if (object->callers < moved) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else if (!hold(graph, object, count)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    object->callers -= moved;
  }
  pthread_mutex_unlock(&sim_lock);
  return result;
}

SIM_API CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
  const CUresult result = check(object, count);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (graph == NULL || graph->magic != SIM_GRAPH_MAGIC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  sim_held_t **place = find(graph, object);
  const bool   has_them = *place != NULL && (*place)->count >= count;
  if (has_them) {
    drop(place, count);
  }
  pthread_mutex_unlock(&sim_lock);
  return has_them ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
