// What programs in C that take device memory need of the driver's binary interface, in our own words.

#ifndef JVGPU_BENCHMARKS_MEMORY_ABI_H
#define JVGPU_BENCHMARKS_MEMORY_ABI_H

#include <stddef.h>

typedef unsigned long long pointer_t;

// A CUmemPoolProps of device 0.
static const int pool_of_device[22] = {1, 0, 1, 0};

// CUDA_MEM_ALLOC_NODE_PARAMS.
typedef struct node_s {
  int       pool[22];
  void     *access;
  size_t    count, bytes;
  pointer_t address;
} node_t;

#endif
