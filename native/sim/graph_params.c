// What a node does, asked and changed: in a graph, and in what was made executable from it.

#include "event.h"
#include "graph.h"

static bool is_kind(CUgraphNode node, CUgraphNodeType kind)
{
  return node != NULL && node->magic == SIM_NODE_MAGIC && node->work.kind == kind;
}

// The work of a node of this kind, of which a part is to be read or written at `out`.
// returns: NULL when the node is none of the kind or there is no place
static sim_work_t *work_of(CUgraphNode node, CUgraphNodeType kind, const void *out)
{
  return is_kind(node, kind) && out != NULL ? &node->work : NULL;
}

// Get and set of one kind of node; `field` is its member of sim_work_t, `type` the type of that.
#define NODE_PARAMS(get, set, set_exec, kind, type, field, ...)                                 \
  SIM_API CUresult get(CUgraphNode node, type *params)                                          \
  {                                                                                             \
    const sim_work_t *work = work_of(node, kind, params);                                       \
    if (work == NULL) {                                                                         \
      return CUDA_ERROR_INVALID_VALUE;                                                          \
    }                                                                                           \
    *params = work->of.field;                                                                   \
    return CUDA_SUCCESS;                                                                        \
  }                                                                                             \
  SIM_API CUresult set(CUgraphNode node, const type *params)                                    \
  {                                                                                             \
    sim_work_t *work = work_of(node, kind, params);                                             \
    if (work == NULL) {                                                                         \
      return CUDA_ERROR_INVALID_VALUE;                                                          \
    }                                                                                           \
    work->of.field = *params;                                                                   \
    return CUDA_SUCCESS;                                                                        \
  }                                                                                             \
  SIM_API CUresult set_exec(CUgraphExec exec, CUgraphNode node, const type *params __VA_ARGS__) \
  {                                                                                             \
    return set(sim_exec_twin(exec, node), params);                                              \
  }

#define CONTEXT , CUcontext context __attribute__((unused))
NODE_PARAMS(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams,
            CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, copy, CONTEXT)
NODE_PARAMS(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams,
            CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, fill, CONTEXT)
NODE_PARAMS(cuGraphHostNodeGetParams, cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST,
            CUDA_HOST_NODE_PARAMS, host, )

SIM_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
  if (!is_kind(node, CU_GRAPH_NODE_TYPE_KERNEL) || params == NULL || (params->func == NULL && params->kern == NULL)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const sim_kernel_work_t kernel = sim_kernel_of(params);
  return sim_node_set_kernel(node, &kernel, params->extra);
}

static CUresult get_event(CUgraphNode node, CUgraphNodeType kind, CUevent *event)
{
  const sim_work_t *work = work_of(node, kind, event);
  if (work == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *event = work->of.event;
  return CUDA_SUCCESS;
}

static CUresult set_event(CUgraphNode node, CUgraphNodeType kind, CUevent event)
{
  if (!is_kind(node, kind) || !sim_is_event(event)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  node->work.of.event = event;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
  return get_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

SIM_API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
  return set_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

SIM_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
  return set_event(sim_exec_twin(exec, node), CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

SIM_API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
  return get_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

SIM_API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
  return set_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

SIM_API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
  return set_event(sim_exec_twin(exec, node), CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

SIM_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
  const sim_work_t *work = work_of(node, CU_GRAPH_NODE_TYPE_GRAPH, graph);
  if (work == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *graph = work->of.child;
  return CUDA_SUCCESS;
}
