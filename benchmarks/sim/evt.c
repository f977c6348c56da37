// What timing events say round bursts of launches, beside tenants that are always busy.
//
//   evt SECONDS GAP_US LAUNCHES NEIGHBOURS
//
// Says one line of JSON: quantiles of what the events and the host's clock said of a burst, microseconds.

#include "client.h"

enum { BATCH = 100, MOST_BURSTS = 1000000 };

typedef struct shared_s {
  volatile int ready;
} shared_t;

static shared_t *shared;

static void meet(int tenants)
{
  __sync_fetch_and_add(&shared->ready, 1);
  while (shared->ready < tenants) {
    usleep(100);
  }
}

static float timed_batch(client_t *client, CUevent *events, int launches)
{
  float milliseconds;
  MUST(cuEventRecord(events[0], client->stream));
  for (int i = 0; i < launches; i++) {
    client_launch(client);
  }
  MUST(cuEventRecord(events[1], client->stream));
  MUST(cuEventSynchronize(events[1]));
  MUST(cuEventElapsedTime(&milliseconds, events[0], events[1]));
  return milliseconds;
}

static void say(const char *name, double *values, size_t count)
{
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    sum += values[i];
  }
  qsort(values, count, sizeof *values, client_compare);
  printf("\"%s\": {\"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"mean\": %.2f}", name,
         client_quantile(values, count, 0.5), client_quantile(values, count, 0.9), client_quantile(values, count, 0.99),
         sum / (double)count);
}

static void bursts(client_t *client, CUevent *events, double seconds, int gap_us, int launches)
{
  double      *by_events = calloc(MOST_BURSTS, sizeof *by_events);
  double      *by_host = calloc(MOST_BURSTS, sizeof *by_host);
  size_t       count = 0;
  const double start = client_now();
  while (client_now() - start < seconds && count < MOST_BURSTS) {
    const double before = client_now();
    by_events[count] = timed_batch(client, events, launches) * 1e3;
    by_host[count++] = (client_now() - before) * 1e6;
    client_spin(gap_us * 1e-6);
  }
  printf("{\"bursts\": %zu, ", count);
  say("events_us", by_events, count);
  printf(", ");
  say("host_us", by_host, count);
  printf("}\n");
  fflush(stdout);
}

int main(int count, char **arguments)
{
  if (count != 5) {
    fprintf(stderr, "usage: evt SECONDS GAP_US LAUNCHES NEIGHBOURS\n");
    return 2;
  }
  const double seconds = atof(arguments[1]);
  const int    neighbours = atoi(arguments[4]);
  shared = client_shared(sizeof *shared);
  for (int i = 0; i <= neighbours; i++) {
    if (fork() == 0) {
      client_t client = client_start();
      CUevent  events[2];
      MUST(cuEventCreate(&events[0], 0));
      MUST(cuEventCreate(&events[1], 0));
      timed_batch(&client, events, 1);
      meet(neighbours + 1);
      if (i == neighbours) {
        bursts(&client, events, seconds, atoi(arguments[2]), atoi(arguments[3]));
        _exit(0);
      }
      const double start = client_now();
      while (client_now() - start < seconds) {
        timed_batch(&client, events, BATCH);
      }
      _exit(0);
    }
  }
  int status;
  int failed = 0;
  while (wait(&status) > 0) {
    failed |= status != 0;
  }
  return failed;
}
