// In which context a thread is: each thread's stack of contexts, whose top is the current one.

#include "driver.h"

_Thread_local sim_thread_t sim_thread __attribute__((tls_model("initial-exec")));

CUresult sim_current(CUcontext *context)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  CUcontext top = sim_thread.depth > 0 ? sim_thread.stack[sim_thread.depth - 1] : NULL;
  if (top == NULL) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!sim_context_is_alive(top)) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  *context = top;
  return sim_context_check(top);
}

CUresult sim_stack_push(CUcontext context)
{
  if (sim_thread.depth == SIM_STACK_DEPTH) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  sim_thread.stack[sim_thread.depth++] = context;
  return CUDA_SUCCESS;
}

void sim_stack_leave(CUcontext context)
{
  if (sim_thread.depth > 0 && sim_thread.stack[sim_thread.depth - 1] == context) {
    sim_thread.depth--;
  }
}

CUresult sim_context_refusal(CUcontext context)
{
  return context == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  return sim_context_is_alive(context) ? sim_stack_push(context) : sim_context_refusal(context);
}

SIM_API CUresult cuCtxPushCurrent(CUcontext context)
{
  return cuCtxPushCurrent_v2(context);
}

SIM_API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (sim_thread.depth == 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  CUcontext top = sim_thread.stack[--sim_thread.depth];
  if (context != NULL) {
    *context = top;
  }
  return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxPopCurrent(CUcontext *context)
{
  return cuCtxPopCurrent_v2(context);
}

SIM_API CUresult cuCtxSetCurrent(CUcontext context)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (context == NULL) {
    sim_thread.depth -= sim_thread.depth > 0;
    return CUDA_SUCCESS;
  }
  if (!sim_context_is_alive(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (sim_thread.depth == 0) {
    return sim_stack_push(context);
  }
  sim_thread.stack[sim_thread.depth - 1] = context;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetCurrent(CUcontext *context)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (context == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *context = sim_thread.depth > 0 ? sim_thread.stack[sim_thread.depth - 1] : NULL;
  return CUDA_SUCCESS;
}
