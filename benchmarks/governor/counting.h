// Counts what a tenant has finished, and when: by millisecond, from the completion of events.

#ifndef JVGPU_GOVERNOR_COUNTING_H
#define JVGPU_GOVERNOR_COUNTING_H

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "../sim/client.h"

int cuCtxGetCurrent(CUcontext *context);

enum { MOST_IN_FLIGHT = 128, BINS_PER_SECOND = 1000, MOST_WAITS = 1 << 20, MOST_EDGES = 4096, TAIL_SECONDS = 2 };

static long main_thread;
static long watching_thread;

// Batches in flight, oldest first. The main thread queues them; another one waits for each, so that the moment a batch
// is done is known even while a launch of the next is held back.
static struct {
  pthread_mutex_t lock;
  pthread_cond_t  moved;
  long            queued;
  long            done;
  int             depth;
  int             units[MOST_IN_FLIGHT];
  CUevent         events[MOST_IN_FLIGHT];
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

// What one run finished, by millisecond. Written by the watching thread, or by the main one where nothing is in flight.
static struct {
  double        start;
  unsigned int *bins;
  size_t        bin_count;
  long          units;
  double (*waits)[2];  // when each began, seconds, and how long it was, microseconds
  size_t wait_count;
  double edges[MOST_EDGES][2];
  size_t edge_count;
} result;

static void finished(double now, int units)
{
  result.units += units;
  const double at = (now - result.start) * BINS_PER_SECOND;
  if (at >= 0 && (size_t)at < result.bin_count) {
    result.bins[(size_t)at] += (unsigned int)units;
  }
}

static void waited(double from, double to)
{
  if (result.wait_count < MOST_WAITS) {
    result.waits[result.wait_count][0] = from;
    result.waits[result.wait_count++][1] = (to - from) * 1e6;
  }
}

static void paused(double from, double to)
{
  if (result.edge_count < MOST_EDGES) {
    result.edges[result.edge_count][0] = from;
    result.edges[result.edge_count++][1] = to;
  }
}

static void *watch(void *context)
{
  watching_thread = syscall(SYS_gettid);
  MUST(cuCtxSetCurrent(context));
  pthread_mutex_lock(&ring.lock);
  for (;;) {
    while (ring.done == ring.queued) {
      pthread_cond_wait(&ring.moved, &ring.lock);
    }
    const int place = (int)(ring.done % ring.depth);
    pthread_mutex_unlock(&ring.lock);
    MUST(cuEventSynchronize(ring.events[place]));
    finished(client_now(), ring.units[place]);
    pthread_mutex_lock(&ring.lock);
    ring.done++;
    pthread_cond_broadcast(&ring.moved);
  }
  return NULL;
}

static void wait_until_in_flight(long most)
{
  pthread_mutex_lock(&ring.lock);
  while (ring.queued - ring.done > most) {
    pthread_cond_wait(&ring.moved, &ring.lock);
  }
  pthread_mutex_unlock(&ring.lock);
}

// Marks the end of `units` units that were just launched on a stream. Batches on several streams are waited for in the
// order in which they were queued.
static void queue_mark(int units, CUstream stream)
{
  const int place = (int)(ring.queued % ring.depth);
  MUST(cuEventRecord(ring.events[place], stream));
  ring.units[place] = units;
  pthread_mutex_lock(&ring.lock);
  ring.queued++;
  pthread_cond_broadcast(&ring.moved);
  pthread_mutex_unlock(&ring.lock);
}

// returns: how often threads of this process other than the two of its own have given up or lost the processor
static long switches_of_others(void)
{
  DIR           *tasks = opendir("/proc/self/task");
  struct dirent *task;
  long           switches = 0;
  while (tasks != NULL && (task = readdir(tasks)) != NULL) {
    const long thread = atol(task->d_name);
    char       path[300];
    char       line[128];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *status = thread == 0 || thread == main_thread || thread == watching_thread ? NULL : fopen(path, "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
      long count;
      if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1 ||
          sscanf(line, "nonvoluntary_ctxt_switches: %ld", &count) == 1) {
        switches += count;
      }
    }
    if (status != NULL) {
      fclose(status);
    }
  }
  if (tasks != NULL) {
    closedir(tasks);
  }
  return switches;
}

static void say_result(double seconds, long switches)
{
  printf("{\"units\": %ld, \"seconds\": %.6f, \"other_switches\": %ld, \"bins\": [", result.units, seconds, switches);
  size_t last = result.bin_count;
  while (last > 0 && result.bins[last - 1] == 0) {
    last--;
  }
  for (size_t i = 0; i < last; i++) {
    printf("%s%u", i == 0 ? "" : ",", result.bins[i]);
  }
  printf("], \"waits\": [");
  for (size_t i = 0; i < result.wait_count; i++) {
    printf("%s[%.6f,%.1f]", i == 0 ? "" : ",", result.waits[i][0], result.waits[i][1]);
  }
  printf("], \"edges\": [");
  for (size_t i = 0; i < result.edge_count; i++) {
    printf("%s[%.6f,%.6f]", i == 0 ? "" : ",", result.edges[i][0], result.edges[i][1]);
  }
  printf("]}\n");
}

static void begin_result(double seconds, double start)
{
  free(result.bins);
  // What was begun in time and finished after it is seen, too: at the end, a part of it was done.
  result.bin_count = (size_t)((seconds + TAIL_SECONDS) * BINS_PER_SECOND);
  result.bins = calloc(result.bin_count + 1, sizeof *result.bins);
  result.units = 0;
  result.wait_count = result.edge_count = 0;
  result.start = start;
}

static void start_counting(int depth)
{
  pthread_t thread;
  CUcontext context;
  main_thread = syscall(SYS_gettid);
  ring.depth = depth;
  for (int i = 0; i < MOST_IN_FLIGHT; i++) {
    MUST(cuEventCreate(&ring.events[i], CLIENT_NO_TIMING));
  }
  result.waits = calloc(MOST_WAITS, sizeof *result.waits);
  MUST(cuCtxGetCurrent(&context));
  if (pthread_create(&thread, NULL, watch, context) != 0) {
    _exit(1);
  }
}

#endif
