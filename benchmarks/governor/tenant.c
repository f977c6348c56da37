// A tenant with known work: counts its own finished units, a unit being a piece of GPU time that is measured alone.
//
//   tenant busy   launches back to back
//   tenant sync   the same, waiting for every launch
//   tenant graph  graphs of 20 launches
//   tenant loop   like a training loop: HOST_US of the processor before each launch; a unit is SYNC_EVERY launches,
//                 after which it waits if WAITS is 1
//   tenant cell   one launch and a wait, every PERIOD_US (give or take a tenth)
//   tenant onoff  busy for ON_MS, nothing for OFF_MS
//   tenant fault  busy; half-way through a run it says when and stores where it may not: the driver breaks its context,
//                 and it ends with an error
//   tenant copy   copies of 256 MiB within the device, back to back
//   tenant idle   holds a context
//
// LAUNCH_US and ITERS say how long a launch is, GRID how many blocks it has (default: fills the board), LAUNCH=plain,
// extended or cooperative how it is made, IN_FLIGHT_US how much is queued at most, STREAMS (at most 128) on how many
// streams, in turn.
// Answers on stdout what stdin asks: "calibrate": nanoseconds an iteration; "solo": nanoseconds a unit, back to back;
// "run SECONDS AT": runs from the clock's AT (seconds, CLOCK_MONOTONIC) on and says one line of JSON.

#include <stdbool.h>

#include "../sim/client.h"
#include "counting.h"

typedef struct CUgraph_st     *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

typedef struct launch_config_s {
  unsigned int grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CUstream     stream;
  void        *attributes;
  unsigned int attribute_count;
} launch_config_t;

int cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
int cuLaunchKernelEx(const launch_config_t *config, CUfunction function, void **params, void **extra);
int cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                              unsigned int block_x, unsigned int block_y, unsigned int block_z,
                              unsigned int shared_bytes, CUstream stream, void **params);
int cuStreamBeginCapture_v2(CUstream stream, int mode);
int cuStreamEndCapture(CUstream stream, CUgraph *graph);
int cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags);
int cuGraphLaunch(CUgraphExec executable, CUstream stream);
int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

enum { GRAPH_LAUNCHES = 20, DEPTH = 8, COPY_BYTES = 256 << 20 };
enum { SM_COUNT = 16, BLOCKS_PER_SM = 8 };

static struct {
  const char *mode;
  const char *launch;
  double      launch_us;
  double      host_us;
  double      in_flight_us;
  double      period_us;
  double      on_seconds;
  double      off_seconds;
  int         sync_every;
  bool        waits;
  int         streams;
} wish;

static client_t    client;
static CUgraphExec graph;
static CUstream    streams[MOST_IN_FLIGHT];
static CUdeviceptr copied_from;
static CUdeviceptr copied_to;

static double setting(const char *name, double otherwise)
{
  const char *text = getenv(name);
  return text == NULL ? otherwise : atof(text);
}

static bool in_mode(const char *name)
{
  return strcmp(wish.mode, name) == 0;
}

static void launch(void)
{
  void              *params[] = {&client.out, &client.iterations};
  const unsigned int blocks = (unsigned int)client.blocks;
  if (strcmp(wish.launch, "extended") == 0) {
    const launch_config_t config = {blocks, 1, 1, CLIENT_THREADS, 1, 1, 0, client.stream, NULL, 0};
    MUST(cuLaunchKernelEx(&config, client.function, params, NULL));
  } else if (strcmp(wish.launch, "cooperative") == 0) {
    MUST(cuLaunchCooperativeKernel(client.function, blocks, 1, 1, CLIENT_THREADS, 1, 1, 0, client.stream, params));
  } else {
    client_launch(&client);
  }
}

static void make_graph(void)
{
  CUgraph captured;
  MUST(cuStreamBeginCapture_v2(client.stream, 0));
  for (int i = 0; i < GRAPH_LAUNCHES; i++) {
    launch();
  }
  MUST(cuStreamEndCapture(client.stream, &captured));
  MUST(cuGraphInstantiateWithFlags(&graph, captured, 0));
}

static double unit_us(void)
{
  return wish.launch_us * (in_mode("graph") ? GRAPH_LAUNCHES : in_mode("loop") ? wish.sync_every : 1);
}

// A mark costs the GPU time of its own: not after each short launch.
static int units_a_batch(void)
{
  const int units = wish.streams > 1 ? 1 : (int)(wish.in_flight_us / DEPTH / unit_us());
  return units < 1 ? 1 : units;
}

static int fitting_depth(void)
{
  const double fit = wish.in_flight_us / (units_a_batch() * unit_us());
  return wish.streams > 1 ? wish.streams : fit < 2 ? 2 : fit > DEPTH ? DEPTH : (int)fit;
}

static void unit(bool with_host_part)
{
  if (in_mode("graph")) {
    MUST(cuGraphLaunch(graph, client.stream));
    return;
  }
  if (in_mode("copy")) {
    MUST(cuMemcpyDtoDAsync_v2(copied_to, copied_from, COPY_BYTES, client.stream));
    return;
  }
  for (int i = 0; i < (in_mode("loop") ? wish.sync_every : 1); i++) {
    if (with_host_part && wish.host_us > 0) {
      client_spin(wish.host_us * 1e-6);
    }
    launch();
  }
}

static void batch(void)
{
  const int units = units_a_batch();
  wait_until_in_flight(ring.depth - 1);
  client.stream = streams[ring.queued % wish.streams];
  for (int i = 0; i < units; i++) {
    unit(false);
  }
  queue_mark(units, client.stream);
}

static void loop_step(void)
{
  wait_until_in_flight(ring.depth - 1);
  unit(true);
  queue_mark(1, client.stream);
  if (wish.waits) {
    wait_until_in_flight(0);
  }
}

static void waited_launch(void)
{
  const double begun = client_now();
  launch();
  MUST(cuStreamSynchronize(client.stream));
  const double now = client_now();
  finished(now, 1);
  waited(begun - result.start, now - result.start);
}

static void sleep_until(double when)
{
  double left;
  while ((left = when - client_now()) > 0) {
    client_sleep(left);
  }
}

static void run_cell(double end)
{
  unsigned int state = (unsigned int)getpid() * 2654435761u + 1;
  double       next = client_now();
  while (next < end) {
    sleep_until(next);
    waited_launch();
    // The pauses must not fall in step with the neighbours' turns. source: Numerical Recipes' linear congruence
    state = state * 1664525u + 1013904223u;
    next += wish.period_us * 1e-6 * (0.9 + 0.2 * (double)(state >> 8) / (double)(1u << 24));
    if (next < client_now()) {
      next = client_now();
    }
  }
}

static void run_onoff(double start, double end)
{
  const double round = wish.on_seconds + wish.off_seconds;
  while (client_now() < end) {
    const double since = client_now() - start;
    const double in_round = since - (double)(long)(since / round) * round;
    if (in_round < wish.on_seconds) {
      batch();
      continue;
    }
    const double stopped = client_now();
    sleep_until(stopped + round - in_round);
    paused(stopped - start, client_now() - start);
  }
}

// Where no device memory is. A simulated board knows the function by its name, a GPU compiles it.
static void store_where_it_may_not(void)
{
  static const char image[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry scale(.param .u64 out, .param .f32 factor, .param .u32 count)\n"
      "{\n  .reg .f32 %f<2>;\n  .reg .b64 %d<3>;\n"
      "  ld.param.u64 %d1, [out];\n  ld.param.f32 %f1, [factor];\n  cvta.to.global.u64 %d2, %d1;\n"
      "  st.global.f32 [%d2], %f1;\n  ret;\n}\n";
  CUdeviceptr nowhere = 16;
  float       factor = 1;
  int         count = 1;
  void       *params[] = {&nowhere, &factor, &count};
  CUmodule    module;
  CUfunction  function;
  MUST(cuModuleLoadData(&module, image));
  MUST(cuModuleGetFunction(&function, module, "scale"));
  MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, client.stream, params, NULL));
  MUST(cuStreamSynchronize(client.stream));
}

static void run_fault(double start, double end)
{
  while (client_now() < start + (end - start) / 2) {
    batch();
  }
  printf("{\"fault_at\": %.6f}\n", client_now() - start);
  fflush(stdout);
  store_where_it_may_not();
}

static void run_until(double start, double end)
{
  if (in_mode("cell")) {
    run_cell(end);
  } else if (in_mode("onoff")) {
    run_onoff(start, end);
  } else if (in_mode("fault")) {
    run_fault(start, end);
  } else {
    while (client_now() < end && !in_mode("idle")) {
      if (in_mode("sync")) {
        waited_launch();
      } else if (in_mode("loop")) {
        loop_step();
      } else {
        batch();
      }
    }
  }
  sleep_until(end);
  wait_until_in_flight(0);
}

static double measure_solo(double least_seconds)
{
  double best = 1e30;
  for (int round = 0; round < 4; round++) {  // the first brings the clocks up
    const double begun = client_now();
    result.units = 0;
    while (client_now() - begun < least_seconds || result.units < 4) {
      batch();
    }
    wait_until_in_flight(0);
    const double each = (client_now() - begun) * 1e9 / (double)result.units;
    best = each < best ? each : best;
  }
  return best;
}

static double calibrate(void)
{
  double    took[2];
  const int kept = client.iterations;
  for (int i = 0; i < 2; i++) {
    client.iterations = 2000 + 6000 * i;
    took[i] = measure_solo(0.1);
  }
  client.iterations = kept;
  return (took[1] - took[0]) / 6000;
}

static void run(double seconds, double start)
{
  begin_result(seconds, start);
  const long before = switches_of_others();
  sleep_until(start);
  run_until(start, start + seconds);
  say_result(client_now() - start, switches_of_others() - before);
}

static void prepare(void)
{
  wish.launch = getenv("LAUNCH") == NULL ? "plain" : getenv("LAUNCH");
  wish.launch_us = setting("LAUNCH_US", 20);
  wish.host_us = setting("HOST_US", 0);
  wish.in_flight_us = setting("IN_FLIGHT_US", 2000);
  wish.period_us = setting("PERIOD_US", 5000);
  wish.on_seconds = setting("ON_MS", 500) * 1e-3;
  wish.off_seconds = setting("OFF_MS", 500) * 1e-3;
  wish.sync_every = (int)setting("SYNC_EVERY", 1);
  wish.waits = setting("WAITS", 0) != 0;
  wish.streams = (int)setting("STREAMS", 1);
  wish.streams = wish.streams < 1 ? 1 : wish.streams > MOST_IN_FLIGHT ? MOST_IN_FLIGHT : wish.streams;
  client = client_start();
  if (getenv("GRID") == NULL) {
    MUST(cuDeviceGetAttribute(&client.blocks, SM_COUNT, 0));
    client.blocks *= BLOCKS_PER_SM;
  }
  streams[0] = client.stream;
  for (int i = 1; i < wish.streams; i++) {
    MUST(cuStreamCreate(&streams[i], CLIENT_NON_BLOCKING));
  }
  if (in_mode("copy")) {
    MUST(cuMemAlloc_v2(&copied_from, COPY_BYTES));
    MUST(cuMemAlloc_v2(&copied_to, COPY_BYTES));
  }
  start_counting(fitting_depth());
  if (in_mode("graph")) {
    make_graph();
  }
  if (!in_mode("idle")) {
    launch();
    MUST(cuStreamSynchronize(client.stream));
  }
}

int main(int count, char **arguments)
{
  char   line[128];
  double seconds;
  double start;
  if (count != 2) {
    fprintf(stderr, "usage: tenant busy|sync|graph|loop|cell|onoff|fault|copy|idle\n");
    return 2;
  }
  wish.mode = arguments[1];
  prepare();
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (strncmp(line, "calibrate", 9) == 0) {
      printf("%.6f\n", calibrate());
    } else if (strncmp(line, "solo", 4) == 0) {
      printf("%.3f\n", measure_solo(0.06));
    } else if (sscanf(line, "run %lf %lf", &seconds, &start) == 2) {
      run(seconds, start);
    } else {
      break;
    }
    fflush(stdout);
  }
  return 0;
}
