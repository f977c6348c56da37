// Who a device is: names, numbers, addresses.

#include <stdio.h>
#include <string.h>

#include "mig.h"
#include "nvml_device.h"

// A getter of one value: everything but the value is the same each time.
#define SIM_GETTER(name, type, parameter, value)                                                            \
  SIM_API nvmlReturn_t name(nvmlDevice_t handle, type *parameter)                                           \
  {                                                                                                         \
    const sim_board_t *board;                                                                               \
    unsigned int       number;                                                                              \
    const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, &number), parameter != NULL); \
    if (result == NVML_SUCCESS) {                                                                           \
      (void)number;                                                                                         \
      *parameter = (type)(value);                                                                           \
    }                                                                                                       \
    return result;                                                                                          \
  }

SIM_GETTER(nvmlDeviceGetIndex, unsigned int, index, number)
SIM_GETTER(nvmlDeviceGetMinorNumber, unsigned int, minor, number)
SIM_GETTER(nvmlDeviceGetModuleId, unsigned int, id, number)
SIM_GETTER(nvmlDeviceGetBoardId, unsigned int, id, board->pci_bus << 8 | board->pci_device)
SIM_GETTER(nvmlDeviceGetMultiGpuBoard, unsigned int, is_multi, 0)
SIM_GETTER(nvmlDeviceGetBrand, nvmlBrandType_t, brand, NVML_BRAND_NVIDIA)
SIM_GETTER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, architecture, board->architecture)
SIM_GETTER(nvmlDeviceGetNumGpuCores, unsigned int, cores, board->sm_count * board->cores_per_sm)
SIM_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned int, bits, board->memory_bus_bits)
SIM_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, generation, board->pcie_generation)
SIM_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, generation, board->pcie_generation)
SIM_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, generation, board->pcie_generation)
SIM_GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, lanes, 16)
SIM_GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, lanes, 16)

SIM_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int length)
{
  const sim_board_t *board;
  sim_board_t        part;
  const nvmlReturn_t result = sim_nvml_board(handle, &board, NULL);
  return result != NVML_SUCCESS ? result : sim_nvml_text(name, length, sim_nvml_part(handle, board, &part)->name);
}

SIM_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int length)
{
  char               text[48];
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_board(handle, &board, NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  sim_mig_place_t place;
  if (sim_nvml_mig_place(handle, &place)) {
    sim_mig_uuid_text(board, place.instance, place.compute, text);
  } else {
    sim_nvml_uuid_text(board, text);
  }
  return sim_nvml_text(uuid, length, text);
}

SIM_API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t handle, char *serial, unsigned int length)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_board(handle, &board, NULL);
  return result != NVML_SUCCESS ? result : sim_nvml_text(serial, length, board->serial);
}

SIM_API nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t handle, char *version, unsigned int length)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_board(handle, &board, NULL);
  return result != NVML_SUCCESS ? result : sim_nvml_text(version, length, "00.00.00.00.00");
}

SIM_API nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t handle, char *number, unsigned int length)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_board(handle, &board, NULL);
  return result != NVML_SUCCESS ? result : sim_nvml_text(number, length, "simulated");
}

static nvmlReturn_t pci_info(nvmlDevice_t handle, nvmlPciInfo_t *info)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), info != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  memset(info, 0, sizeof *info);
  info->domain = board->pci_domain;
  info->bus = board->pci_bus;
  info->device = board->pci_device;
  info->pciDeviceId = board->pci_device_id;
  info->pciSubSystemId = board->pci_subsystem_id;
  snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", info->domain, info->bus, info->device);
  snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", info->domain & 0xffffu, info->bus & 0xffu,
           info->device & 0xffu);
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *info)
{
  return pci_info(handle, info);
}

SIM_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int *major, int *minor)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), major != NULL && minor != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  *major = (int)board->capability_major;
  *minor = (int)board->capability_minor;
  return NVML_SUCCESS;
}

static nvmlReturn_t attributes(nvmlDevice_t handle, nvmlDeviceAttributes_t *out)
{
  const sim_board_t *board;
  const nvmlReturn_t result = sim_nvml_given(sim_nvml_board(handle, &board, NULL), out != NULL);
  if (result != NVML_SUCCESS) {
    return result;
  }
  sim_mig_place_t place;
  if (!sim_nvml_mig_place(handle, &place)) {
    return NVML_ERROR_NOT_SUPPORTED;  // source: NVML API Reference, nvmlDeviceGetAttributes_v2: MIG devices only
  }
  const sim_mig_profile_t *of = &board->mig_profiles[place.part->profile];
  const uint32_t           slices = place.part->computes[place.compute].slices;
  *out = (nvmlDeviceAttributes_t){.multiprocessorCount = sim_mig_compute_sms(board, place.part, slices),
                                  .sharedCopyEngineCount = of->copy_engines,
                                  .sharedDecoderCount = of->decoders,
                                  .sharedJpegCount = of->jpegs,
                                  .sharedOfaCount = of->ofas,
                                  .gpuInstanceSliceCount = of->compute_slices,
                                  .computeInstanceSliceCount = slices,
                                  .memorySizeMB = of->memory_mib};
  return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle, nvmlDeviceAttributes_t *out)
{
  return attributes(handle, out);
}

SIM_API nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t handle, nvmlDeviceAttributes_t *out)
{
  return attributes(handle, out);
}

SIM_API nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t first, nvmlDevice_t second, int *same)
{
  const sim_board_t *board;
  nvmlReturn_t       result = sim_nvml_board(first, &board, NULL);
  if (result == NVML_SUCCESS) {
    result = sim_nvml_given(sim_nvml_board(second, &board, NULL), same != NULL);
  }
  if (result != NVML_SUCCESS) {
    return result;
  }
  *same = first == second;
  return NVML_SUCCESS;
}
