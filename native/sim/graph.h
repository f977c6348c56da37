// Captures (capture.c) and graphs (graph.c, graph_exec.c, graph_memory.c).

#ifndef JVGPU_SIM_GRAPH_H
#define JVGPU_SIM_GRAPH_H

#include "driver.h"
#include "range.h"

// ---- captures (capture.c)

struct sim_capture_s {
  CUgraph               graph;
  CUstream              origin;
  CUstreamCaptureMode   mode;
  pid_t                 thread;
  bool                  is_spoilt;
  uint64_t              capture_id;
  struct sim_capture_s *next;
};

// Number of captures alive in the process. Zero nearly always: one relaxed load answers the question.
extern _Atomic int sim_captures;

static inline bool sim_is_capturing(CUstream stream)
{
  return atomic_load_explicit(&sim_captures, memory_order_relaxed) != 0 && atomic_load(&stream->capture) != NULL;
}

// returns: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED when a capture forbids calls that are unsafe under it (and is
// spoilt by the attempt)
CUresult sim_capture_check_unsafe(void);
// returns: CUDA_SUCCESS when the stream does not capture; otherwise the error, and the capture is spoilt
CUresult sim_capture_refuse(CUstream stream);
// returns: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT when work on the legacy stream would wait for a capturing one
CUresult sim_capture_check_implicit(CUstream stream);
// A wait for all of a context would wait for what its streams capture.
// returns: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED when one captures, in whichever mode (and is spoilt by the attempt)
CUresult sim_capture_check_context(CUcontext context);
// returns: CUDA_SUCCESS when the host may wait for the stream as far as it is the legacy one
CUresult sim_capture_check_legacy_wait(CUstream stream);
CUresult sim_capture_add(CUstream stream, const sim_work_t *work);
// Adds nodes to what the stream's next node depends on, and the stream to their capture.
CUresult sim_capture_join(CUstream stream, sim_capture_t *capture, const CUgraphNode *nodes, size_t count);
// The stream goes away: what it captured is lost.
void sim_capture_abandon(CUstream stream);
// An allocation under capture: addresses now, memory at the graph's first launch.
CUresult sim_capture_allocate(CUstream stream, CUdeviceptr *dptr, size_t bytes);
bool sim_capture_is_alive(const sim_capture_t *capture, uint64_t capture_id);

// ---- graphs (graph.c, graph_exec.c, graph_memory.c, user_object.c)

typedef struct sim_held_s sim_held_t;

struct CUgraphNode_st {
  uint32_t               magic;
  CUgraph                graph;
  sim_work_t             work;
  CUgraphNode           *needs;  // dependencies
  size_t                 need_count;
  uint32_t               mark;       // scratch of one walk, under sim_lock
  CUgraphNode            copy;      // the same node in the clone being made
  CUgraphNode            original;  // in a clone: what it was made from
  struct CUgraphNode_st *next;
};

struct CUgraph_st {
  uint32_t     magic;
  size_t       count;
  CUgraphNode *order;  // in an executable graph: the nodes, each behind what it needs
  CUgraphNode  first;
  CUgraphNode  last;
  sim_held_t  *held;  // user objects
};

#define SIM_GRAPH_MAGIC 0x47524148u
#define SIM_NODE_MAGIC 0x4e4f4445u

// pre of the following: sim_lock held
CUgraph sim_graph_new(void);
void sim_graph_free(CUgraph graph);
CUgraph sim_graph_clone(CUgraph graph);
// returns: NULL when memory is short
CUgraphNode sim_graph_add(CUgraph graph, const CUgraphNode *needs, size_t need_count, const sim_work_t *work);
// returns: true when `target` is one of `from` or something they depend on
bool sim_graph_reaches(CUgraph graph, const CUgraphNode *from, size_t count, CUgraphNode target);
// A clone refers to the same user objects as what it was made from.
// returns: false when memory is short
bool sim_objects_share(CUgraph clone, CUgraph graph);
void sim_objects_drop(CUgraph graph);
bool sim_node_needs(CUgraphNode node, const CUgraphNode *more, size_t count);
CUresult sim_graph_memory_free(sim_range_t *range);
void sim_graph_memory_hold(const sim_work_t *work);
void sim_graph_memory_drop(const sim_work_t *work);
// returns: an address range of `bytes` without memory yet; NULL when there is none
sim_range_t *sim_graph_memory_new(CUdevice device, size_t bytes);

sim_kernel_work_t sim_kernel_of(const CUDA_KERNEL_NODE_PARAMS_v2 *params);
// Gives a kernel node new values; `extra` is the packed form of the parameters, or NULL.
CUresult sim_node_set_kernel(CUgraphNode node, const sim_kernel_work_t *kernel, void **extra);

// returns: the node of the executable graph that was made from `node`; NULL when there is none
CUgraphNode sim_exec_twin(CUgraphExec exec, CUgraphNode node);
CUresult sim_graph_run(CUgraph graph, CUstream stream, bool auto_free);
CUresult sim_graph_memory_run(const sim_work_t *work, bool auto_free);
// What an upload does: takes the memory of an allocation node, which stays unused.
CUresult sim_graph_memory_take(const sim_work_t *work);

#endif
