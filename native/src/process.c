#define _GNU_SOURCE
#include "process.h"

#include <stddef.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

jvgpu_process_t *jvgpu_self;

jvgpu_process_t *jvgpu_process(void)
{
  jvgpu_process_t *self = __atomic_load_n(&jvgpu_self, __ATOMIC_ACQUIRE);
  if (self != NULL) {
    return self;
  }
  self = mmap(NULL, sizeof *self, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (self == MAP_FAILED) {
    return NULL;
  }
  // Refused only by a kernel too old to seal pages, where no agent runs either.
  if (madvise(self, sizeof *self, MADV_WIPEONFORK) != 0) {
    munmap(self, sizeof *self);
    return NULL;
  }
  jvgpu_process_t *first = NULL;
  if (!__atomic_compare_exchange_n(&jvgpu_self, &first, self, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    munmap(self, sizeof *self);
    return first;
  }
  return self;
}
