// The process's life with the driver: cuInit, fork, exit.

#include <stdlib.h>
#include <string.h>
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

sim_shared_t *sim_opened(void)
{
  static sim_shared_t *_Atomic opened;
  sim_shared_t *shared = atomic_load(&opened);
  if (shared == NULL) {
    sim_shared_t *none = NULL;
    shared = sim_shared_open();
    // A second mapping that loses the race stays, unused.
    if (shared != NULL && !atomic_compare_exchange_strong(&opened, &none, shared)) {
      shared = none;
    }
  }
  return shared;
}

static CUresult start(void)
{
  sim_shared_t *shared = sim_opened();
  if (shared == NULL) {
    return CUDA_ERROR_NO_DEVICE;
  }
  int count =
      sim_visible_boards(shared, getenv("CUDA_VISIBLE_DEVICES"), getenv("CUDA_DEVICE_ORDER"), sim_process.board_of);
  for (int i = 0; i < count;) {
    if (atomic_load(&shared->controls[sim_process.board_of[i]].is_lost) != 0) {
      memmove(&sim_process.board_of[i], &sim_process.board_of[i + 1],
              (size_t)(count - i - 1) * sizeof sim_process.board_of[0]);
      count--;
    } else {
      i++;
    }
  }
  uint32_t computes[SIM_MAX_BOARDS] = {0};
  count = sim_visible_mig(shared, getenv("CUDA_VISIBLE_DEVICES"), &sim_process, count, computes);
  if (count == 0) {
    return CUDA_ERROR_NO_DEVICE;
  }
  sim_slot_t *slot = sim_shared_claim_slot(shared);
  if (slot == NULL) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  for (int i = 0; i < count; i++) {
    atomic_store(&slot->uses[sim_process.board_of[i]].compute, computes[i]);
    atomic_store(&slot->uses[sim_process.board_of[i]].instance, sim_process.instance_of[i]);
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

int sim_driver_version(void)
{
  const sim_shared_t *shared = sim_opened();
  return shared == NULL ? SIM_CUDA_VERSION : (int)shared->cuda_version;
}

SIM_API CUresult cuDriverGetVersion(int *version)
{
  if (version == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *version = sim_driver_version();
  return CUDA_SUCCESS;
}

static uint64_t held_in_instance(CUdevice device)
{
  sim_shared_t  *shared = sim_process.shared;
  const uint32_t board = sim_process.board_of[device];
  uint64_t       held = 0;
  for (uint32_t i = 0; i < SIM_MAX_SLOTS && i < atomic_load(&shared->slot_count); i++) {
    sim_slot_t *slot = &shared->slots[i];
    if (atomic_load(&slot->uses[board].instance) == sim_process.instance_of[device] &&
        sim_shared_living_pid(slot) != 0) {
      held += atomic_load(&slot->uses[board].held_bytes);
    }
  }
  return held;
}

static bool is_over_instance(CUdevice device)
{
  return sim_process.instance_of[device] != 0 && held_in_instance(device) > sim_board_capacity(sim_board(device));
}

uint64_t sim_device_free(CUdevice device)
{
  const uint32_t board = sim_process.board_of[device];
  const uint64_t used = sim_shared_used_in(sim_process.shared, board, sim_process.instance_of[device]);
  const uint64_t room = sim_limits_room(sim_process.shared, board, getpid());
  const uint64_t left = sim_board_capacity(sim_board(device)) - used;
  return room < left ? room : left;
}

bool sim_charge(CUdevice device, uint64_t bytes)
{
  const uint32_t board = sim_process.board_of[device];
  if (!sim_shared_reserve(sim_process.shared, sim_process.slot, board, bytes)) {
    return false;
  }
  // Looked at afterwards: of two that race for the last bytes of a group or instance, none or one stays.
  if (is_over_instance(device) || sim_limits_exceeded(sim_process.shared, board, getpid())) {
    sim_shared_release(sim_process.slot, board, bytes);
    return false;
  }
  return true;
}

void sim_uncharge(CUdevice device, uint64_t bytes)
{
  sim_shared_release(sim_process.slot, sim_process.board_of[device], bytes);
}
