#define _GNU_SOURCE
#include "pool_table.h"

#include <stddef.h>

#include "devices.h"
#include "real.h"

// CU_STREAM_LEGACY is 1, CU_STREAM_PER_THREAD 2.
#define MOST_DEFAULT_STREAM 2u

// Parts of the host's memory that may have a pool of their own.
#define MOST_NODES 16

// Needs no lock: an entry is filled before its pool is named, and a program that uses a pool while it
// destroys it has lost already.
jvgpu_pool_t *jvgpu_pool_find(jvgpu_process_t *self, CUmemoryPool pool)
{
  for (size_t i = 0; i < JVGPU_MOST_POOLS; i++) {
    if (__atomic_load_n(&self->pools[i].pool, __ATOMIC_ACQUIRE) == pool) {
      return &self->pools[i];
    }
  }
  return NULL;
}

jvgpu_pool_t *jvgpu_pool_find_or_add(jvgpu_process_t *self, CUmemoryPool pool, int device)
{
  jvgpu_pool_t *known = jvgpu_pool_find(self, pool);
  if (known != NULL) {
    return known;
  }
  jvgpu_lock(&self->pool_lock);
  known = jvgpu_pool_find(self, pool);
  if (known == NULL) {
    known = jvgpu_pool_find(self, NULL);
    if (known != NULL) {
      known->device = (uint32_t)device;
      known->charged_bytes = 0;
      known->is_made = 0;
      known->is_left = 0;
      known->is_going = 0;
      // Release: whoever finds the pool finds its device.
      __atomic_store_n(&known->pool, pool, __ATOMIC_RELEASE);
    }
  }
  jvgpu_unlock(&self->pool_lock);
  return known;
}

static bool is_default_at(CUmemoryPool pool, int type, int id)
{
  CUmemLocation location = {.type = type, .id = id};
  CUmemoryPool  each = NULL;
  return jvgpu_real.cuMemGetDefaultMemPool != NULL &&
         jvgpu_real.cuMemGetDefaultMemPool(&each, &location, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS &&
         each == pool;
}

static bool is_hosts(CUmemoryPool pool)
{
  bool is_one = is_default_at(pool, CU_MEM_LOCATION_TYPE_HOST, 0);
  for (int node = 0; node < MOST_NODES && !is_one; node++) {
    is_one = is_default_at(pool, CU_MEM_LOCATION_TYPE_HOST_NUMA, node);
  }
  return is_one;
}

int jvgpu_pool_device(jvgpu_process_t *self, CUmemoryPool pool)
{
  const int current = jvgpu_current_device(self);
  for (CUdevice dev = 0; jvgpu_real.cuDeviceGetDefaultMemPool != NULL && dev < (CUdevice)self->ordinals; dev++) {
    CUmemoryPool each = NULL;
    if (jvgpu_real.cuDeviceGetDefaultMemPool(&each, dev) == CUDA_SUCCESS && each == pool) {
      return jvgpu_device_of(self, dev);
    }
  }
  return is_hosts(pool) ? JVGPU_ON_HOST : current;
}

// --- the pool that a device uses ----------------------------------------------------------------------------
//
// What the driver says is kept, unless somebody has said meanwhile that it may have changed: no lock is held while the
// driver answers.

void jvgpu_pool_use_changed(jvgpu_process_t *self)
{
  jvgpu_lock(&self->pool_lock);
  self->used_turn++;
  for (size_t dev = 0; dev < JVGPU_MOST_ORDINALS; dev++) {
    __atomic_store_n(&self->used_pools[dev], NULL, __ATOMIC_RELAXED);
  }
  jvgpu_unlock(&self->pool_lock);
}

static void keep_used(jvgpu_process_t *self, CUdevice dev, jvgpu_pool_t *known, uint32_t turn)
{
  jvgpu_lock(&self->pool_lock);
  if (turn == self->used_turn && dev >= 0 && dev < JVGPU_MOST_ORDINALS) {
    // Release: whoever takes the place sees which pool is in it.
    __atomic_store_n(&self->used_pools[dev], known, __ATOMIC_RELEASE);
  }
  jvgpu_unlock(&self->pool_lock);
}

// returns: false where the driver does not say.
static bool ask_used(jvgpu_process_t *self, CUdevice dev, CUmemoryPool *pool, jvgpu_pool_t **known)
{
  jvgpu_lock(&self->pool_lock);
  const uint32_t turn = self->used_turn;
  jvgpu_unlock(&self->pool_lock);
  if (jvgpu_real.cuDeviceGetMemPool == NULL || jvgpu_real.cuDeviceGetMemPool(pool, dev) != CUDA_SUCCESS ||
      *pool == NULL) {
    return false;
  }
  *known = jvgpu_pool_find(self, *pool);
  *known = *known != NULL ? *known : jvgpu_pool_find_or_add(self, *pool, jvgpu_pool_device(self, *pool));
  keep_used(self, dev, *known, turn);
  return true;
}

static bool find_used(jvgpu_process_t *self, CUdevice dev, CUmemoryPool *pool, jvgpu_pool_t **known)
{
  *known = __atomic_load_n(&self->used_pools[dev], __ATOMIC_ACQUIRE);
  *pool = *known == NULL ? NULL : __atomic_load_n(&(*known)->pool, __ATOMIC_ACQUIRE);
  return jvgpu_pool_is_there(*pool);
}

// The device that a stream works on, which is not always the current context's. Default streams are.
// source: CUDA Driver API 13.0, cuMemAllocAsync: "the memory pool current to the stream's device".
static bool ask_device(const jvgpu_process_t *self, CUstream stream, CUdevice *dev)
{
  const bool is_default = (uintptr_t)stream <= MOST_DEFAULT_STREAM;
  if (!is_default && self->ordinals != 1 && jvgpu_real.cuStreamGetDevice != NULL &&
      jvgpu_real.cuStreamGetDevice(stream, dev) == CUDA_SUCCESS) {
    return true;
  }
  return jvgpu_real.cuCtxGetDevice != NULL && jvgpu_real.cuCtxGetDevice(dev) == CUDA_SUCCESS;
}

// returns: false where nobody can say.
static __attribute__((noinline)) bool ask_which(jvgpu_process_t *self, CUmemoryPool *pool, CUstream stream,
                                                jvgpu_pool_t **known)
{
  CUdevice dev = 0;
  if (!ask_device(self, stream, &dev)) {
    return false;
  }
  return (dev >= 0 && dev < JVGPU_MOST_ORDINALS && find_used(self, dev, pool, known)) ||
         ask_used(self, dev, pool, known);
}

bool jvgpu_pool_choose(jvgpu_process_t *self, CUmemoryPool *pool, CUstream stream, jvgpu_pool_t **known)
{
  if (*pool != NULL) {
    *known = jvgpu_pool_find(self, *pool);
    return true;
  }
  // Where the process sees one device there is nothing to ask.
  return (self->ordinals == 1 && find_used(self, 0, pool, known)) || ask_which(self, pool, stream, known);
}
