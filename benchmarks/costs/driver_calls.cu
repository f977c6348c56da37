// What driver calls cost, through the CUDA runtime as programs make them. Prints "name<TAB>ns" lines.
// Run with and without the library preloaded; run.py does both, alternately.

#include <cuda.h>
#include <cuda_runtime.h>
#include <time.h>

#include <cstdio>

static double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

__global__ void nothing() {}

// The best of several batches: the cost without other people's noise.
template <typename Call>
static void measure(const char *name, cudaStream_t stream, int batches, int calls, Call call) {
  for (int i = 0; i < calls; i++) call();
  cudaStreamSynchronize(stream);
  double best = 1e30;
  for (int batch = 0; batch < batches; batch++) {
    const double begun = now_ns();
    for (int i = 0; i < calls; i++) call();
    const double each = (now_ns() - begun) / calls;
    cudaStreamSynchronize(stream);
    best = each < best ? each : best;
  }
  printf("%s\t%.1f\n", name, best);
}

int main() {
  cudaFree(0);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  measure("launch", stream, 60, 400, [&] { nothing<<<1, 32, 0, stream>>>(); });
  measure("cudaMalloc + cudaFree, 1 MiB", stream, 30, 100, [&] {
    void *p;
    cudaMalloc(&p, 1 << 20);
    cudaFree(p);
  });
  measure("cudaMalloc + cudaFree, 64 MiB", stream, 15, 50, [&] {
    void *p;
    cudaMalloc(&p, 64 << 20);
    cudaFree(p);
  });
  measure("cudaMallocAsync + cudaFreeAsync, 1 MiB", stream, 60, 400, [&] {
    void *p;
    cudaMallocAsync(&p, 1 << 20, stream);
    cudaFreeAsync(p, stream);
  });
  measure("cudaMemGetInfo", stream, 40, 200, [&] {
    size_t free_bytes, total_bytes;
    cudaMemGetInfo(&free_bytes, &total_bytes);
  });
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
