// cuDeviceGetAttribute: one row per attribute that is not zero.
//
// source: CUDA Driver API 13.0, CUdevice_attribute; values of the architectures from the CUDA C++ Programming
// Guide, "Compute Capabilities".

#include "driver.h"

static int per_board(int attribute, const sim_board_t *board)
{
  switch (attribute) {
    case 13: return (int)board->sm_clock_mhz * 1000;
    case 16: return (int)board->sm_count;
    case 33: return (int)board->pci_bus;
    case 34: return (int)board->pci_device;
    case 36: return (int)board->memory_clock_mhz * 1000;
    case 37: return (int)board->memory_bus_bits;
    case 38: return (int)board->l2_bytes;
    case 39: return (int)board->threads_per_sm;
    case 50: return (int)board->pci_domain;
    case 75: return (int)board->capability_major;
    case 76: return (int)board->capability_minor;
    case 81: return (int)board->shared_per_sm_bytes;
    case 97: return (int)board->shared_per_block_optin_bytes;
    case 106: return (int)board->blocks_per_sm;
    case 108: return (int)(board->capability_major >= 8 ? board->l2_bytes / 4 * 3 : 0);
    case 111: return board->capability_major >= 8 ? 1024 : 0;
    case 120: return board->capability_major >= 9;
    case 127: return board->capability_major >= 9;
    case 139: return (int)(board->pci_device_id);
    case 140: return (int)(board->pci_subsystem_id);
    default: return -1;
  }
}

static int same_everywhere(int attribute)
{
  static const int values[CU_DEVICE_ATTRIBUTE_MAX] = {
      [1] = 1024,        [2] = 1024,    [3] = 1024,       [4] = 64,           // threads per block, block dimensions
      [5] = 2147483647,  [6] = 65535,   [7] = 65535,             // grid dimensions
      [8] = 49152,       [9] = 65536,   [10] = 32,        [11] = 2147483647, // shared, constant, warp, pitch
      [12] = 65536,      [14] = 512,    [15] = 1,         [19] = 1,  // registers, alignment, overlap, mapped host memory
      [21] = 131072,     [22] = 131072, [23] = 65536,     [24] = 16384,      [25] = 16384, [26] = 16384,
      [27] = 32768,      [28] = 32768,  [29] = 2048,      [30] = 512,        [31] = 1,     [32] = 1,
      [40] = 3,          [41] = 1,  // concurrent launches, ECC, copy engines, one address space
      [42] = 32768,      [43] = 2048,   [44] = 1,         [45] = 32768,      [46] = 32768, [47] = 8192,
      [48] = 8192,       [49] = 32768,  [51] = 32,        [52] = 32768,      [53] = 32768, [54] = 2046,
      [55] = 32768,      [56] = 131072, [57] = 65536,     [58] = 16384,      [59] = 16384, [60] = 16384,
      [61] = 32768,      [62] = 2048,   [63] = 32768,     [64] = 32768,      [65] = 2048,  [66] = 32768,
      [67] = 32768,      [68] = 2046,   [69] = 268435456, [70] = 131072,     [71] = 65000, [72] = 2097120,
      [73] = 32768,      [74] = 32768,  [77] = 32768,     [78] = 1,          [79] = 1,     [80] = 1,
      [82] = 65536,      [83] = 1,  // priorities, L1, registers per SM, managed memory
      [87] = 2,          [89] = 1,      [90] = 1,         [91] = 1,  // fp32:fp64, concurrent managed access, preemption
      [95] = 1,          [99] = 1,  // cooperative launch, host registration
      [102] = 1,         [103] = 1,  // VMM, handles as descriptors
      [109] = 134213632, [115] = 1,     [119] = 1,  // access window, memory pools and their handle type
      [126] = 4,         [129] = 1,  // memory sync domains, unified function pointers
      [131] = -1,        [134] = -1,  // NUMA nodes: none
  };
  return values[attribute];
}

SIM_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
  const CUresult result = sim_check_device(device);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (value == NULL || (int)attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int own = per_board((int)attribute, sim_board(device));
  *value = own >= 0 ? own : same_everywhere((int)attribute);
  return CUDA_SUCCESS;
}
