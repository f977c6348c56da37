// cuGetProcAddress: the newest version of a function that the caller's toolkit knows.
//
// source: CUDA Driver API 13.0, "Driver Entry Point Access"; the numbers are those of cudaTypedefs.h.

#include <stdlib.h>
#include <string.h>

#include "driver.h"

// Every exported function, without its parameters: here only the address matters.
#define SIM_ENTRY(name, symbol, version) SIM_SYMBOL(symbol)
#define SIM_TWIN(name, symbol, version) SIM_SYMBOL(symbol)
#define SIM_SYMBOL(symbol) extern char sim_address_of_##symbol[] __asm__(#symbol);
#include "driver.def"
#include "unsupported.def"
#undef SIM_ENTRY
#undef SIM_TWIN
#undef SIM_SYMBOL

typedef struct sim_entry_s {
  const char *name;
  int         version;
  bool        is_twin;  // of the per-thread default stream
  void       *address;
} sim_entry_t;

static sim_entry_t entries[] = {
#define SIM_ENTRY(name, symbol, version) {#name, version, false, sim_address_of_##symbol},
#define SIM_TWIN(name, symbol, version) {#name, version, true, sim_address_of_##symbol},
#include "driver.def"
#include "unsupported.def"
#undef SIM_ENTRY
#undef SIM_TWIN
};

static int compare_rows(const void *one, const void *other)
{
  const sim_entry_t *a = one;
  const sim_entry_t *b = other;
  const int          names = strcmp(a->name, b->name);
  return names != 0 ? names : a->version - b->version;
}

// In the order of names the rows of one name are neighbours, and bsearch finds one of them.
static void sort_entries(void)
{
  qsort(entries, sizeof entries / sizeof *entries, sizeof *entries, compare_rows);
}

static int compare_names(const void *key, const void *entry)
{
  return strcmp(key, ((const sim_entry_t *)entry)->name);
}

// What cannot be found is no error of the call: the address is NULL and the status says why.
// source: cuda.h 13.0, cuGetProcAddress
static void look_up(const char *symbol, void **address, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *status)
{
  static pthread_once_t is_sorted = PTHREAD_ONCE_INIT;
  pthread_once(&is_sorted, sort_entries);
  const sim_entry_t *found = bsearch(symbol, entries, sizeof entries / sizeof *entries, sizeof *entries, compare_names);
  if (found == NULL || sim_is_missing(sim_opened(), symbol)) {
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return;
  }
  while (found > entries && strcmp(found[-1].name, symbol) == 0) {
    found--;
  }
  const sim_entry_t *plain = NULL;
  const sim_entry_t *twin = NULL;
  for (; found < entries + sizeof entries / sizeof *entries && strcmp(found->name, symbol) == 0; found++) {
    const sim_entry_t **best = found->is_twin ? &twin : &plain;
    if (found->version <= version && (*best == NULL || found->version >= (*best)->version)) {
      *best = found;
    }
  }
  if (plain == NULL) {
    *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return;
  }
  const bool wants_twin = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  *address = wants_twin && twin != NULL ? twin->address : plain->address;
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
}

SIM_API CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
  enum { BOTH = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };
  CUdriverProcAddressQueryResult ignored;
  if (symbol == NULL || address == NULL || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ||
      version > sim_driver_version()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *address = NULL;
  look_up(symbol, address, version, flags & BOTH, status == NULL ? &ignored : status);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuGetProcAddress(const char *symbol, void **address, int version, cuuint64_t flags)
{
  // Without a place for the status what cannot be found is an error.
  const CUresult result = cuGetProcAddress_v2(symbol, address, version, flags, NULL);
  return result == CUDA_SUCCESS && *address == NULL ? CUDA_ERROR_NOT_FOUND : result;
}

// Tables of functions without names or documented parameters, which the CUDA runtime cannot do without: by some of them
// it has the driver prove that it is NVIDIA's. So this one has none, and the runtime's error says "not supported".
SIM_API CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
  if (table == NULL || id == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *table = NULL;
  return CUDA_ERROR_NOT_SUPPORTED;
}
