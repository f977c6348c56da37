#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "range.h"

struct sim_global_s {
  size_t        bytes;
  CUdeviceptr   start;
  sim_global_t *next;
  char          name[];
};

typedef struct sim_loading_s {
  CUcontext     context;
  sim_global_t *made;
} sim_loading_t;

static bool is_text(const char *image)
{
  return strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0;
}

static bool make(sim_loading_t *loading, const char *name, size_t length, size_t bytes, const void *content)
{
  CUcontext     context = loading->context;
  sim_global_t *made = bytes == 0 ? NULL : calloc(1, sizeof *made + length + 1);
  if (made == NULL) {
    return bytes == 0;
  }
  memcpy(made->name, name, length);
  made->bytes = bytes;
  pthread_mutex_lock(&sim_lock);
  // A kind that cuMemFree refuses.
  const sim_range_t *range = sim_heap_take(context->device, made->bytes, SIM_RANGE_ARRAY, context);
  made->start = range == NULL ? 0 : range->start;
  pthread_mutex_unlock(&sim_lock);
  if (range == NULL) {
    free(made);
    return false;
  }
  made->next = loading->made;
  loading->made = made;
  if (content != NULL) {
    memcpy((void *)made->start, content, bytes);
  } else if (bytes < SIM_CHUNK_BYTES) {
    memset((void *)made->start, 0, bytes);  // larger memory is always new
  }
  return true;
}

static bool make_told(const char *name, size_t bytes, const void *content, void *loading)
{
  return make(loading, name, strlen(name), bytes, content);
}

static bool load_text(const char *text, sim_loading_t *loading)
{
  static const char word[] = ".global";
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$";
  for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
    int                start = 0;
    unsigned int       alignment;
    unsigned long long bytes;
    sscanf(at, ".global .align %u .b8 %n", &alignment, &start);
    const char  *name = at + start;
    const size_t length = start == 0 ? 0 : strspn(name, letters);
    if (length > 0 && sscanf(name + length, "[%llu]", &bytes) == 1 && !make(loading, name, length, bytes, NULL)) {
      return false;
    }
  }
  return true;
}

bool sim_globals_load(const void *image, size_t bytes, sim_global_t **globals)
{
  sim_loading_t loading = {0};
  *globals = NULL;
  if (sim_current(&loading.context) != CUDA_SUCCESS) {
    return true;
  }
  const bool has_all =
      is_text(image) ? load_text(image, &loading) : sim_cubin_variables(image, bytes, make_told, &loading);
  if (!has_all) {
    sim_globals_unload(loading.made);
    return false;
  }
  *globals = loading.made;
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
