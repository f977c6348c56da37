// A tenant with known work: launches of one function whose duration alone has been measured.
//
//   work MODE LAUNCH_US [STREAMS]
//     burn    one stream, always busy
//     sync    the same, waiting for every launch
//     mixed   three functions of 1/4, 1 and 2 times LAUNCH_US in turn
//     graph   graphs of 20 launches
//     streams launches on STREAMS streams at once
//     crowd   launches of three functions, of 1/4, 1 and 2 times LAUNCH_US, on STREAMS streams at once
//     burst   one launch every 2 ms, waited for
//     capture burn on the legacy stream, a graph captured in each mode now and then
//     nested  launches of one thread that make a launch of LAUNCH_US themselves; compiled with -DNESTED and device code
//             that is linked (-rdc=true)
//
// Talks on stdin and stdout: "solo" measures alone and answers with nanoseconds of GPU time a unit;
// "run SECONDS" works and answers with units, seconds, and for bursts the nanoseconds waited.

#include <cuda_runtime.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define MUST(call)                                                                       \
  do {                                                                                   \
    const cudaError_t error = (call);                                                    \
    if (error != cudaSuccess) {                                                          \
      fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(error));             \
      _exit(1);                                                                          \
    }                                                                                    \
  } while (0)

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

template <int variant>
__global__ void fma_loop(float *out, int iterations) {
  float a = threadIdx.x * 1e-3f, b = 1.0001f + variant * 1e-6f, c = 0.5f, d = a + 1;
  for (int i = 0; i < iterations; i++) {
    a = a * b + c;
    d = d * b + c;
  }
  if (a + d == 12345.678f) out[0] = a;
}

#ifdef NESTED
// Not done before what it launched is. source: CUDA C++ Programming Guide 13.0, "Nested Dependencies"
__global__ void launch_nested(float *out, int iterations, int blocks) {
  fma_loop<0><<<blocks, 256>>>(out, iterations);
}
#endif

static std::string mode;
static float *out;
static std::vector<cudaStream_t> streams;
static cudaGraphExec_t graph;
static int iterations;
// Each launch fills the GPU, so that what a launch takes does not depend on what else overlaps it.
static const int blocks = 132 * 8;

static void launch(int variant, int how_many_iterations, cudaStream_t stream) {
  switch (variant) {
    case 0: fma_loop<0><<<blocks, 256, 0, stream>>>(out, how_many_iterations); break;
    case 1: fma_loop<1><<<blocks, 256, 0, stream>>>(out, how_many_iterations); break;
    default: fma_loop<2><<<blocks, 256, 0, stream>>>(out, how_many_iterations); break;
  }
}

// One unit of work: what is counted.
static void unit() {
  if (mode == "mixed") {
    launch(0, iterations / 4, streams[0]);
    launch(1, iterations, streams[0]);
    launch(2, iterations * 2, streams[0]);
  } else if (mode == "graph") {
    MUST(cudaGraphLaunch(graph, streams[0]));
#ifdef NESTED
  } else if (mode == "nested") {
    launch_nested<<<1, 1, 0, streams[0]>>>(out, iterations, blocks);
#endif
  } else if (mode == "crowd") {
    const int lengths[] = {iterations / 4, iterations, iterations * 2};
    for (size_t i = 0; i < streams.size(); i++) launch((int)(i % 3), lengths[i % 3], streams[i]);
  } else if (mode == "streams") {
    for (cudaStream_t stream : streams) launch(0, iterations, stream);
  } else {
    launch(0, iterations, streams[0]);
  }
}

static void make_graph(cudaStreamCaptureMode how, cudaGraphExec_t *executable) {
  cudaGraph_t captured;
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaStreamBeginCapture(stream, how));
  for (int i = 0; i < 20; i++) launch(0, iterations, stream);
  MUST(cudaStreamEndCapture(stream, &captured));
  MUST(cudaGraphInstantiate(executable, captured, 0));
  MUST(cudaGraphDestroy(captured));
  MUST(cudaStreamDestroy(stream));
}

// Enough in flight to keep the GPU busy, not so much that the end is far away.
static double work(double seconds, long most, long *units, double *waited_ns, double solo_ns) {
  const int depth = 8;
  const long marked = mode == "streams" || mode == "crowd" || iterations > 20000 ? 1 : 1 + 20000 / iterations;
  std::vector<cudaEvent_t> marks(depth);
  for (auto &mark : marks) MUST(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming));
  const double begun = now();
  long k = 0;
  while (now() - begun < seconds && k < most) {
    const double unit_begun = now();
    unit();
    k++;
    if (mode == "burst" || mode == "sync") {
      MUST(cudaStreamSynchronize(streams[0]));
      *waited_ns += (now() - unit_begun) * 1e9 - solo_ns;
      if (mode == "burst") while (now() - unit_begun < 2e-3) {}
      continue;
    }
    if (mode == "capture" && k % 500 == 0) {
      cudaGraphExec_t other;
      make_graph((cudaStreamCaptureMode)(k / 500 % 3), &other);
      MUST(cudaGraphExecDestroy(other));
    }
    // A mark costs the GPU time of its own: not after each short launch.
    if (k % marked == 0) {
      const long mark = k / marked;
      MUST(cudaEventRecord(marks[mark % depth], streams[mark % streams.size()]));
      if (mark >= depth) MUST(cudaEventSynchronize(marks[(mark + 1) % depth]));
    }
  }
  MUST(cudaDeviceSynchronize());
  *units = k;
  for (auto &mark : marks) MUST(cudaEventDestroy(mark));
  return now() - begun;
}

// Nanoseconds a unit takes alone, back to back: the best of three, each of about 60 ms or two units.
static double measure_alone() {
  long units;
  double ignored = 0;
  const std::string kept = mode;
  if (mode == "burst" || mode == "sync" || mode == "capture") mode = "burn";
  const double about = work(0.05, 2, &units, &ignored, 0) / units;
  const long most = about > 0.03 ? 2 : 1L << 40;
  if (about < 0.03) work(0.05, most, &units, &ignored, 0);
  double best = 1e30;
  for (int i = 0; i < 3; i++) {
    const double seconds = work(0.06, most, &units, &ignored, 0);
    const double each = seconds * 1e9 / units;
    best = each < best ? each : best;
  }
  mode = kept;
  return best;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  mode = argv[1];
  iterations = (int)(atof(argv[2]) * 1000 / 19.09);  // H200: 19.09 ns an iteration with 8 blocks an SM
  const int stream_count = argc > 3 ? atoi(argv[3]) : 1;
  if (iterations < 1) iterations = 1;
  MUST(cudaMalloc(&out, 1024));
  for (int i = 0; i < stream_count; i++) {
    cudaStream_t stream = 0;
    if (mode != "capture") MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams.push_back(stream);
  }
  if (mode == "graph") make_graph(cudaStreamCaptureModeGlobal, &graph);
  for (int i = 0; i < 3; i++) unit();
  MUST(cudaDeviceSynchronize());
  printf("ready\n");
  fflush(stdout);

  char line[64];
  double solo_ns = 0;
  while (fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "solo", 4)) {
      solo_ns = measure_alone();
      printf("%.1f\n", solo_ns);
    } else if (!strncmp(line, "run ", 4)) {
      long units = 0;
      double waited_ns = 0;
      const double seconds = work(atof(line + 4), 1L << 40, &units, &waited_ns, solo_ns);
      printf("%ld %.6f %.0f\n", units, seconds, waited_ns);
    } else {
      break;
    }
    fflush(stdout);
  }
  return 0;
}
