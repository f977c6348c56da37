// The hooks' own cost, round the simulated driver's calls, which do next to nothing.
// Prints "name<TAB>ns" lines. Run with and without the library preloaded; run.py does both.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned long long pointer_t;

static double now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *find(const char *name)
{
  static void *driver;
  driver = driver == NULL ? dlopen("libcuda.so.1", RTLD_NOW) : driver;
  void *found = driver == NULL ? NULL : dlsym(driver, name);
  if (found == NULL) {
    fprintf(stderr, "no %s: %s\n", name, dlerror());
    exit(1);
  }
  return found;
}

#define MEASURE(name, batches, calls, call)             \
  do {                                                  \
    double best = 1e30;                                 \
    for (int batch = 0; batch < (batches); batch++) {   \
      const double begun = now_ns();                    \
      for (int i = 0; i < (calls); i++) {               \
        call;                                           \
      }                                                 \
      const double each = (now_ns() - begun) / (calls); \
      best = each < best ? each : best;                 \
      synchronize();                                    \
    }                                                   \
    printf("%s\t%.1f\n", name, best);                   \
  } while (0)

int main(void)
{
  int (*init)(unsigned) = find("cuInit");
  int (*retain)(void **, int) = find("cuDevicePrimaryCtxRetain");
  int (*set_current)(void *) = find("cuCtxSetCurrent");
  int (*synchronize)(void) = find("cuCtxSynchronize");
  int (*load)(void **, const void *) = find("cuModuleLoadData");
  int (*get_function)(void **, void *, const char *) = find("cuModuleGetFunction");
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                void **) = find("cuLaunchKernel");
  int (*take)(pointer_t *, size_t) = find("cuMemAlloc_v2");
  int (*give)(pointer_t) = find("cuMemFree_v2");
  int (*take_async)(pointer_t *, size_t, void *) = find("cuMemAllocAsync");
  int (*give_async)(pointer_t, void *) = find("cuMemFreeAsync");
  int (*is_capturing)(void *, int *) = find("cuStreamIsCapturing");
  void     *context, *module, *function;
  pointer_t p;
  int       status;

  if (init(0) != 0 || retain(&context, 0) != 0 || set_current(context) != 0 || load(&module, "any text") != 0 ||
      get_function(&function, module, "sim_null") != 0) {
    fprintf(stderr, "the simulated driver does not start\n");
    return 1;
  }
  MEASURE("launch", 50, 1000, launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
  MEASURE("cuMemAlloc + cuMemFree, 1 MiB", 50, 500, (take(&p, 1 << 20), give(p)));
  MEASURE("cuMemAllocAsync + cuMemFreeAsync, 1 MiB", 50, 500, (take_async(&p, 1 << 20, NULL), give_async(p, NULL)));
  MEASURE("cuStreamIsCapturing (not hooked)", 50, 1000, is_capturing(NULL, &status));
  return 0;
}
