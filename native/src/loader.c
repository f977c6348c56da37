// source: the layout of symbol tables is the System V ABI's; the GNU hash table is glibc's,
// documented in "ELF: symbol lookup via DT_HASH / DT_GNU_HASH" (flapenguin.me) and binutils.

#define _GNU_SOURCE
#include "loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "real.h"

jvgpu_real_t jvgpu_real;

static struct {
  jvgpu_dl_t dl;
  int        bound[2];  // by jvgpu_library_t; set with release after jvgpu_real is filled
} loader;

// --- the C library's dlsym family, read from its symbol table -----------------------------------------

typedef struct tables_s {
  const ElfW(Sym)  *symbols;
  const char       *strings;
  const uint32_t   *gnu_hash;
  const ElfW(Word) *sysv_hash;
} tables_t;

// A sanitizer, or an allocator of the program's own, asks for functions before it has any itself: it stands before the C
// library in the program's scope, and whatever we called by name would be its own, not there yet. So nothing is called
// until the C library's functions are found. catches a bug where any program built with -fsanitize=address or thread
// ended at its start (CASES 19)

static bool is_same(const char *text, const char *other)
{
  while (*text != '\0' && *text == *other) {
    text++;
    other++;
  }
  return *text == *other;
}

static bool starts_with(const char *text, const char *prefix)
{
  while (*prefix != '\0' && *text == *prefix) {
    text++;
    prefix++;
  }
  return *prefix == '\0';
}

static const char *base_name(const char *path)
{
  const char *base = path;
  for (; *path != '\0'; path++) {
    base = *path == '/' ? path + 1 : base;
  }
  return base;
}

static uintptr_t table_address(ElfW(Addr) base, ElfW(Addr) value)
{
  // glibc relocates these in place on most architectures; elsewhere they are offsets.
  return value < base ? base + value : value;
}

static bool read_tables(ElfW(Addr) base, const ElfW(Dyn) *entry, tables_t *tables)
{
  tables->symbols = NULL;
  tables->strings = NULL;
  tables->gnu_hash = NULL;
  tables->sysv_hash = NULL;
  for (; entry->d_tag != DT_NULL; entry++) {
    const uintptr_t address = table_address(base, entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_SYMTAB: tables->symbols = (const ElfW(Sym) *)address; break;
      case DT_STRTAB: tables->strings = (const char *)address; break;
      case DT_GNU_HASH: tables->gnu_hash = (const uint32_t *)address; break;
      case DT_HASH: tables->sysv_hash = (const ElfW(Word) *)address; break;
      default: break;
    }
  }
  return tables->symbols != NULL && tables->strings != NULL && (tables->gnu_hash != NULL || tables->sysv_hash != NULL);
}

static bool is_function_named(const tables_t *tables, uint32_t index, const char *name)
{
  const ElfW(Sym) *symbol = &tables->symbols[index];
  return symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 0xf) == STT_FUNC &&
         is_same(tables->strings + symbol->st_name, name);
}

static uint32_t gnu_hash_of(const char *name)
{
  uint32_t hash = 5381;
  for (; *name != '\0'; name++) {
    hash = hash * 33 + (unsigned char)*name;
  }
  return hash;
}

static uint32_t find_by_gnu_hash(const tables_t *tables, const char *name)
{
  const uint32_t  bucket_count = tables->gnu_hash[0];
  const uint32_t  first = tables->gnu_hash[1];
  const uint32_t  bloom_words = tables->gnu_hash[2];
  const uint32_t *buckets = tables->gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t *chains = buckets + bucket_count;
  const uint32_t  hash = gnu_hash_of(name);
  uint32_t        index = buckets[hash % bucket_count];

  if (index < first) {
    return 0;
  }
  for (;; index++) {
    const uint32_t chain = chains[index - first];
    if ((chain | 1u) == (hash | 1u) && is_function_named(tables, index, name)) {
      return index;
    }
    if ((chain & 1u) != 0) {
      return 0;
    }
  }
}

static uint32_t find_by_sysv_hash(const tables_t *tables, const char *name)
{
  const uint32_t symbol_count = tables->sysv_hash[1];
  for (uint32_t index = 1; index < symbol_count; index++) {
    if (is_function_named(tables, index, name)) {
      return index;
    }
  }
  return 0;
}

static void *find_function(ElfW(Addr) base, const tables_t *tables, const char *name)
{
  const uint32_t index = tables->gnu_hash != NULL ? find_by_gnu_hash(tables, name) : find_by_sysv_hash(tables, name);
  return index == 0 ? NULL : (void *)(base + tables->symbols[index].st_value);
}

static bool is_complete(void)
{
  const jvgpu_dl_t *dl = &loader.dl;
  return dl->sym != NULL && dl->vsym != NULL && dl->open != NULL && dl->close != NULL && dl->addr != NULL;
}

static void look_into(const char *path, ElfW(Addr) base, const ElfW(Dyn) *dynamic)
{
  const char *name = base_name(path);
  tables_t    tables;
  if (!(starts_with(name, "libc.so.") || starts_with(name, "libc-2.") || starts_with(name, "libdl.so.") ||
        starts_with(name, "libdl-2."))) {
    return;
  }
  if (!read_tables(base, dynamic, &tables)) {
    return;
  }
#define TAKE(member, symbol)                                                 \
  do {                                                                       \
    if (loader.dl.member == NULL) {                                          \
      void *found = find_function(base, &tables, symbol);                    \
      __atomic_store_n((void **)&loader.dl.member, found, __ATOMIC_RELEASE); \
    }                                                                        \
  } while (0)
  TAKE(sym, "dlsym");
  TAKE(vsym, "dlvsym");
  TAKE(open, "dlopen");
  TAKE(close, "dlclose");
  TAKE(addr, "dladdr");
#undef TAKE
}

static int visit_object(struct dl_phdr_info *object, size_t bytes, void *context)
{
  (void)bytes;
  (void)context;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    if (object->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      look_into(object->dlpi_name, object->dlpi_addr,
                (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr));
    }
  }
  return is_complete();
}

const jvgpu_dl_t *jvgpu_dl(void)
{
  if (__atomic_load_n((void **)&loader.dl.addr, __ATOMIC_ACQUIRE) == NULL) {
    // What a program starts with comes first, is never unloaded, and has the C library among it.
    for (const struct link_map *map = _r_debug.r_map; map != NULL && !is_complete(); map = map->l_next) {
      look_into(map->l_name, map->l_addr, map->l_ld);
    }
    if (!is_complete()) {
      dl_iterate_phdr(visit_object, NULL);
    }
  }
  return &loader.dl;
}

// --- the driver's libraries --------------------------------------------------------------------------------

static const char *const sonames[] = {[JVGPU_CUDA] = "libcuda.so.1", [JVGPU_NVML] = "libnvidia-ml.so.1"};
static const char *const stems[] = {[JVGPU_CUDA] = "libcuda.so", [JVGPU_NVML] = "libnvidia-ml.so"};

static void take(void **member, void *handle, const char *name)
{
  void *found = loader.dl.sym(handle, name);
  __atomic_store_n(member, found, __ATOMIC_RELAXED);
}

static void bind_cuda(void *handle)
{
#define CU(name, parameters, arguments) take((void **)&jvgpu_real.name, handle, #name);
#define NVML(name, parameters, arguments)
#include "entrypoints.def"
#undef CU
#undef NVML
#define ASK(name) take((void **)&jvgpu_real.name, handle, #name)
  ASK(cuCtxGetCurrent);
  ASK(cuCtxSetCurrent);
  ASK(cuCtxGetDevice);
  ASK(cuEventCreate);
  ASK(cuEventRecord);
  ASK(cuEventRecord_ptsz);
  ASK(cuEventQuery);
  ASK(cuEventElapsedTime);
  ASK(cuStreamCreate);
  ASK(cuStreamCreateWithPriority);
  ASK(cuStreamQuery);
  ASK(cuThreadExchangeStreamCaptureMode);
  ASK(cuDeviceGetCount);
  ASK(cuDeviceGet);
  ASK(cuDeviceGetUuid_v2);
  if (jvgpu_real.cuDeviceGetUuid_v2 == NULL) {
    take((void **)&jvgpu_real.cuDeviceGetUuid_v2, handle, "cuDeviceGetUuid");
  }
  ASK(cuDeviceGetMemPool);
  ASK(cuDevicePrimaryCtxGetState);
  ASK(cuStreamIsCapturing);
  ASK(cuStreamIsCapturing_ptsz);
  ASK(cuMemPoolGetAttribute);
  ASK(cuMemPoolSetAttribute);
  ASK(cuArrayGetMemoryRequirements);
  ASK(cuMipmappedArrayGetMemoryRequirements);
  ASK(cuCtxGetApiVersion);
  ASK(cuCtxGetLimit);
  ASK(cuCtxFromGreenCtx);
  ASK(cuDeviceGetAttribute);
  ASK(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  ASK(cuDeviceGetDefaultMemPool);
  ASK(cuMemGetDefaultMemPool);
  ASK(cuDeviceGetGraphMemAttribute);
  ASK(cuGraphChildGraphNodeGetGraph);
  ASK(cuGraphGetNodes);
  ASK(cuGraphMemAllocNodeGetParams);
  ASK(cuGraphNodeGetType);
  ASK(cuStreamGetDevice);
  ASK(cuMemGetAddressRange_v2);
  ASK(cuPointerGetAttributes);
#undef ASK
}

static void bind_nvml(void *handle)
{
#define CU(name, parameters, arguments)
#define NVML(name, parameters, arguments) take((void **)&jvgpu_real.name, handle, #name);
#include "entrypoints.def"
#undef CU
#undef NVML
  take((void **)&jvgpu_real.nvmlDeviceGetUUID, handle, "nvmlDeviceGetUUID");
}

// Bind to the object that `path` names, if it is loaded. The handle is kept: the driver stays.
static bool bind_to(jvgpu_library_t library, const char *path)
{
  const jvgpu_dl_t *dl = jvgpu_dl();
  if (__atomic_load_n(&loader.bound[library], __ATOMIC_ACQUIRE) != 0) {
    return true;
  }
  if (dl->open == NULL || dl->sym == NULL) {
    return false;
  }
  void *handle = dl->open(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL) {
    return false;
  }
  if (library == JVGPU_CUDA) {
    bind_cuda(handle);
  } else {
    bind_nvml(handle);
  }
  // Release: whoever sees `bound` sees the pointers. Two threads may both bind, to the same values.
  __atomic_store_n(&loader.bound[library], 1, __ATOMIC_RELEASE);
  return true;
}

bool jvgpu_loaded(jvgpu_library_t library)
{
  return __atomic_load_n(&loader.bound[library], __ATOMIC_ACQUIRE) != 0 || bind_to(library, sonames[library]);
}

bool jvgpu_is_drivers(jvgpu_library_t library, const void *address)
{
  const jvgpu_dl_t *dl = jvgpu_dl();
  Dl_info           info;
  if (dl->addr == NULL || dl->addr(address, &info) == 0 || info.dli_fname == NULL) {
    return false;
  }
  if (!starts_with(base_name(info.dli_fname), stems[library])) {
    return false;
  }
  return bind_to(library, info.dli_fname);
}
