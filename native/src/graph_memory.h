// Graph memory: what the allocation nodes of executable graphs take. The driver takes it when such a graph is first
// launched or uploaded, lets graphs share it, and keeps it until it is told to trim; it is charged by what the driver
// has reserved for graphs.
// source: CUDA C++ Programming Guide 13.0, "Graph Memory Nodes".

#ifndef JVGPU_GRAPH_MEMORY_H
#define JVGPU_GRAPH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "process.h"

// A process without memory nodes pays one load for each of these questions.
static inline bool jvgpu_graph_memory_is_used(const jvgpu_process_t *self)
{
  return self != NULL && __atomic_load_n(&self->has_graph_memory, __ATOMIC_RELAXED) != 0;
}

// A memory node was made, or an allocation captured.
void jvgpu_graph_memory_seen(jvgpu_process_t *self);

// Note what an executable graph needs, before its first launch; forget it.
void jvgpu_graph_memory_instantiated(jvgpu_process_t *self, CUgraphExec exec, CUgraph graph);
void jvgpu_graph_memory_destroyed(jvgpu_process_t *self, CUgraphExec exec);
// Make a graph executable by `real`, with room for what it has to take where it is uploaded in the same call.
CUresult jvgpu_graph_memory_instantiate(CUresult (*real)(CUgraphExec *, CUgraph, void *), CUgraphExec *exec,
                                        CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params);

// Launch or upload by `real`, with room for what the graph has to take. A launch into a capture takes nothing.
CUresult jvgpu_graph_memory_launch(CUresult (*real)(CUgraphExec, CUstream), CUgraphExec exec, CUstream stream,
                                   CUresult (*is_capturing)(CUstream, int *));

// Look again at what the driver has reserved. returns: bytes given back.
uint64_t jvgpu_graph_memory_look(jvgpu_process_t *self);
// The same for one device, after asking the driver to let go of what no graph uses.
uint64_t jvgpu_graph_memory_trim(jvgpu_process_t *self, uint32_t device);
// The driver was asked to, by the program.
void jvgpu_graph_memory_trimmed(jvgpu_process_t *self);

#endif
