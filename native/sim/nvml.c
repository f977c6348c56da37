// NVML's life, and the way to a device.

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "mig.h"
#include "nvml_device.h"

#define UUID_TEXT_BYTES 41u

struct nvmlDevice_st {
  unsigned int number;
};

static struct {
  pthread_mutex_t      lock;
  unsigned int         references;
  sim_shared_t        *shared;
  struct nvmlDevice_st handles[SIM_MAX_BOARDS];
  struct nvmlDevice_st mig_handles[SIM_MAX_BOARDS][SIM_MIG_INSTANCES][SIM_MIG_INSTANCES];
} nvml = {.lock = PTHREAD_MUTEX_INITIALIZER};

static nvmlReturn_t init(void)
{
  pthread_mutex_lock(&nvml.lock);
  if (nvml.shared == NULL) {
    nvml.shared = sim_shared_open();  // none: no device, as on a machine without a board
  }
  for (unsigned int i = 0; i < SIM_MAX_BOARDS; i++) {
    nvml.handles[i].number = i;
  }
  nvml.references++;
  pthread_mutex_unlock(&nvml.lock);
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlInit(void)
{
  return init();
}

SIM_API nvmlReturn_t nvmlInit_v2(void)
{
  return init();
}

SIM_API nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
  (void)flags;
  return init();
}

SIM_API nvmlReturn_t nvmlShutdown(void)
{
  nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;
  pthread_mutex_lock(&nvml.lock);
  if (nvml.references > 0) {
    nvml.references--;
    result = NVML_SUCCESS;
  }
  pthread_mutex_unlock(&nvml.lock);
  return result;
}

nvmlReturn_t sim_nvml_ready(void)
{
  pthread_mutex_lock(&nvml.lock);
  const nvmlReturn_t result = nvml.references > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
  pthread_mutex_unlock(&nvml.lock);
  return result;
}

static unsigned int board_count(void)
{
  return nvml.shared == NULL ? 0 : nvml.shared->board_count;
}

sim_shared_t *sim_nvml_shared(void)
{
  return nvml.shared;
}

nvmlDevice_t sim_nvml_handle(unsigned int number)
{
  return &nvml.handles[number];
}

sim_control_t *sim_nvml_control(unsigned int number)
{
  return &nvml.shared->controls[number];
}

nvmlReturn_t sim_nvml_check_root(void)
{
  return geteuid() == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

// A driver that stalls, has lost the board, or never had the function.
static nvmlReturn_t check_well(const char *function, unsigned int number)
{
  const sim_control_t *control = sim_nvml_control(number);
  for (unsigned int i = 0; i < SIM_MISSING; i++) {
    if (nvml.shared->missing[i][0] != 0 &&
        strncmp(nvml.shared->missing[i], function, sizeof nvml.shared->missing[i]) == 0) {
      return NVML_ERROR_FUNCTION_NOT_FOUND;
    }
  }
  const uint64_t stall_until = atomic_load(&control->nvml_stall_until_ns);
  if (stall_until > sim_now_ns()) {
    const uint64_t        until = sim_monotonic_of(stall_until);
    const struct timespec deadline = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);
  }
  return atomic_load(&control->is_lost) != 0 ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

bool sim_nvml_is_mig(nvmlDevice_t handle)
{
  const char *place = (const char *)handle;
  return place >= (const char *)nvml.mig_handles && place < (const char *)nvml.mig_handles + sizeof nvml.mig_handles;
}

nvmlDevice_t sim_nvml_mig_handle(unsigned int number, unsigned int instance, unsigned int compute)
{
  return &nvml.mig_handles[number][instance][compute];
}

bool sim_nvml_mig_place(nvmlDevice_t handle, sim_mig_place_t *place)
{
  if (!sim_nvml_is_mig(handle)) {
    return false;
  }
  const size_t index = (size_t)(handle - &nvml.mig_handles[0][0][0]);
  place->number = (unsigned int)(index / (SIM_MIG_INSTANCES * SIM_MIG_INSTANCES));
  place->instance = (unsigned int)(index / SIM_MIG_INSTANCES % SIM_MIG_INSTANCES);
  place->compute = (unsigned int)(index % SIM_MIG_INSTANCES);
  if (place->number >= board_count()) {
    return false;
  }
  place->part = &sim_nvml_control(place->number)->instances[place->instance];
  return place->part->is_used != 0 && place->part->profile < nvml.shared->boards[place->number].mig_profile_count &&
         place->part->computes[place->compute].is_used != 0;
}

const sim_board_t *sim_nvml_part(nvmlDevice_t handle, const sim_board_t *board, sim_board_t *part)
{
  sim_mig_place_t place;
  if (!sim_nvml_mig_place(handle, &place)) {
    return board;
  }
  *part = sim_mig_board(board, place.part, place.instance, place.compute);
  return part;
}

nvmlReturn_t sim_nvml_board_for(const char *function, nvmlDevice_t handle, const sim_board_t **board,
                                unsigned int *number)
{
  const nvmlReturn_t ready = sim_nvml_ready();
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  // Compared, not followed: a wrong handle is answered, not a crash.
  for (unsigned int i = 0; i < board_count(); i++) {
    if (handle == &nvml.handles[i]) {
      *board = &nvml.shared->boards[i];
      if (number != NULL) {
        *number = i;
      }
      return check_well(function, i);
    }
  }
  sim_mig_place_t place;
  if (sim_nvml_mig_place(handle, &place)) {
    *board = &nvml.shared->boards[place.number];
    if (number != NULL) {
      *number = place.number;
    }
    return check_well(function, place.number);
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t sim_nvml_text(char *destination, unsigned int length, const char *text)
{
  if (destination == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const size_t size = strlen(text) + 1;
  if (size > length) {
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  memcpy(destination, text, size);
  return NVML_SUCCESS;
}

void sim_nvml_uuid_text(const sim_board_t *board, char *text)
{
  const uint8_t *u = board->uuid;
  snprintf(text, UUID_TEXT_BYTES, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
           u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

static nvmlReturn_t count_devices(unsigned int *count)
{
  const nvmlReturn_t ready = sim_nvml_ready();
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  if (count == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *count = board_count();
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
  return count_devices(count);
}

SIM_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
  return count_devices(count);
}

static nvmlReturn_t by_index(unsigned int index, nvmlDevice_t *handle)
{
  const nvmlReturn_t ready = sim_nvml_ready();
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  if (handle == NULL || index >= board_count()) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *handle = &nvml.handles[index];
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *handle)
{
  return by_index(index, handle);
}

SIM_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle)
{
  return by_index(index, handle);
}

SIM_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle)
{
  char               text[48];
  const nvmlReturn_t ready = sim_nvml_ready();
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  if (uuid == NULL || handle == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  for (unsigned int i = 0; i < board_count(); i++) {
    sim_nvml_uuid_text(&nvml.shared->boards[i], text);
    if (strcasecmp(text, uuid) == 0) {
      return by_index(i, handle);
    }
  }
  for (unsigned int i = 0; i < board_count() * SIM_MIG_INSTANCES * SIM_MIG_INSTANCES; i++) {
    nvmlDevice_t    device = &nvml.mig_handles[0][0][0] + i;
    sim_mig_place_t place;
    if (sim_nvml_mig_place(device, &place)) {
      sim_mig_uuid_text(&nvml.shared->boards[place.number], place.instance, place.compute, text);
      if (strcasecmp(text, uuid) == 0) {
        *handle = device;
        return NVML_SUCCESS;
      }
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

SIM_API nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *handle)
{
  const nvmlReturn_t ready = sim_nvml_ready();
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  if (serial == NULL || handle == NULL) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  for (unsigned int i = 0; i < board_count(); i++) {
    if (strcmp(nvml.shared->boards[i].serial, serial) == 0) {
      return by_index(i, handle);
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t by_bus_id(const char *bus_id, nvmlDevice_t *handle)
{
  unsigned int       domain = 0;
  unsigned int       bus = 0;
  unsigned int       device = 0;
  const nvmlReturn_t ready = sim_nvml_ready();
  if (ready != NVML_SUCCESS) {
    return ready;
  }
  if (bus_id == NULL || handle == NULL || sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  for (unsigned int i = 0; i < board_count(); i++) {
    const sim_board_t *board = &nvml.shared->boards[i];
    if (board->pci_domain == domain && board->pci_bus == bus && board->pci_device == device) {
      return by_index(i, handle);
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

SIM_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *handle)
{
  return by_bus_id(bus_id, handle);
}

SIM_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *handle)
{
  return by_bus_id(bus_id, handle);
}
