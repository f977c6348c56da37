// The process's life with the driver: cuInit, fork, exit.

#include <stdlib.h>
#include <unistd.h>

#include "driver.h"

sim_process_t   sim_process;
pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;

enum { PHASE_NEW, PHASE_READY, PHASE_FORKED, PHASE_OVER };
static _Atomic int     phase;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult sim_ready(void)
{
  switch (atomic_load_explicit(&phase, memory_order_acquire)) {
    case PHASE_READY: return CUDA_SUCCESS;
    case PHASE_OVER: return CUDA_ERROR_DEINITIALIZED;
    default: return CUDA_ERROR_NOT_INITIALIZED;
  }
}

CUresult sim_check_device(CUdevice device)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  return device >= 0 && device < sim_process.device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// The child of an initialised process cannot use the driver, as with the real one.
static void after_fork(void)
{
  int ready = PHASE_READY;
  atomic_compare_exchange_strong(&phase, &ready, PHASE_FORKED);
  pthread_mutex_init(&init_lock, NULL);
}

__attribute__((destructor)) static void end_of_process(void)
{
  int ready = PHASE_READY;
  if (atomic_compare_exchange_strong(&phase, &ready, PHASE_OVER)) {
    sim_shared_leave(sim_process.slot);
  }
}

static CUresult start(void)
{
  static sim_shared_t *shared;
  if (shared == NULL) {
    shared = sim_shared_open();
  }
  if (shared == NULL) {
    return CUDA_ERROR_NO_DEVICE;
  }
  const int count =
      sim_visible_boards(shared, getenv("CUDA_VISIBLE_DEVICES"), getenv("CUDA_DEVICE_ORDER"), sim_process.board_of);
  if (count == 0) {
    return CUDA_ERROR_NO_DEVICE;
  }
  sim_slot_t *slot = sim_shared_claim_slot(shared);
  if (slot == NULL) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  sim_process.shared = shared;
  sim_process.slot = slot;
  sim_process.device_count = count;
  pthread_atfork(NULL, NULL, after_fork);
  atomic_store_explicit(&phase, PHASE_READY, memory_order_release);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuInit(unsigned int flags)
{
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&init_lock);
  CUresult result = sim_ready();
  if (atomic_load(&phase) == PHASE_NEW) {
    result = start();
  }
  pthread_mutex_unlock(&init_lock);
  return result;
}

SIM_API CUresult cuDriverGetVersion(int *version)
{
  if (version == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *version = SIM_CUDA_VERSION;
  return CUDA_SUCCESS;
}

bool sim_charge(CUdevice device, uint64_t bytes)
{
  return sim_shared_reserve(sim_process.shared, sim_process.slot, sim_process.board_of[device], bytes);
}

void sim_uncharge(CUdevice device, uint64_t bytes)
{
  sim_shared_release(sim_process.slot, sim_process.board_of[device], bytes);
}
