#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "range.h"

enum { NAME_BYTES = 128 };

struct sim_global_s {
  char          name[NAME_BYTES];
  size_t        bytes;
  CUdeviceptr   start;
  sim_global_t *next;
};

static bool is_text(const char *image)
{
  return strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0;
}

static bool make(const char *name, unsigned long long bytes, CUcontext context, sim_global_t **globals)
{
  sim_global_t *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return false;
  }
  snprintf(made->name, sizeof made->name, "%s", name);
  made->bytes = (size_t)bytes;
  pthread_mutex_lock(&sim_lock);
  // A kind that cuMemFree refuses.
  const sim_range_t *range = sim_heap_take(context->device, made->bytes, SIM_RANGE_ARRAY, context);
  made->start = range == NULL ? 0 : range->start;
  pthread_mutex_unlock(&sim_lock);
  if (range == NULL) {
    free(made);
    return false;
  }
  made->next = *globals;
  *globals = made;
  return true;
}

bool sim_globals_load(const char *image, sim_global_t **globals)
{
  static const char word[] = ".global";
  CUcontext         context;
  *globals = NULL;
  if (!is_text(image) || sim_current(&context) != CUDA_SUCCESS) {
    return true;
  }
  for (const char *at = strstr(image, word); at != NULL; at = strstr(at + 1, word)) {
    char               name[NAME_BYTES];
    unsigned int       alignment;
    unsigned long long bytes;
    if (sscanf(at, ".global .align %u .b8 %127[A-Za-z0-9_$][%llu]", &alignment, name, &bytes) == 3 && bytes > 0 &&
        !make(name, bytes, context, globals)) {
      sim_globals_unload(*globals);
      *globals = NULL;
      return false;
    }
  }
  return true;
}

void sim_globals_unload(sim_global_t *globals)
{
  while (globals != NULL) {
    sim_global_t *gone = globals;
    globals = gone->next;
    pthread_mutex_lock(&sim_lock);
    // Its context may have taken it along.
    sim_range_t *range = sim_range_find_kind(gone->start, SIM_RANGE_ARRAY);
    if (range != NULL) {
      sim_heap_give(range);
    }
    pthread_mutex_unlock(&sim_lock);
    free(gone);
  }
}

bool sim_globals_find(const sim_global_t *globals, const char *name, CUdeviceptr *dptr, size_t *bytes)
{
  while (globals != NULL && strcmp(globals->name, name) != 0) {
    globals = globals->next;
  }
  if (globals != NULL && dptr != NULL) {
    *dptr = globals->start;
  }
  if (globals != NULL && bytes != NULL) {
    *bytes = globals->bytes;
  }
  return globals != NULL;
}
