// Graphs: nodes in the order in which they were added, with what each depends on.

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "graph.h"

CUgraph sim_graph_new(void)
{
  CUgraph graph = calloc(1, sizeof *graph);
  if (graph != NULL) {
    graph->magic = SIM_GRAPH_MAGIC;
  }
  return graph;
}

static void free_node(CUgraphNode node)
{
  if (node->work.kind == CU_GRAPH_NODE_TYPE_KERNEL) {
    free(node->work.of.kernel.params);
  } else if (node->work.kind == CU_GRAPH_NODE_TYPE_GRAPH) {
    sim_graph_free(node->work.of.child);
  }
  sim_graph_memory_drop(&node->work);
  node->magic = SIM_DEAD_MAGIC;
  free(node->needs);
  free(node);
}

void sim_graph_free(CUgraph graph)
{
  for (CUgraphNode node = graph->first; node != NULL;) {
    CUgraphNode next = node->next;
    free_node(node);
    node = next;
  }
  sim_objects_drop(graph);
  graph->magic = SIM_DEAD_MAGIC;
  free(graph->order);
  free(graph);
}

bool sim_node_needs(CUgraphNode node, const CUgraphNode *more, size_t count)
{
  if (count == 0) {
    return true;
  }
  CUgraphNode *needs = realloc(node->needs, (node->need_count + count) * sizeof *needs);
  if (needs == NULL) {
    return false;
  }
  memcpy(needs + node->need_count, more, count * sizeof *needs);
  node->needs = needs;
  node->need_count += count;
  return true;
}

// Takes over what the work points at: kernel parameters and a child graph are copied.
static bool own(sim_work_t *work)
{
  if (work->kind == CU_GRAPH_NODE_TYPE_KERNEL) {
    const sim_kernel_work_t *kernel = &work->of.kernel;
    if (kernel->function->body != NULL && kernel->params != NULL) {
      work->of.kernel.params = sim_params_copy(kernel->function, kernel->params, NULL);
      return work->of.kernel.params != NULL;
    }
    work->of.kernel.params = NULL;
  } else if (work->kind == CU_GRAPH_NODE_TYPE_GRAPH) {
    work->of.child = sim_graph_clone(work->of.child);
    return work->of.child != NULL;
  }
  return true;
}

CUgraphNode sim_graph_add(CUgraph graph, const CUgraphNode *needs, size_t need_count, const sim_work_t *work)
{
  CUgraphNode node = calloc(1, sizeof *node);
  if (node == NULL) {
    return NULL;
  }
  node->work = *work;
  if (!own(&node->work)) {
    free(node);
    return NULL;
  }
  sim_graph_memory_hold(&node->work);
  node->magic = SIM_NODE_MAGIC;
  node->graph = graph;
  if (!sim_node_needs(node, needs, need_count)) {
    free_node(node);
    return NULL;
  }
  if (graph->last != NULL) {
    graph->last->next = node;
  } else {
    graph->first = node;
  }
  graph->last = node;
  graph->count++;
  return node;
}

CUgraph sim_graph_clone(CUgraph graph)
{
  CUgraph clone = sim_graph_new();
  if (clone != NULL && !sim_objects_share(clone, graph)) {
    sim_graph_free(clone);
    return NULL;
  }
  for (CUgraphNode node = graph->first; node != NULL && clone != NULL; node = node->next) {
    node->copy = sim_graph_add(clone, NULL, 0, &node->work);
    if (node->copy == NULL) {
      sim_graph_free(clone);
      return NULL;
    }
    node->copy->original = node;
  }
  // A dependency may stand behind its dependent, so it is translated when all nodes are there.
  for (CUgraphNode node = graph->first; node != NULL && clone != NULL; node = node->next) {
    for (size_t i = 0; i < node->need_count; i++) {
      if (!sim_node_needs(node->copy, &node->needs[i]->copy, 1)) {
        sim_graph_free(clone);
        return NULL;
      }
    }
  }
  return clone;
}

static bool reaches(CUgraphNode from, CUgraphNode target)
{
  if (from == target) {
    return true;
  }
  if (from->mark != 0) {
    return false;
  }
  from->mark = 1;
  for (size_t i = 0; i < from->need_count; i++) {
    if (reaches(from->needs[i], target)) {
      return true;
    }
  }
  return false;
}

bool sim_graph_reaches(CUgraph graph, const CUgraphNode *from, size_t count, CUgraphNode target)
{
  for (CUgraphNode node = graph->first; node != NULL; node = node->next) {
    node->mark = 0;
  }
  for (size_t i = 0; i < count; i++) {
    if (reaches(from[i], target)) {
      return true;
    }
  }
  return false;
}

static CUresult check(CUgraph graph)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  return graph != NULL && graph->magic == SIM_GRAPH_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (graph == NULL || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *graph = sim_graph_new();
  return *graph == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuGraphDestroy(CUgraph graph)
{
  const CUresult result = check(graph);
  if (result == CUDA_SUCCESS) {
    pthread_mutex_lock(&sim_lock);
    sim_graph_free(graph);
    pthread_mutex_unlock(&sim_lock);
  }
  return result;
}

SIM_API CUresult cuGraphClone(CUgraph *clone, CUgraph graph)
{
  const CUresult result = clone == NULL ? CUDA_ERROR_INVALID_VALUE : check(graph);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&sim_lock);
  *clone = sim_graph_clone(graph);
  pthread_mutex_unlock(&sim_lock);
  return *clone == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph clone)
{
  if (found == NULL || original == NULL || check(clone) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (CUgraphNode node = clone->first; node != NULL; node = node->next) {
    if (node->original == original) {
      *found = node;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

SIM_API CUresult cuGraphDestroyNode(CUgraphNode node)
{
  if (node == NULL || node->magic != SIM_NODE_MAGIC || check(node->graph) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (node->work.kind == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->work.kind == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  pthread_mutex_lock(&sim_lock);
  CUgraph     graph = node->graph;
  CUgraphNode before = NULL;
  for (CUgraphNode each = graph->first; each != NULL; each = each->next) {
    before = each->next == node ? each : before;
    size_t kept = 0;
    for (size_t i = 0; i < each->need_count; i++) {
      if (each->needs[i] != node) {
        each->needs[kept++] = each->needs[i];
      }
    }
    each->need_count = kept;
  }
  if (before != NULL) {
    before->next = node->next;
  } else {
    graph->first = node->next;
  }
  graph->last = graph->last == node ? before : graph->last;
  graph->count--;
  free_node(node);
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}
