// Threads that launch at once, each on a stream of its own and all on one, in several shapes, and wait now and then.
//
// usage: launch_at_once LAUNCHES THREADS LAUNCH_US
// Says "start" when the context is there and waits for a line; then how many launches were made, and waits for a line
// again.

#include <stdatomic.h>

#include "at_once.h"

enum { SHAPES = 4, SYNCHRONIZE_EVERY = 64 };

extern int cuStreamSynchronize(void *stream);
extern int cuModuleLoadData(void **module, const void *image);
extern int cuModuleGetFunction(void **function, void *module, const char *name);
extern int cuLaunchKernel(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                          void *stream, void **parameters, void **extra);

static void       *function, *common;
static int         launches;
static _Atomic int made;

static void *work(void *unused)
{
  void *own = own_stream();
  for (int i = 0; i < launches; i++) {
    void *stream = i % 3 == 0 ? common : own;
    ok(cuLaunchKernel(function, 200 + (unsigned)i % SHAPES, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), "cuLaunchKernel");
    made += 1;
    if (i % SYNCHRONIZE_EVERY == 0) {
      ok(cuStreamSynchronize(stream), "cuStreamSynchronize");
    }
  }
  return unused;
}

int main(int count, char **words)
{
  static const char module_text[] = "any text";
  char              name[64];
  void             *module;
  const int         threads = count == 4 ? atoi(words[2]) : 0;
  if (threads < 1 || threads > MOST_THREADS) {
    return 2;
  }
  launches = atoi(words[1]);
  snprintf(name, sizeof name, "sim_busy_%dus", atoi(words[3]));
  make_context();
  ok(cuStreamCreate(&common, 1), "cuStreamCreate");
  ok(cuModuleLoadData(&module, module_text), "cuModuleLoadData");
  ok(cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
  work_at_once(threads, work);
  say((unsigned long long)made);
  return 0;
}
