// Nodes added by hand, and what a graph tells about its nodes.

#include <string.h>

#include "driver.h"
#include "graph.h"

sim_kernel_work_t sim_kernel_of(const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
  return (sim_kernel_work_t){
      .function = params->func != NULL ? params->func : (CUfunction)params->kern,
      .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
      .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
      .shared_bytes = params->sharedMemBytes,
      .params = params->kernelParams,
  };
}

static bool is_node(CUgraphNode node)
{
  return node != NULL && node->magic == SIM_NODE_MAGIC;
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs, size_t count, const sim_work_t *work)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (out == NULL || graph == NULL || graph->magic != SIM_GRAPH_MAGIC || (count > 0 && needs == NULL)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; i++) {
    if (!is_node(needs[i]) || needs[i]->graph != graph) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  pthread_mutex_lock(&sim_lock);
  *out = sim_graph_add(graph, needs, count, work);
  pthread_mutex_unlock(&sim_lock);
  return *out == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                         const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
  if (params == NULL || (params->func == NULL && params->kern == NULL)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_KERNEL, .of.kernel = sim_kernel_of(params)};
  CUresult         result = add(node, graph, needs, count, &work);
  if (result == CUDA_SUCCESS && params->kernelParams == NULL && params->extra != NULL) {
    result = sim_node_set_kernel(*node, &work.of.kernel, params->extra);
  }
  return result;
}

SIM_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
  if (!is_node(node) || params == NULL || node->work.kind != CU_GRAPH_NODE_TYPE_KERNEL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_kernel_work_t *kernel = &node->work.of.kernel;
  *params = (CUDA_KERNEL_NODE_PARAMS_v2){.func = kernel->function,
                                         .gridDimX = kernel->grid[0],
                                         .gridDimY = kernel->grid[1],
                                         .gridDimZ = kernel->grid[2],
                                         .blockDimX = kernel->block[0],
                                         .blockDimY = kernel->block[1],
                                         .blockDimZ = kernel->block[2],
                                         .sharedMemBytes = kernel->shared_bytes,
                                         .kernelParams = kernel->params};
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                      const CUDA_MEMCPY3D *copy, CUcontext context)
{
  (void)context;
  if (copy == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEMCPY, .of.copy = *copy};
  return add(node, graph, needs, count, &work);
}

SIM_API CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                      const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
  (void)context;
  if (fill == NULL || (fill->elementSize != 1 && fill->elementSize != 2 && fill->elementSize != 4)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEMSET, .of.fill = *fill};
  return add(node, graph, needs, count, &work);
}

SIM_API CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                    const CUDA_HOST_NODE_PARAMS *host)
{
  if (host == NULL || host->fn == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_HOST, .of.host = *host};
  return add(node, graph, needs, count, &work);
}

SIM_API CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count)
{
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_EMPTY};
  return add(node, graph, needs, count, &work);
}

SIM_API CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                          CUgraph child)
{
  if (child == NULL || child->magic != SIM_GRAPH_MAGIC || child == graph) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_GRAPH, .of.child = child};
  return add(node, graph, needs, count, &work);
}

SIM_API CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                           CUevent event)
{
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .of.event = event};
  return event == NULL ? CUDA_ERROR_INVALID_VALUE : add(node, graph, needs, count, &work);
}

SIM_API CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                         CUevent event)
{
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .of.event = event};
  return event == NULL ? CUDA_ERROR_INVALID_VALUE : add(node, graph, needs, count, &work);
}

SIM_API CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                        CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
  if (params == NULL || params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      sim_check_device(params->poolProps.location.id) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_graph_memory_new(params->poolProps.location.id, params->bytesize);
  const CUdeviceptr  address = range == NULL ? 0 : range->start;
  pthread_mutex_unlock(&sim_lock);
  if (address == 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .of.address = address};
  const CUresult   result = add(node, graph, needs, count, &work);
  if (result == CUDA_SUCCESS) {
    params->dptr = address;
  }
  return result;
}

SIM_API CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                       CUdeviceptr dptr)
{
  const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_MEM_FREE, .of.address = dptr};
  return add(node, graph, needs, count, &work);
}

// The one call for nodes of every kind: here, of memory.
static CUresult add_any(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                        CUgraphNodeParams *params)
{
  if (params == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    // Version 2 of these parameters is laid out as version 1.
    return cuGraphAddMemAllocNode(node, graph, needs, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)&params->alloc);
  }
  return params->type == CU_GRAPH_NODE_TYPE_MEM_FREE
             ? cuGraphAddMemFreeNode(node, graph, needs, count, params->free.dptr)
             : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_API CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs, size_t count,
                                CUgraphNodeParams *params)
{
  return add_any(node, graph, needs, count, params);
}

SIM_API CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                                   const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
  (void)edges;
  return add_any(node, graph, needs, count, params);
}

static CUresult add_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
  bool ok = graph != NULL && graph->magic == SIM_GRAPH_MAGIC;
  pthread_mutex_lock(&sim_lock);
  for (size_t i = 0; i < count && ok; i++) {
    ok = is_node(from[i]) && is_node(to[i]) && from[i]->graph == graph && to[i]->graph == graph &&
         sim_node_needs(to[i], &from[i], 1);
  }
  pthread_mutex_unlock(&sim_lock);
  return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
  return add_dependencies(graph, from, to, count);
}

SIM_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           const CUgraphEdgeData *edges, size_t count)
{
  (void)edges;
  return add_dependencies(graph, from, to, count);
}

// Fills `nodes` as far as `*count` goes and says how many there are.
static CUresult list(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots_only)
{
  size_t found = 0;
  if (graph == NULL || graph->magic != SIM_GRAPH_MAGIC || count == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (CUgraphNode node = graph->first; node != NULL; node = node->next) {
    if (roots_only && node->need_count > 0) {
      continue;
    }
    if (nodes != NULL && found < *count) {
      nodes[found] = node;
    }
    found++;
  }
  *count = found;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
  return list(graph, nodes, count, false);
}

SIM_API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
  return list(graph, nodes, count, true);
}

static CUresult edges_of(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count)
{
  size_t found = 0;
  if (graph == NULL || graph->magic != SIM_GRAPH_MAGIC || count == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (CUgraphNode node = graph->first; node != NULL; node = node->next) {
    for (size_t i = 0; i < node->need_count; i++, found++) {
      if (from != NULL && to != NULL && found < *count) {
        from[found] = node->needs[i];
        to[found] = node;
        if (data != NULL) {
          memset(&data[found], 0, sizeof data[found]);
        }
      }
    }
  }
  *count = found;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
  return edges_of(graph, from, to, NULL, count);
}

SIM_API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                                    size_t *count)
{
  return edges_of(graph, from, to, data, count);
}

static CUresult needs_of(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
  if (!is_node(node) || count == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; nodes != NULL && i < node->need_count && i < *count; i++) {
    nodes[i] = node->needs[i];
  }
  *count = node->need_count;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
  return needs_of(node, nodes, count);
}

SIM_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                               size_t *count)
{
  if (data != NULL && count != NULL) {
    memset(data, 0, *count * sizeof *data);
  }
  return needs_of(node, nodes, count);
}

static CUresult dependents_of(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
  size_t found = 0;
  if (!is_node(node) || count == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (CUgraphNode each = node->graph->first; each != NULL; each = each->next) {
    for (size_t i = 0; i < each->need_count; i++) {
      if (each->needs[i] == node) {
        if (nodes != NULL && found < *count) {
          nodes[found] = each;
        }
        found++;
      }
    }
  }
  *count = found;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
  return dependents_of(node, nodes, count);
}

SIM_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                                 size_t *count)
{
  if (data != NULL && count != NULL) {
    memset(data, 0, *count * sizeof *data);
  }
  return dependents_of(node, nodes, count);
}

SIM_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *kind)
{
  if (!is_node(node) || kind == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *kind = node->work.kind;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
  if (!is_node(node) || params == NULL || node->work.kind != CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  memset(params, 0, sizeof *params);
  params->dptr = node->work.of.address;
  params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find(params->dptr);
  if (range != NULL) {
    params->poolProps.location.id = range->device;
    params->bytesize = range->bytes;
  }
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *dptr)
{
  if (!is_node(node) || dptr == NULL || node->work.kind != CU_GRAPH_NODE_TYPE_MEM_FREE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *dptr = node->work.of.address;
  return CUDA_SUCCESS;
}
