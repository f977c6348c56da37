// Devices: count, names, sizes, identity.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "driver.h"

// returns: CUDA_SUCCESS when the device is one and there is a place for the answer
static CUresult check(CUdevice device, const void *out)
{
  const CUresult result = sim_check_device(device);
  return result == CUDA_SUCCESS && out == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

SIM_API CUresult cuDeviceGetCount(int *count)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (count == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *count = sim_process.device_count;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
  const CUresult result = check(ordinal, device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
  const CUresult result = check(device, length > 0 ? name : NULL);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  memset(name, 0, (size_t)length);  // the driver fills the rest, too
  snprintf(name, (size_t)length, "%s", sim_board(device)->name);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
  const CUresult result = check(device, uuid);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  memcpy(uuid->bytes, sim_board(device)->uuid, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
  return cuDeviceGetUuid_v2(uuid, device);
}

SIM_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
  const CUresult result = check(device, bytes);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *bytes = sim_board_capacity(sim_board(device));
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
  size_t         total = 0;
  const CUresult result = cuDeviceTotalMem_v2(&total, device);
  if (result == CUDA_SUCCESS && bytes != NULL) {
    *bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
  }
  return bytes == NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

SIM_API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
  const CUresult result = check(device, major == NULL ? NULL : minor);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *major = (int)sim_board(device)->capability_major;
  *minor = (int)sim_board(device)->capability_minor;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
  const CUresult result = check(device, length > 0 ? text : NULL);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  const sim_board_t *board = sim_board(device);
  snprintf(text, (size_t)length, "%04X:%02X:%02X.0", board->pci_domain, board->pci_bus, board->pci_device);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  unsigned int domain = 0;
  unsigned int bus = 0;
  unsigned int slot = 0;
  if (device == NULL || text == NULL ||
      (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 && (domain = 0, sscanf(text, "%x:%x", &bus, &slot) != 2))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (int i = 0; i < sim_process.device_count; i++) {
    const sim_board_t *board = sim_board(i);
    if (board->pci_domain == domain && board->pci_bus == bus && board->pci_device == slot) {
      *device = i;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SIM_API CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device)
{
  const CUresult result = check(device, properties);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *properties = (CUdevprop){
      .maxThreadsPerBlock = 1024,
      .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {2147483647, 65535, 65535},
      .sharedMemPerBlock = 49152,
      .totalConstantMemory = 65536,
      .SIMDWidth = 32,
      .memPitch = 2147483647,
      .regsPerBlock = 65536,
      .clockRate = (int)sim_board(device)->sm_clock_mhz * 1000,
      .textureAlign = 512,
  };
  return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceCanAccessPeer(int *can_access, CUdevice device, CUdevice peer)
{
  CUresult result = sim_check_device(device);
  if (result == CUDA_SUCCESS) {
    result = sim_check_device(peer);
  }
  if (result == CUDA_SUCCESS && can_access == NULL) {
    result = CUDA_ERROR_INVALID_VALUE;
  }
  if (result == CUDA_SUCCESS) {
    *can_access = device != peer;
  }
  return result;
}

SIM_API CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source,
                                         CUdevice destination)
{
  enum { PERFORMANCE_RANK = 1, ACCESS_SUPPORTED = 2, NATIVE_ATOMIC = 3, CUDA_ARRAY = 4 };
  int            can_access = 0;
  const CUresult result = cuDeviceCanAccessPeer(&can_access, source, destination);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (value == NULL || (int)attribute < PERFORMANCE_RANK || (int)attribute > CUDA_ARRAY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (source == destination) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *value = (int)attribute == ACCESS_SUPPORTED;
  return CUDA_SUCCESS;
}
