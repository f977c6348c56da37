#define _GNU_SOURCE
#include "devices.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "real.h"

void jvgpu_uuid_format(const uint8_t uuid[JVGPU_UUID_BYTES], char text[JVGPU_UUID_TEXT])
{
  static const char digits[] = "0123456789abcdef";
  char             *out = text;

  memcpy(out, "GPU-", 4);
  out += 4;
  for (int i = 0; i < (int)JVGPU_UUID_BYTES; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      *out++ = '-';
    }
    *out++ = digits[uuid[i] >> 4];
    *out++ = digits[uuid[i] & 15];
  }
  *out = '\0';
}

// --- CUDA_VISIBLE_DEVICES ---------------------------------------------------------------------------------

// The driver reads a number as strtol does, and the whole entry has to be one.
static int device_by_number(const jvgpu_control_t *control, const char *entry, size_t bytes)
{
  uint32_t     number = 0;
  const size_t begin = bytes > 0 && entry[0] == '+' ? 1 : 0;
  if (begin == bytes) {
    return JVGPU_NO_DEVICE;
  }
  for (size_t i = begin; i < bytes; i++) {
    if (entry[i] < '0' || entry[i] > '9') {
      return JVGPU_NO_DEVICE;
    }
    number = number * 10 + (uint32_t)(entry[i] - '0');
    if (number >= control->device_count) {
      return JVGPU_NO_DEVICE;
    }
  }
  return (int)number;
}

// A UUID may be shortened as long as it names one device.
// source: CUDA C++ Programming Guide 13.0, "CUDA Environment Variables".
static int device_by_prefix(const jvgpu_control_t *control, const char *entry, size_t bytes)
{
  int found = JVGPU_NO_DEVICE;
  if (bytes < 4 || bytes >= JVGPU_UUID_TEXT || strncasecmp(entry, "GPU-", 4) != 0) {
    return JVGPU_NO_DEVICE;
  }
  for (uint32_t i = 0; i < control->device_count; i++) {
    char text[JVGPU_UUID_TEXT];
    jvgpu_uuid_format(control->devices[i].uuid, text);
    if (strncasecmp(text, entry, bytes) == 0) {
      if (found != JVGPU_NO_DEVICE) {
        return JVGPU_NO_DEVICE;
      }
      found = (int)i;
    }
  }
  return found;
}

static size_t append_device(const jvgpu_control_t *control, int device, char *text, size_t used)
{
  if (used != 0) {
    text[used++] = ',';
  }
  jvgpu_uuid_format(control->devices[device].uuid, text + used);
  return used + JVGPU_UUID_TEXT - 1;
}

bool jvgpu_visible_devices(const jvgpu_control_t *control, const char *wanted, char *text, size_t bytes)
{
  size_t used = 0;
  if (bytes < (size_t)JVGPU_UUID_TEXT * JVGPU_MAX_DEVICES) {
    return false;
  }
  text[0] = '\0';
  if (wanted == NULL) {
    for (uint32_t i = 0; i < control->device_count; i++) {
      used = append_device(control, (int)i, text, used);
    }
    return true;
  }
  bool taken[JVGPU_MAX_DEVICES] = {false};
  while (*wanted != '\0') {
    const size_t entry_bytes = strcspn(wanted, ",");
    const size_t blank = strspn(wanted, " \t");
    size_t       bytes_left = blank < entry_bytes ? entry_bytes - blank : 0;
    while (bytes_left > 0 && (wanted[blank + bytes_left - 1] == ' ' || wanted[blank + bytes_left - 1] == '\t')) {
      bytes_left -= 1;
    }
    int device = device_by_number(control, wanted + blank, bytes_left);
    if (device == JVGPU_NO_DEVICE) {
      device = device_by_prefix(control, wanted + blank, bytes_left);
    }
    if (device == JVGPU_NO_DEVICE) {
      break;
    }
    if (taken[device]) {
      // source: seen on the driver: a device named twice leaves no device at all.
      text[0] = '\0';
      return true;
    }
    taken[device] = true;
    used = append_device(control, device, text, used);
    wanted += entry_bytes;
    wanted += *wanted == ',';
  }
  return true;
}

// --- which device is meant ------------------------------------------------------------------------------------

static void learn_devices(jvgpu_process_t *self)
{
  int count = 0;
  if (jvgpu_real.cuDeviceGetCount == NULL || jvgpu_real.cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    return;
  }
  for (int ordinal = 0; ordinal < count && ordinal < JVGPU_MOST_ORDINALS; ordinal++) {
    CUdevice dev;
    CUuuid   uuid;
    if (jvgpu_real.cuDeviceGet(&dev, ordinal) != CUDA_SUCCESS || dev < 0 || dev >= JVGPU_MOST_ORDINALS ||
        jvgpu_real.cuDeviceGetUuid_v2(&uuid, dev) != CUDA_SUCCESS) {
      continue;
    }
    self->device_of[dev] = 0;
    for (uint32_t i = 0; i < self->control->device_count; i++) {
      if (memcmp(uuid.bytes, self->control->devices[i].uuid, JVGPU_UUID_BYTES) == 0) {
        self->device_of[dev] = (int8_t)(i + 1);
      }
    }
  }
  self->ordinals = (uint32_t)count;
  // Release: whoever sees the flag sees the table. Two threads may fill it at once, alike.
  __atomic_store_n(&self->devices_known, 1, __ATOMIC_RELEASE);
}

int jvgpu_device_of(jvgpu_process_t *self, CUdevice dev)
{
  if (__atomic_load_n(&self->devices_known, __ATOMIC_ACQUIRE) == 0) {
    learn_devices(self);
  }
  return dev >= 0 && dev < JVGPU_MOST_ORDINALS ? self->device_of[dev] - 1 : JVGPU_NO_DEVICE;
}

int jvgpu_ask_current_device(jvgpu_process_t *self)
{
  CUdevice dev = 0;
  if (jvgpu_real.cuCtxGetDevice == NULL || jvgpu_real.cuCtxGetDevice(&dev) != CUDA_SUCCESS) {
    return JVGPU_NO_DEVICE;
  }
  return jvgpu_device_of(self, dev);
}

int jvgpu_device_at(jvgpu_process_t *self, int kind, const CUmemLocation *location)
{
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: return jvgpu_device_of(self, location->id);
    case CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN: return jvgpu_device_of(self, location->id & 0xff);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return kind == CU_MEM_ALLOCATION_TYPE_MANAGED ? jvgpu_current_device(self) : JVGPU_ON_HOST;
    default: return jvgpu_current_device(self);
  }
}

int jvgpu_device_with_uuid(const jvgpu_control_t *control, const char *text)
{
  for (uint32_t i = 0; i < control->device_count; i++) {
    char each[JVGPU_UUID_TEXT];
    jvgpu_uuid_format(control->devices[i].uuid, each);
    if (strcmp(each, text) == 0) {
      return (int)i;
    }
  }
  return JVGPU_NO_DEVICE;
}
