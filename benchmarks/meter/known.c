// A tenant with known work, in the driver API: on a GPU, and on a simulated board, where work.cu does not run.
//
//   known burn LAUNCH_US    launches back to back
//   known two LAUNCH_US     launches of LAUNCH_US and of ten times that, in turn: one function, grid and block, an
//                           argument says how long
//   known random LAUNCH_US  64 lengths from LAUNCH_US to ten times that, evenly, in an order that chance draws anew
//                           each time round
//   known copy MIB          copies of that size within the device
//   known fill MIB          fills of that size
//   known one LAUNCH_US     a run is one launch of that length
//   known streams LAUNCH_US STREAMS   launches on so many streams at once
//   known crowd LAUNCH_US STREAMS     launches of three functions, of 1/4, 1 and 2 times that length, on so many at once
//
// A simulated board goes by a function's name: there all launches take LAUNCH_US.
// Talks as work.cu does: "solo" measures alone and answers with nanoseconds of GPU time a unit (two: both lengths;
// random: all 64); "run SECONDS" works and answers with units, seconds and 0. "lie PART": from now on it lets only that
// part of its GPU time stand in its usage page, and answers with 0.

#include <stdbool.h>

#include "../../native/include/jvgpu/pages.h"
#include "../sim/client.h"

enum { DEPTH = 8, LENGTHS = 64, MOST_TIMES = 10, MOST_STREAMS = 256, FUNCTIONS = 3 };

// source: read off an H200, 1,056 blocks of 256 threads (benchmarks/sim/client.h)
static const double us_per_iteration = 0.0208;
// source: read off an H200; it only says how often a mark is made
static const double copied_mib_per_us = 2;

int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
int cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream);

static const char *mode;
static double      launch_us;
static client_t    client;
static CUfunction  twin;  // the same code under another name: what is learned of the one is not known of the other
static CUstream    streams[MOST_STREAMS];
static int         stream_count;
static CUfunction  crowd[FUNCTIONS];
static CUdeviceptr from, to;
static size_t      bytes;
static int         order[LENGTHS];
static uint32_t    chance = 2463534242u;

static struct {
  jvgpu_use_t *use;
  double       part;
  uint64_t     stands_ns;
} lie;

static bool in_mode(const char *name)
{
  return strcmp(mode, name) == 0;
}

static CUfunction function_of(const char *name)
{
  char       image[4096];
  CUmodule   module;
  CUfunction function;
  snprintf(image, sizeof image, client_ptx, name);
  MUST(cuModuleLoadData(&module, image));
  MUST(cuModuleGetFunction(&function, module, name));
  return function;
}

static void launch(double times)
{
  client.iterations = (int)(launch_us * times / us_per_iteration);
  client_launch(&client);
}

static const double crowd_times[FUNCTIONS] = {0.25, 1, 2};

static void open_streams(int count)
{
  char name[64];
  for (; stream_count < count; stream_count++) {
    MUST(cuStreamCreate(&streams[stream_count], CLIENT_NON_BLOCKING));
  }
  for (int i = 0; i < FUNCTIONS; i++) {
    snprintf(name, sizeof name, "sim_busy_%.0fns", launch_us * crowd_times[i] * 1e3);
    crowd[i] = in_mode("crowd") ? function_of(name) : client.function;
  }
}

// One launch on each stream.
static void launch_on_all(void)
{
  const CUfunction function = client.function;
  const CUstream   stream = client.stream;
  for (int i = 0; i < stream_count; i++) {
    client.function = crowd[i % FUNCTIONS];
    client.stream = streams[i];
    launch(in_mode("crowd") ? crowd_times[i % FUNCTIONS] : 1);
  }
  client.function = function;
  client.stream = stream;
}

// Its usage page is mapped, and found as any program can. Its process has the first slot.
static void begin_lie(double part)
{
  char          line[512];
  unsigned long begin;
  FILE         *maps = fopen("/proc/self/maps", "re");
  while (maps != NULL && lie.use == NULL && fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, "jvgpu-usage") != NULL && sscanf(line, "%lx-%*x rw-s", &begin) == 1) {
      jvgpu_usage_t *page = (jvgpu_usage_t *)begin;
      lie.use = &page->slots[0].devices[0];
    }
  }
  if (lie.use == NULL) {
    fprintf(stderr, "no usage page is mapped: nothing to lie in\n");
    _exit(1);
  }
  fclose(maps);
  lie.part = part;
  lie.stands_ns = lie.use->busy_ns;
}

static void tell_lie(void)
{
  if (lie.use != NULL) {
    lie.stands_ns += (uint64_t)((double)(lie.use->busy_ns - lie.stands_ns) * lie.part);
    lie.use->busy_ns = lie.stands_ns;
  }
}

// source: Marsaglia, "Xorshift RNGs" (2003)
static uint32_t draw(uint32_t below)
{
  chance ^= chance << 13;
  chance ^= chance >> 17;
  chance ^= chance << 5;
  return (uint32_t)((uint64_t)chance * below >> 32);
}

static void shuffle(void)
{
  for (int i = LENGTHS - 1; i > 0; i--) {
    const int other = (int)draw((uint32_t)i + 1);
    const int kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

static void unit(void)
{
  if (in_mode("two")) {
    launch(1);
    launch(MOST_TIMES);
  } else if (in_mode("random")) {
    shuffle();
    for (int i = 0; i < LENGTHS; i++) {
      launch(1 + (double)order[i] * (MOST_TIMES - 1) / (LENGTHS - 1));
    }
  } else if (in_mode("copy")) {
    MUST(cuMemcpyDtoDAsync_v2(to, from, bytes, client.stream));
  } else if (in_mode("fill")) {
    MUST(cuMemsetD32Async(to, 0, bytes / 4, client.stream));
  } else if (stream_count > 0) {
    launch_on_all();
  } else {
    launch(1);
  }
}

static double unit_us(void)
{
  if (bytes > 0) {
    return (double)(bytes >> 20) / copied_mib_per_us;
  }
  return launch_us * (in_mode("two") ? 1 + MOST_TIMES : in_mode("random") ? LENGTHS * (1 + MOST_TIMES) / 2.0 : 1);
}

// Enough in flight to keep the GPU busy, not so much that the end is far away.
static double work(double seconds, long most, long *units)
{
  static CUevent marks[DEPTH];
  // A mark costs the GPU time of its own: not after each short launch.
  const long   marked = stream_count > 0 || unit_us() > 400 ? 1 : 1 + (long)(400 / unit_us());
  const double begun = client_now();
  long         done = 0;
  for (int i = 0; i < DEPTH && marks[i] == NULL; i++) {
    MUST(cuEventCreate(&marks[i], CLIENT_NO_TIMING));
  }
  while (done < most && client_now() - begun < seconds) {
    unit();
    tell_lie();
    done++;
    if (done % marked == 0) {
      const long mark = done / marked;
      MUST(cuEventRecord(marks[mark % DEPTH], stream_count > 0 ? streams[mark % stream_count] : client.stream));
      if (mark >= DEPTH) {
        MUST(cuEventSynchronize(marks[(mark + 1) % DEPTH]));
      }
    }
  }
  MUST(cuStreamSynchronize(client.stream));
  for (int i = 0; i < stream_count; i++) {
    MUST(cuStreamSynchronize(streams[i]));
  }
  *units = done;
  return client_now() - begun;
}

// Of one long launch: ten times what the twin takes for a tenth of it.
static double measure_alone(void)
{
  const double     whole_us = launch_us;
  const CUfunction whole = client.function;
  const bool       is_one = in_mode("one");
  double           best = 1e30;
  long             units;
  if (is_one) {
    client.function = twin;
    launch_us /= MOST_TIMES;
  }
  for (int i = 0; i < (is_one ? 2 : 4); i++) {  // the first brings the clocks up
    const double each = work(0.06, is_one ? 1 : 1L << 40, &units) * 1e9 / (double)units;
    best = i > 0 && each < best ? each : best;
  }
  client.function = whole;
  launch_us = whole_us;
  return is_one ? best * MOST_TIMES : best;
}

int main(int count, char **arguments)
{
  char   line[64];
  char   name[64];
  double seconds;  // or the part that is let stand
  long   units;
  mode = count > 1 ? arguments[1] : "";
  const bool has_streams = in_mode("streams") || in_mode("crowd");
  const int  wanted = has_streams && count > 3 ? atoi(arguments[3]) : 0;
  if (count != (has_streams ? 4 : 3) || atof(arguments[2]) <= 0 || (has_streams && wanted < 1) ||
      wanted > MOST_STREAMS) {
    fprintf(stderr, "usage: known burn|two|random|one LAUNCH_US, or streams|crowd LAUNCH_US 1..%d, or copy|fill MIB\n",
            MOST_STREAMS);
    return 2;
  }
  launch_us = atof(arguments[2]);
  snprintf(name, sizeof name, "sim_busy_%.0fns", launch_us * 1e3);
  setenv("FUNCTION", name, 1);
  client = client_start();
  open_streams(wanted);
  if (in_mode("one")) {
    snprintf(name, sizeof name, "sim_busy_%.0fns", launch_us * 1e3 / MOST_TIMES);
    twin = function_of(name);
  }
  if (in_mode("copy") || in_mode("fill")) {
    bytes = (size_t)atoi(arguments[2]) << 20;
    MUST(cuMemAlloc_v2(&from, bytes));
    MUST(cuMemAlloc_v2(&to, bytes));
  }
  for (int i = 0; i < LENGTHS; i++) {
    order[i] = i;
  }
  if (!in_mode("one")) {
    unit();
    MUST(cuStreamSynchronize(client.stream));
  }
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (strncmp(line, "solo", 4) == 0) {
      printf("%.1f\n", measure_alone());
    } else if (sscanf(line, "lie %lf", &seconds) == 1) {
      begin_lie(seconds);
      printf("0\n");
    } else if (sscanf(line, "run %lf", &seconds) == 1) {
      const double took = work(seconds, in_mode("one") ? 1 : 1L << 40, &units);
      printf("%ld %.6f 0\n", units, took);
    } else {
      break;
    }
    fflush(stdout);
  }
  return 0;
}
