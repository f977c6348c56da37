// The hooks' own cost: each call made through the hook and past it, in turns, in one process.
//
// Processes differ among themselves by more than a hook costs, so both ways are measured in the same
// one, batch by batch. The way past the hook is the address in the driver's own symbol table.
//
//   hook_calls [LIVE]     (so many allocations of 512 bytes are alive meanwhile; default 0)
//
// Run with the library preloaded. Prints "name<TAB>ns past the hook<TAB>ns through it" lines, the
// best batch of each.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

typedef unsigned long long pointer_t;

static void *driver;

static double now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *hook_of(const char *name)
{
  void *found = dlsym(driver, name);
  if (found == NULL) {
    fprintf(stderr, "no %s: %s\n", name, dlerror());
    exit(1);
  }
  return found;
}

// The function in the driver's file, by its section headers.
static void *real_of(const char *name)
{
  static const char      *file;
  static struct link_map *map;
  if (file == NULL) {
    struct stat info;
    dlinfo(driver, RTLD_DI_LINKMAP, &map);
    const int fd = open(map->l_name, O_RDONLY);
    if (fd < 0 || fstat(fd, &info) != 0) {
      exit(1);
    }
    file = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  }
  const ElfW(Ehdr) *header = (const void *)file;
  const ElfW(Shdr) *sections = (const void *)(file + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_DYNSYM) {
      continue;
    }
    const ElfW(Sym) *symbols = (const void *)(file + sections[i].sh_offset);
    const char      *strings = file + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
      if (symbols[k].st_shndx != SHN_UNDEF && strcmp(strings + symbols[k].st_name, name) == 0) {
        return (void *)(map->l_addr + symbols[k].st_value);
      }
    }
  }
  fprintf(stderr, "%s is not in %s\n", name, map->l_name);
  exit(1);
}

typedef struct ways_s {
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
  int (*take)(pointer_t *, size_t);
  int (*give)(pointer_t);
  int (*take_async)(pointer_t *, size_t, void *);
  int (*give_async)(pointer_t, void *);
  int (*info)(size_t *, size_t *);
} ways_t;

static ways_t find_ways(void *(*find)(const char *))
{
  return (ways_t){.launch = find("cuLaunchKernel"),
                  .take = find("cuMemAlloc_v2"),
                  .give = find("cuMemFree_v2"),
                  .take_async = find("cuMemAllocAsync"),
                  .give_async = find("cuMemFreeAsync"),
                  .info = find("cuMemGetInfo_v2")};
}

#define MEASURE(name, batches, calls, call)                              \
  do {                                                                   \
    double best[2] = {1e30, 1e30};                                       \
    for (int batch = 0; batch < 2 * (batches); batch++) {                \
      const ways_t *way = &ways[batch % 2];                              \
      const double  begun = now_ns();                                    \
      for (int i = 0; i < (calls); i++) {                                \
        call;                                                            \
      }                                                                  \
      const double each = (now_ns() - begun) / (calls);                  \
      best[batch % 2] = each < best[batch % 2] ? each : best[batch % 2]; \
      synchronize(stream);                                               \
    }                                                                    \
    printf("%s\t%.1f\t%.1f\n", name, best[0], best[1]);                  \
  } while (0)

static const char module_text[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry sim_null()\n{\n  ret;\n}\n";

// Small allocations that stay: what a ledger has to find its way among.
static void make_live(const ways_t *way, long live)
{
  pointer_t p;
  for (long i = 0; i < live; i++) {
    if (way->take(&p, 512) != 0) {
      fprintf(stderr, "only %ld of %ld live allocations fit\n", i, live);
      exit(1);
    }
  }
}

int main(int count, char **words)
{
  const long live = count > 1 ? atol(words[1]) : 0;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*init)(unsigned) = hook_of("cuInit");
  int (*retain)(void **, int) = hook_of("cuDevicePrimaryCtxRetain");
  int (*set_current)(void *) = hook_of("cuCtxSetCurrent");
  int (*create_stream)(void **, unsigned) = hook_of("cuStreamCreate");
  int (*synchronize)(void *) = hook_of("cuStreamSynchronize");
  int (*load)(void **, const void *) = hook_of("cuModuleLoadData");
  int (*get_function)(void **, void *, const char *) = hook_of("cuModuleGetFunction");
  const ways_t ways[2] = {find_ways(real_of), find_ways(hook_of)};
  void        *context, *module, *function, *stream;
  pointer_t    p;
  size_t       free_bytes, total_bytes;

  if (init(0) != 0 || retain(&context, 0) != 0 || set_current(context) != 0 || create_stream(&stream, 1) != 0 ||
      load(&module, module_text) != 0 || get_function(&function, module, "sim_null") != 0) {
    fprintf(stderr, "the driver does not start\n");
    return 1;
  }
  if (ways[0].take == ways[1].take) {
    fprintf(stderr, "nothing is hooked: run this in a slice\n");
    return 1;
  }
  make_live(&ways[1], live);
  MEASURE("launch", 100, 400, way->launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
  MEASURE("cuMemAlloc + cuMemFree, 1 MiB", 30, 100, (way->take(&p, 1 << 20), way->give(p)));
  MEASURE("cuMemAlloc + cuMemFree, 64 MiB", 15, 50, (way->take(&p, 64 << 20), way->give(p)));
  MEASURE("cuMemAllocAsync + cuMemFreeAsync, 1 MiB", 100, 400,
          (way->take_async(&p, 1 << 20, stream), way->give_async(p, stream)));
  MEASURE("cuMemGetInfo", 40, 200, way->info(&free_bytes, &total_bytes));
  return 0;
}
