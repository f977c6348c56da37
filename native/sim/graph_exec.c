// Executable graphs: a clone of the graph with its nodes in an order that respects all dependencies.

#include <stdlib.h>

#include "driver.h"
#include "graph.h"

#define EXEC_MAGIC 0x45584543u
enum { AUTO_FREE_ON_LAUNCH = 1, UPLOAD = 2 };

struct CUgraphExec_st {
  uint32_t   magic;
  CUgraph    graph;
  cuuint64_t flags;
};

static bool is_exec(CUgraphExec exec)
{
  return exec != NULL && exec->magic == EXEC_MAGIC;
}

static bool visit(CUgraphNode node, CUgraphNode *order, size_t *count)
{
  enum { UNSEEN, OPEN, DONE };
  if (node->mark == DONE) {
    return true;
  }
  if (node->mark == OPEN) {
    return false;  // a cycle
  }
  node->mark = OPEN;
  for (size_t i = 0; i < node->need_count; i++) {
    if (!visit(node->needs[i], order, count)) {
      return false;
    }
  }
  node->mark = DONE;
  order[(*count)++] = node;
  return true;
}

// pre: sim_lock held
static CUresult put_in_order(CUgraph graph)
{
  size_t count = 0;
  free(graph->order);
  graph->order = calloc(graph->count + 1, sizeof *graph->order);
  if (graph->order == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (CUgraphNode node = graph->first; node != NULL; node = node->next) {
    node->mark = 0;
  }
  for (CUgraphNode node = graph->first; node != NULL; node = node->next) {
    if (!visit(node, graph->order, &count)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (node->work.kind == CU_GRAPH_NODE_TYPE_GRAPH) {
      const CUresult result = put_in_order(node->work.of.child);
      if (result != CUDA_SUCCESS) {
        return result;
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult sim_graph_run(CUgraph graph, CUstream stream, bool auto_free)
{
  for (size_t i = 0; i < graph->count; i++) {
    const sim_work_t *work = &graph->order[i]->work;
    const bool     is_memory = work->kind == CU_GRAPH_NODE_TYPE_MEM_ALLOC || work->kind == CU_GRAPH_NODE_TYPE_MEM_FREE;
    const CUresult result = is_memory ? sim_graph_memory_run(work, auto_free) : sim_work_run(work, stream);
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags)
{
  CUresult result = sim_ready();
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (out == NULL || graph == NULL || graph->magic != SIM_GRAPH_MAGIC || flags > 15) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUgraphExec exec = calloc(1, sizeof *exec);
  if (exec == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  exec->magic = EXEC_MAGIC;
  exec->flags = flags;
  pthread_mutex_lock(&sim_lock);
  exec->graph = sim_graph_clone(graph);
  result = exec->graph == NULL ? CUDA_ERROR_OUT_OF_MEMORY : put_in_order(exec->graph);
  if (result != CUDA_SUCCESS && exec->graph != NULL) {
    sim_graph_free(exec->graph);
  }
  pthread_mutex_unlock(&sim_lock);
  if (result != CUDA_SUCCESS) {
    free(exec);
    return result;
  }
  *out = exec;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
  return instantiate(exec, graph, flags);
}

SIM_API CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log,
                                       size_t size)
{
  const CUresult result = instantiate(exec, graph, 0);
  if (error_node != NULL) {
    *error_node = NULL;
  }
  if (log != NULL && size > 0) {
    log[0] = 0;
  }
  return result;
}

SIM_API CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
  return cuGraphInstantiate_v2(exec, graph, error_node, log, size);
}

// source: CUDA C++ Programming Guide 13.0, "Graph Memory Nodes": memory is mapped at the first launch or at an upload
static CUresult take_memory(CUgraph graph)
{
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
    const sim_work_t *work = &graph->order[i]->work;
    result = work->kind == CU_GRAPH_NODE_TYPE_GRAPH ? take_memory(work->of.child) : sim_graph_memory_take(work);
  }
  return result;
}

static CUresult upload(CUgraphExec exec, CUstream handle, sim_face_t face)
{
  CUstream       stream;
  const CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || !is_exec(exec)) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  return take_memory(exec->graph);
}

SIM_API CUresult cuGraphExecDestroy(CUgraphExec exec)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || !is_exec(exec)) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  sim_graph_free(exec->graph);
  pthread_mutex_unlock(&sim_lock);
  exec->magic = SIM_DEAD_MAGIC;
  free(exec);
  return CUDA_SUCCESS;
}

static CUresult instantiate_with(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params,
                                 sim_face_t face)
{
  if (params == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  params->hErrNode_out = NULL;
  CUresult result = instantiate(exec, graph, params->flags);
  if (result == CUDA_SUCCESS && (params->flags & UPLOAD) != 0) {
    result = upload(*exec, params->hUploadStream, face);
    if (result != CUDA_SUCCESS) {
      cuGraphExecDestroy(*exec);
    }
  }
  params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : (CUgraphInstantiateResult)1;
  return result;
}

SIM_TWINS(cuGraphInstantiateWithParams, ptsz,
          (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
          instantiate_with(exec, graph, params, face))

SIM_API CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
  if (!is_exec(exec) || flags == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec exec, CUstream handle, sim_face_t face)
{
  CUstream stream;
  CUresult result = sim_stream_of(handle, face, &stream);
  if (result != CUDA_SUCCESS || !is_exec(exec)) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  if (sim_is_capturing(stream)) {
    const sim_work_t work = {.kind = CU_GRAPH_NODE_TYPE_GRAPH, .of.child = exec->graph};
    return sim_capture_add(stream, &work);
  }
  result = sim_capture_check_implicit(stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  // The host pays once, whatever the number of nodes.
  sim_graph_pay();
  sim_unit_begin();
  result = sim_graph_run(exec->graph, stream, (exec->flags & AUTO_FREE_ON_LAUNCH) != 0);
  sim_unit_end();
  return result;
}

SIM_TWINS(cuGraphLaunch, ptsz, (CUgraphExec exec, CUstream stream), launch(exec, stream, face))

SIM_TWINS(cuGraphUpload, ptsz, (CUgraphExec exec, CUstream stream), upload(exec, stream, face))

CUgraphNode sim_exec_twin(CUgraphExec exec, CUgraphNode node)
{
  CUgraphNode twin = is_exec(exec) ? exec->graph->first : NULL;
  while (twin != NULL && twin->original != node) {
    twin = twin->next;
  }
  return twin;
}

CUresult sim_node_set_kernel(CUgraphNode node, const sim_kernel_work_t *kernel, void **extra)
{
  void **params = NULL;
  if (kernel->function->body != NULL) {
    params = sim_params_copy(kernel->function, kernel->params, extra);
    if (params == NULL) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  free(node->work.of.kernel.params);
  node->work.of.kernel = *kernel;
  node->work.of.kernel.params = params;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
  CUgraphNode twin = sim_exec_twin(exec, node);
  if (twin == NULL || params == NULL || params->func == NULL || twin->work.kind != CU_GRAPH_NODE_TYPE_KERNEL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_kernel_work_t kernel = sim_kernel_of(params);
  return sim_node_set_kernel(twin, &kernel, params->extra);
}

// Same nodes in the same order with new values: the executable graph takes them over.
static CUresult update(CUgraphExec exec, CUgraph graph)
{
  CUgraphNode theirs = graph->first;
  for (CUgraphNode ours = exec->graph->first; ours != NULL; ours = ours->next, theirs = theirs->next) {
    if (theirs == NULL || theirs->work.kind != ours->work.kind || theirs->need_count != ours->need_count) {
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
  }
  if (theirs != NULL) {
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  CUgraph clone = sim_graph_clone(graph);
  if (clone == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = put_in_order(clone);
  sim_graph_free(result == CUDA_SUCCESS ? exec->graph : clone);
  exec->graph = result == CUDA_SUCCESS ? clone : exec->graph;
  return result;
}

SIM_API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
  if (!is_exec(exec) || graph == NULL || graph->magic != SIM_GRAPH_MAGIC || info == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  const CUresult result = update(exec, graph);
  pthread_mutex_unlock(&sim_lock);
  *info = (CUgraphExecUpdateResultInfo){.result = result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                                         : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED};
  return result;
}
