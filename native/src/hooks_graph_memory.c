// Graphs with memory nodes: their needs are noted when they are made executable and reserved when they are launched.

#define _GNU_SOURCE
#include <stddef.h>

#include "graph_memory.h"
#include "hooks.h"

// --- memory nodes -----------------------------------------------------------------------------------------------------

static CUresult added(bool is_memory, CUresult result)
{
  if (is_memory && result == CUDA_SUCCESS) {
    jvgpu_graph_memory_seen(jvgpu_tenant());
  }
  return result;
}

static bool is_memory_node(const CUgraphNodeParams *params)
{
  return params != NULL && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
}

#define ADDS(name, is_memory, parameters, arguments)                                            \
  CUresult name parameters                                                                      \
  {                                                                                             \
    return JVGPU_HAS_CU(name) ? added(is_memory, jvgpu_real.name arguments) : JVGPU_NO_SUCH_CU; \
  }

ADDS(cuGraphAddMemAllocNode, true,
     (CUgraphNode * node, CUgraph graph, const CUgraphNode *needs, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params),
     (node, graph, needs, count, params))
ADDS(cuGraphAddNode, is_memory_node(params),
     (CUgraphNode * node, CUgraph graph, const CUgraphNode *needs, size_t count, CUgraphNodeParams *params),
     (node, graph, needs, count, params))
ADDS(cuGraphAddNode_v2, is_memory_node(params),
     (CUgraphNode * node, CUgraph graph, const CUgraphNode *needs, const void *edges, size_t count,
      CUgraphNodeParams *params),
     (node, graph, needs, edges, count, params))
ADDS(cuGraphAddNode_v3, is_memory_node(params),
     (CUgraphNode * node, CUgraph graph, const CUgraphNode *needs, const void *edges, size_t count,
      CUgraphNodeParams *params),
     (node, graph, needs, edges, count, params))

// --- executable graphs --------------------------------------------------------------------------------------------------

static CUresult instantiated(const CUgraphExec *exec, CUgraph graph, CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (result == CUDA_SUCCESS && jvgpu_graph_memory_is_used(self)) {
    jvgpu_graph_memory_instantiated(self, *exec, graph);
  }
  return result;
}

#define INSTANTIATES(name, parameters, arguments)                                                        \
  CUresult name parameters                                                                               \
  {                                                                                                      \
    return JVGPU_HAS_CU(name) ? instantiated(exec, graph, jvgpu_real.name arguments) : JVGPU_NO_SUCH_CU; \
  }

INSTANTIATES(cuGraphInstantiate, (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *log, size_t bytes),
             (exec, graph, node, log, bytes))
INSTANTIATES(cuGraphInstantiate_v2, (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *log, size_t bytes),
             (exec, graph, node, log, bytes))
INSTANTIATES(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
             (exec, graph, flags))

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params)
{
  return JVGPU_HAS_CU(cuGraphInstantiateWithParams)
             ? jvgpu_graph_memory_instantiate(jvgpu_real.cuGraphInstantiateWithParams, exec, graph, params)
             : JVGPU_NO_SUCH_CU;
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params)
{
  return JVGPU_HAS_CU(cuGraphInstantiateWithParams_ptsz)
             ? jvgpu_graph_memory_instantiate(jvgpu_real.cuGraphInstantiateWithParams_ptsz, exec, graph, params)
             : JVGPU_NO_SUCH_CU;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
  return JVGPU_HAS_CU(cuGraphUpload)
             ? jvgpu_graph_memory_launch(jvgpu_real.cuGraphUpload, exec, stream, jvgpu_real.cuStreamIsCapturing)
             : JVGPU_NO_SUCH_CU;
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
  return JVGPU_HAS_CU(cuGraphUpload_ptsz) ? jvgpu_graph_memory_launch(jvgpu_real.cuGraphUpload_ptsz, exec, stream,
                                                                      jvgpu_real.cuStreamIsCapturing_ptsz)
                                          : JVGPU_NO_SUCH_CU;
}

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
  if (!JVGPU_HAS_CU(cuDeviceGraphMemTrim)) {
    return JVGPU_NO_SUCH_CU;
  }
  jvgpu_process_t *self = jvgpu_tenant();
  const CUresult   result = jvgpu_real.cuDeviceGraphMemTrim(dev);
  if (result == CUDA_SUCCESS && jvgpu_graph_memory_is_used(self)) {
    jvgpu_graph_memory_trimmed(self);
  }
  return result;
}
