// Batches back to back with events between them: how one that was switched out in the middle shows.
//
//   evt2 SECONDS LAUNCHES TENANTS
//
// Says one line of JSON about the first tenant: parts of the wall time that the events add up to, as they are and
// with the switched-out batches put right, and what is true (batches times their length alone); the excess of the
// switched-out ones, milliseconds.

#include "client.h"

enum { EVENTS = 16, DEPTH = 4, MOST_BATCHES = 1000000 };

static volatile int *ready;

static void batch(client_t *client, int launches)
{
  for (int i = 0; i < launches; i++) {
    client_launch(client);
  }
}

static double alone(client_t *client, CUevent *events, int launches)
{
  float milliseconds;
  float least = 1e30f;
  for (int i = 0; i < 5; i++) {
    MUST(cuEventRecord(events[0], client->stream));
    batch(client, launches);
    MUST(cuEventRecord(events[1], client->stream));
    MUST(cuEventSynchronize(events[1]));
    MUST(cuEventElapsedTime(&milliseconds, events[0], events[1]));
    least = milliseconds < least ? milliseconds : least;
  }
  return least;
}

static void report(double *lengths, size_t count, double alone_ms, double wall)
{
  double *excess = calloc(count + 1, sizeof *excess);
  size_t  interrupted = 0;
  double  raw = 0;
  double  clean = 0;
  qsort(lengths, count, sizeof *lengths, client_compare);
  const double usual = client_quantile(lengths, count, 0.1);
  for (size_t i = 0; i < count; i++) {
    raw += lengths[i];
    if (lengths[i] > usual * 1.3 + 0.05) {
      excess[interrupted++] = lengths[i] - usual;
      clean += usual;
    } else {
      clean += lengths[i];
    }
  }
  printf("{\"raw\": %.4f, \"clean\": %.4f, \"true\": %.4f, \"interrupted\": %.4f, \"excess_ms\": %.4f, "
         "\"excess_p90_ms\": %.4f, \"alone_ms\": %.4f}\n",
         raw / 1e3 / wall, clean / 1e3 / wall, (double)count * alone_ms / 1e3 / wall,
         (double)interrupted / (double)count, client_quantile(excess, interrupted, 0.5),
         client_quantile(excess, interrupted, 0.9), alone_ms);
  fflush(stdout);
}

static void tenant(int self, double seconds, int launches, int tenants)
{
  client_t client = client_start();
  CUevent  events[EVENTS];
  double  *lengths = calloc(MOST_BATCHES, sizeof *lengths);
  long     batches = 0;
  size_t   measured = 0;
  for (int i = 0; i < EVENTS; i++) {
    MUST(cuEventCreate(&events[i], 0));
  }
  while (*ready < self) {
    usleep(100);
  }
  const double alone_ms = alone(&client, events, launches);
  __sync_fetch_and_add(ready, 1);
  while (*ready < tenants) {
    usleep(100);
  }
  const double start = client_now();
  MUST(cuEventRecord(events[0], client.stream));
  while (client_now() - start < seconds && measured < MOST_BATCHES) {
    batch(&client, launches);
    MUST(cuEventRecord(events[++batches % EVENTS], client.stream));
    if (batches > DEPTH) {
      const long done = batches - DEPTH;
      float      milliseconds;
      MUST(cuEventSynchronize(events[done % EVENTS]));
      MUST(cuEventElapsedTime(&milliseconds, events[(done - 1) % EVENTS], events[done % EVENTS]));
      lengths[measured++] = milliseconds;
    }
  }
  const double wall = client_now() - start;
  MUST(cuStreamSynchronize(client.stream));
  if (self == 0) {
    report(lengths, measured, alone_ms, wall);
  }
  _exit(0);
}

int main(int count, char **arguments)
{
  if (count != 4) {
    fprintf(stderr, "usage: evt2 SECONDS LAUNCHES TENANTS\n");
    return 2;
  }
  const int tenants = atoi(arguments[3]);
  ready = client_shared(sizeof *ready);
  for (int i = 0; i < tenants; i++) {
    if (fork() == 0) {
      tenant(i, atof(arguments[1]), atoi(arguments[2]), tenants);
    }
  }
  int status;
  int failed = 0;
  while (wait(&status) > 0) {
    failed |= status != 0;
  }
  return failed;
}
