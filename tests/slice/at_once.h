// At once: what the programs share whose threads all do the same at the same moment. Linked against the driver, they
// know nothing of the library.

#ifndef AT_ONCE_H
#define AT_ONCE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 2048 };

extern int cuInit(unsigned flags);
extern int cuDevicePrimaryCtxRetain(void **context, int device);
extern int cuCtxSetCurrent(void *context);
extern int cuStreamCreate(void **stream, unsigned flags);

static void *context;

static void ok(int code, const char *what)
{
  if (code != 0) {
    fprintf(stderr, "%s answered %d\n", what, code);
    exit(1);
  }
}

static void make_context(void)
{
  ok(cuInit(0), "cuInit");
  ok(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  ok(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

// returns: a stream of the calling thread's own, in the context.
static void *own_stream(void)
{
  void *stream;
  ok(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  ok(cuStreamCreate(&stream, 1), "cuStreamCreate");
  return stream;
}

// Say "start", wait for a line, and have so many threads work until all have ended. pre: count <= MOST_THREADS.
static void work_at_once(int count, void *(*work)(void *))
{
  pthread_t workers[MOST_THREADS];
  printf("start\n");
  fflush(stdout);
  getchar();
  for (int i = 0; i < count; i++) {
    pthread_create(&workers[i], NULL, work, NULL);
  }
  for (int i = 0; i < count; i++) {
    pthread_join(workers[i], NULL);
  }
}

// Say what came of it, and wait for a line.
static void say(unsigned long long what)
{
  printf("%llu\n", what);
  fflush(stdout);
  getchar();
}

#endif
