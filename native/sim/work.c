// Work: what can be queued on a stream, captured from it, or stand in a graph.

#include "driver.h"
#include "graph.h"

CUresult sim_work_run(const sim_work_t *work, CUstream stream)
{
  CUresult result = CUDA_SUCCESS;
  switch (work->kind) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return sim_kernel_run(&work->of.kernel, stream);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      result = sim_copy_run(&work->of.copy);
      if (result == CUDA_SUCCESS) {
        sim_submit(stream, sim_copy_ns(&work->of.copy, stream->context->device));
      }
      return result;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      result = sim_fill_run(&work->of.fill);
      if (result == CUDA_SUCCESS) {
        sim_submit(stream, sim_memory_ns(stream->context->device,
                                         work->of.fill.width * work->of.fill.height * work->of.fill.elementSize));
      }
      return result;
    case CU_GRAPH_NODE_TYPE_HOST: return sim_stream_run_host(stream, work->of.host.fn, work->of.host.userData);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return sim_event_record(work->of.event, stream);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return sim_event_wait(work->of.event, stream);
    case CU_GRAPH_NODE_TYPE_GRAPH: return sim_graph_run(work->of.child, stream, false);
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return sim_graph_memory_run(work, false);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult sim_stream_do(CUstream stream, const sim_work_t *work)
{
  if (atomic_load_explicit(&sim_captures, memory_order_relaxed) != 0) {
    if (sim_is_capturing(stream)) {
      return sim_capture_add(stream, work);
    }
    const CUresult implicit = sim_capture_check_implicit(stream);
    if (implicit != CUDA_SUCCESS) {
      return implicit;
    }
  }
  return sim_work_run(work, stream);
}
