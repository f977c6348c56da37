// Graph executables: a changed or destroyed one takes its duration estimate with it.

#define _GNU_SOURCE
#include <stddef.h>

#include "graph_memory.h"
#include "hooks.h"
#include "process.h"

static CUresult changed(CUgraphExec exec, CUresult result)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (self != NULL) {
    jvgpu_meter_forget(self, exec);
  }
  return result;
}

#define FORGETS(name, parameters, arguments)                                                 \
  CUresult name parameters                                                                   \
  {                                                                                          \
    return JVGPU_HAS_CU(name) ? changed(exec, jvgpu_real.name arguments) : JVGPU_NO_SUCH_CU; \
  }

FORGETS(cuGraphExecUpdate, (CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result),
        (exec, graph, node, result))
FORGETS(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, void *result), (exec, graph, result))
FORGETS(cuGraphExecKernelNodeSetParams, (CUgraphExec exec, CUgraphNode node, const void *params), (exec, node, params))
FORGETS(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec exec, CUgraphNode node, const void *params),
        (exec, node, params))
FORGETS(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, void *params), (exec, node, params))
FORGETS(cuGraphExecMemcpyNodeSetParams, (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext ctx),
        (exec, node, copy, ctx))
FORGETS(cuGraphExecMemsetNodeSetParams, (CUgraphExec exec, CUgraphNode node, const void *fill, CUcontext ctx),
        (exec, node, fill, ctx))
FORGETS(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child), (exec, node, child))
FORGETS(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned int enabled), (exec, node, enabled))

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
  jvgpu_process_t *self = jvgpu_tenant();
  if (!JVGPU_HAS_CU(cuGraphExecDestroy)) {
    return JVGPU_NO_SUCH_CU;
  }
  // Forgotten before the driver can hand the same handle to another thread.
  if (jvgpu_graph_memory_is_used(self)) {
    jvgpu_graph_memory_destroyed(self, exec);
  }
  const CUresult result = changed(exec, jvgpu_real.cuGraphExecDestroy(exec));
  if (jvgpu_graph_memory_is_used(self)) {
    (void)jvgpu_graph_memory_look(self);
  }
  return result;
}
