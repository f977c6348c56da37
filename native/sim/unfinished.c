// Placeholders until the files that define these are written.
#include "driver.h"
_Atomic int sim_captures;
CUresult sim_capture_check_unsafe(void) { return CUDA_SUCCESS; }
CUresult sim_capture_refuse(CUstream stream) { (void)stream; return CUDA_SUCCESS; }
void sim_capture_abandon(CUstream stream) { (void)stream; }
CUresult sim_capture_allocate(CUstream stream, CUdeviceptr *dptr, size_t bytes) { (void)stream; (void)dptr; (void)bytes; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_graph_memory_free(sim_range_t *range) { (void)range; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_capture_add(CUstream stream, const sim_work_t *work) { (void)stream; (void)work; return CUDA_ERROR_NOT_SUPPORTED; }
