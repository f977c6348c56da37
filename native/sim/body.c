// The device functions that compute, so that results can be checked. Each does as much as its launch has threads for.

#include <string.h>

#include "driver.h"

// returns: how many of `count` elements there are threads for
static size_t covered(uint64_t count, uint64_t threads)
{
  return (size_t)(count < threads ? count : threads);
}

static uint64_t count_of(const void *param)
{
  const int count = *(const int *)param;
  return count < 0 ? 0 : (uint64_t)count;
}

static bool is_reachable(const float *start, uint64_t count)
{
  return sim_is_reachable((uintptr_t)start, count * sizeof *start);
}

// vector_add(a, b, c, n): c[i] = a[i] + b[i]
static CUresult vector_add(void **params, uint64_t threads)
{
  const float *a = *(const float **)params[0];
  const float *b = *(const float **)params[1];
  float       *c = *(float **)params[2];
  const size_t count = covered(count_of(params[3]), threads);
  if (!is_reachable(a, count) || !is_reachable(b, count) || !is_reachable(c, count)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (size_t i = 0; i < count; i++) {
    c[i] = a[i] + b[i];
  }
  return CUDA_SUCCESS;
}

// scale(x, f, n): x[i] *= f
static CUresult scale(void **params, uint64_t threads)
{
  float       *x = *(float **)params[0];
  const float  factor = *(const float *)params[1];
  const size_t count = covered(count_of(params[2]), threads);
  if (!is_reachable(x, count)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (size_t i = 0; i < count; i++) {
    x[i] *= factor;
  }
  return CUDA_SUCCESS;
}

// reduce(x, sum, n): *sum = x[0] + x[1] + ...
static CUresult reduce(void **params, uint64_t threads)
{
  const float *x = *(const float **)params[0];
  float       *sum = *(float **)params[1];
  const size_t count = covered(count_of(params[2]), threads);
  double       total = 0;
  if (!is_reachable(x, count) || !is_reachable(sum, 1)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (size_t i = 0; i < count; i++) {
    total += (double)x[i];
  }
  *sum = (float)total;
  return CUDA_SUCCESS;
}

// matmul(a, b, c, n): c = a b, square, by rows; one thread an element of c
static CUresult matmul(void **params, uint64_t threads)
{
  const float   *a = *(const float **)params[0];
  const float   *b = *(const float **)params[1];
  float         *c = *(float **)params[2];
  const uint64_t n = count_of(params[3]);
  const size_t   count = covered(n * n, threads);
  if (!is_reachable(a, n * n) || !is_reachable(b, n * n) || !is_reachable(c, n * n)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (size_t i = 0; i < count; i++) {
    float sum = 0;
    for (size_t k = 0; k < n; k++) {
      sum += a[i / n * n + k] * b[k * n + i % n];
    }
    c[i] = sum;
  }
  return CUDA_SUCCESS;
}

static const sim_body_t bodies[] = {
    {"vector_add", "_Z10vector_addPfS_S_i", vector_add, {8, 8, 8, 4}, 4},
    {"scale", "_Z5scalePffi", scale, {8, 4, 4}, 3},
    {"reduce", "_Z6reducePfS_i", reduce, {8, 8, 4}, 3},
    {"matmul", "_Z6matmulPfS_S_i", matmul, {8, 8, 8, 4}, 4},
};

const sim_body_t *sim_body_of(const char *name)
{
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    if (strcmp(name, bodies[i].name) == 0 || strcmp(name, bodies[i].mangled) == 0) {
      return &bodies[i];
    }
  }
  return NULL;
}
