#define _GNU_SOURCE
#include "route.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "loader.h"
#include "real.h"
#include "trace.h"

typedef struct row_s {
  const char     *name;
  size_t          name_bytes;
  void           *hook;
  void          **real;
  jvgpu_library_t library;
} row_t;

static const row_t rows[] = {
#define CU(symbol, parameters, arguments) \
  {#symbol, sizeof #symbol - 1, (void *)&symbol, (void **)&jvgpu_real.symbol, JVGPU_CUDA},
#define NVML(symbol, parameters, arguments) \
  {#symbol, sizeof #symbol - 1, (void *)&symbol, (void **)&jvgpu_real.symbol, JVGPU_NVML},
#include "entrypoints.def"
#undef CU
#undef NVML
};
static const size_t row_count = sizeof rows / sizeof rows[0];

// A linear look: lengths first, and only for names that begin like the driver's. A process makes
// some hundreds of look-ups, once.
static const row_t *row_named(const char *name)
{
  if (name == NULL || !((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v'))) {
    return NULL;
  }
  const size_t bytes = strlen(name);
  for (size_t i = 0; i < row_count; i++) {
    if (rows[i].name_bytes == bytes && memcmp(rows[i].name, name, bytes) == 0) {
      return &rows[i];
    }
  }
  return NULL;
}

void *jvgpu_route_pointer(void *address)
{
  if (address == NULL) {
    return NULL;
  }
  for (size_t i = 0; i < row_count; i++) {
    if (*rows[i].real == address) {
      return rows[i].hook;
    }
  }
  return address;
}

static jvgpu_answer_t jump_to(void *function)
{
  // Without the C library's function there is nothing to jump to, and nothing to be found either.
  return (jvgpu_answer_t){.address = function, .answered = function == NULL};
}

static jvgpu_answer_t answer(void *address)
{
  return (jvgpu_answer_t){.address = address, .answered = 1};
}

static void *look_after_us(const row_t *row, const char *version)
{
  // From our own frame RTLD_NEXT means "after us in the global scope": what the program would have
  // found had we not been there. A driver opened RTLD_LOCAL is not in that scope, but may be in the
  // caller's; since it is loaded, its caller gets the hook.
  const jvgpu_dl_t *dl = jvgpu_dl();
  void             *found = version == NULL ? dl->sym(RTLD_NEXT, row->name) : dl->vsym(RTLD_NEXT, row->name, version);
  if (found == NULL && jvgpu_loaded(row->library) && *row->real != NULL) {
    return row->hook;
  }
  return found;
}

// The name is one of ours. `found` is what the C library said for the caller's handle, or for what
// comes after us where the handle means the caller.
static void *settle(const row_t *row, void *found, const char *version)
{
  if (found == row->hook) {
    // A look-up from the program's global scope meets our export first; without us it would have
    // met the driver's, if that is there.
    if (jvgpu_loaded(row->library) && *row->real != NULL) {
      return row->hook;
    }
    // Looked for again, so that the C library has its own error to tell: a caller may print it unseen.
    found = look_after_us(row, version);
  }
  return found != NULL && jvgpu_is_drivers(row->library, found) ? row->hook : found;
}

jvgpu_answer_t jvgpu_route_dlsym(void *handle, const char *name)
{
  const jvgpu_dl_t *dl = jvgpu_dl();
  const row_t      *row = dl->sym == NULL ? NULL : row_named(name);

  jvgpu_trace("dlsym", name);
  if (row == NULL) {
    return jump_to((void *)dl->sym);
  }
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) {
    return answer(settle(row, look_after_us(row, NULL), NULL));
  }
  return answer(settle(row, dl->sym(handle, name), NULL));
}

jvgpu_answer_t jvgpu_route_dlvsym(void *handle, const char *name, const char *version)
{
  const jvgpu_dl_t *dl = jvgpu_dl();
  const row_t      *row = dl->vsym == NULL ? NULL : row_named(name);

  jvgpu_trace("dlvsym", name);
  if (row == NULL) {
    return jump_to((void *)dl->vsym);
  }
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) {
    return answer(settle(row, look_after_us(row, version), version));
  }
  return answer(settle(row, dl->vsym(handle, name, version), version));
}
