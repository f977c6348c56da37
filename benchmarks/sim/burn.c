// Tenants on one board, each a process of its own, always busy; freely, or in exclusive windows they hand each other.
//
//   burn free|token SECONDS QUANTUM_MS WEIGHT...
//
// THINK_US: the first tenant waits for each launch and pauses; CAP: the first tenant's hard share, 0..1.
// Says one line of JSON: launches per second of all, each tenant's part, the first one's latencies.

#include <pthread.h>
#include <stdbool.h>

#include "client.h"

enum { MOST = 16, EVENTS = 64, WINDOW_DEPTH = 16, WARM_UP = 100 };

typedef struct shared_s {
  pthread_mutex_t lock;
  pthread_cond_t  turn[MOST];
  int             holder;
  bool            is_waiting[MOST];
  double          virtual_seconds[MOST];
  double          weight[MOST];
  long            launches[MOST];
  double          latency_mean;
  double          latency_max;
  int             ready;
} shared_t;

typedef struct settings_s {
  bool   in_windows;
  double seconds;
  double quantum;
  int    think_us;
  double cap;
  int    tenants;
} settings_t;

static shared_t  *shared;
static settings_t settings;

static int neediest(void)
{
  int found = -1;
  for (int i = 0; i < settings.tenants; i++) {
    if (shared->is_waiting[i] && (found < 0 || shared->virtual_seconds[i] < shared->virtual_seconds[found])) {
      found = i;
    }
  }
  return found;
}

// Who was away does not come back with credit from then: at most 20 ms.
static void forget_absence(int self)
{
  double least = 1e30;
  for (int i = 0; i < settings.tenants; i++) {
    if (i != self && (shared->is_waiting[i] || shared->holder == i) && shared->virtual_seconds[i] < least) {
      least = shared->virtual_seconds[i];
    }
  }
  if (least < 1e29 && shared->virtual_seconds[self] < least - 0.02) {
    shared->virtual_seconds[self] = least - 0.02;
  }
}

static void acquire(int self)
{
  pthread_mutex_lock(&shared->lock);
  shared->is_waiting[self] = true;
  forget_absence(self);
  if (shared->holder < 0) {
    shared->holder = neediest();
    if (shared->holder != self) {
      pthread_cond_signal(&shared->turn[shared->holder]);
    }
  }
  const bool waits = shared->holder != self;
  while (shared->holder != self) {
    pthread_cond_wait(&shared->turn[self], &shared->lock);
  }
  shared->is_waiting[self] = false;
  pthread_mutex_unlock(&shared->lock);
  if (waits) {
    client_woken();
  }
}

static void release(void)
{
  pthread_mutex_lock(&shared->lock);
  shared->holder = neediest();
  if (shared->holder >= 0) {
    pthread_cond_signal(&shared->turn[shared->holder]);
  }
  pthread_mutex_unlock(&shared->lock);
}

static void charge(int self, double seconds)
{
  pthread_mutex_lock(&shared->lock);
  shared->virtual_seconds[self] += seconds / shared->weight[self];
  pthread_mutex_unlock(&shared->lock);
}

static bool should_yield(int self)
{
  pthread_mutex_lock(&shared->lock);
  const int  other = neediest();
  const bool yields = other >= 0 && shared->virtual_seconds[other] < shared->virtual_seconds[self];
  pthread_mutex_unlock(&shared->lock);
  return yields;
}

typedef struct window_s {
  bool   is_open;
  double since;
  double debt;
} window_t;

static void close_window(int self, window_t *window, CUstream stream)
{
  MUST(cuStreamSynchronize(stream));
  const double busy = client_now() - window->since;
  charge(self, busy);
  release();
  window->is_open = false;
  if (settings.cap > 0 && self == 0) {
    window->debt += busy * (1 - settings.cap) / settings.cap;
    const double start = client_now();
    client_sleep(window->debt);
    window->debt -= client_now() - start;
  }
}

static void end_of_quantum(int self, window_t *window, CUstream stream)
{
  if (!window->is_open || client_now() - window->since <= settings.quantum) {
    return;
  }
  if (should_yield(self) || (settings.cap > 0 && self == 0)) {
    close_window(self, window, stream);
    return;
  }
  const double now = client_now();
  charge(self, now - window->since);
  window->since = now;
}

static void think(int self, window_t *window, CUstream stream, double start, long launches)
{
  MUST(cuStreamSynchronize(stream));
  if (settings.in_windows) {
    close_window(self, window, stream);
  }
  const double latency = client_now() - start;
  shared->latency_mean += (latency - shared->latency_mean) / (double)launches;
  shared->latency_max = latency > shared->latency_max ? latency : shared->latency_max;
  client_spin(settings.think_us * 1e-6);
}

static void tenant(int self)
{
  client_t client = client_start();
  CUevent  events[EVENTS];
  window_t window = {.is_open = false};
  long     launches = 0;
  for (int i = 0; i < EVENTS; i++) {
    MUST(cuEventCreate(&events[i], CLIENT_NO_TIMING));
  }
  for (int i = 0; i < WARM_UP; i++) {
    client_launch(&client);
  }
  MUST(cuStreamSynchronize(client.stream));
  __sync_fetch_and_add(&shared->ready, 1);
  while (*(volatile int *)&shared->ready < settings.tenants) {
    usleep(100);
  }
  client_sleep(0.02);
  const int    depth = settings.in_windows ? WINDOW_DEPTH : EVENTS - 1;
  const double end = client_now() + settings.seconds;
  while (client_now() < end) {
    const double start = client_now();
    if (settings.in_windows && !window.is_open) {
      acquire(self);
      window = (window_t){.is_open = true, .since = client_now(), .debt = window.debt};
    }
    client_launch(&client);
    MUST(cuEventRecord(events[launches++ % EVENTS], client.stream));
    if (launches >= depth) {
      MUST(cuEventSynchronize(events[(launches - depth) % EVENTS]));
    }
    if (settings.think_us > 0 && self == 0) {
      think(self, &window, client.stream, start, launches);
    }
    end_of_quantum(self, &window, client.stream);
  }
  MUST(cuStreamSynchronize(client.stream));
  if (window.is_open) {
    release();
  }
  shared->launches[self] = launches;
  _exit(0);
}

static void prepare(char **weights)
{
  pthread_mutexattr_t mutex;
  pthread_condattr_t  condition;
  shared = client_shared(sizeof *shared);
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared->lock, &mutex);
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  for (int i = 0; i < settings.tenants; i++) {
    pthread_cond_init(&shared->turn[i], &condition);
    shared->weight[i] = atof(weights[i]);
  }
  shared->holder = -1;
}

int main(int count, char **arguments)
{
  if (count < 5 || count - 4 > MOST) {
    fprintf(stderr, "usage: burn free|token SECONDS QUANTUM_MS WEIGHT...\n");
    return 2;
  }
  const char *cap = getenv("CAP");
  settings = (settings_t){.in_windows = strcmp(arguments[1], "token") == 0,
                          .seconds = atof(arguments[2]),
                          .quantum = atof(arguments[3]) * 1e-3,
                          .think_us = client_setting("THINK_US", 0),
                          .cap = cap == NULL ? 0 : atof(cap),
                          .tenants = count - 4};
  prepare(arguments + 4);
  for (int i = 0; i < settings.tenants; i++) {
    if (fork() == 0) {
      tenant(i);
    }
  }
  int  status = 0;
  bool failed = false;
  while (wait(&status) > 0) {
    failed = failed || status != 0;
  }
  long total = 0;
  for (int i = 0; i < settings.tenants; i++) {
    total += shared->launches[i];
  }
  printf("{\"rate\": %.1f, \"latency_us\": %.1f, \"latency_max_us\": %.1f, \"parts\": [",
         (double)total / settings.seconds, shared->latency_mean * 1e6, shared->latency_max * 1e6);
  for (int i = 0; i < settings.tenants; i++) {
    printf("%s%.5f", i == 0 ? "" : ", ", (double)shared->launches[i] / (double)total);
  }
  printf("]}\n");
  return failed ? 1 : 0;
}
