// How long copies and fills take: over the link to the host, or within the device's memory.

#include "driver.h"
#include "range.h"

// A link of 16 lanes, what programs get of it. source: PCI Express Base Specification, 8 GT/s per lane for generation 3
// and twice as much for each later one; about four fifths of it remain for data.
uint64_t sim_link_ns(CUdevice device, uint64_t bytes)
{
  enum { FIRST = 3, FIRST_BYTES_PER_NS = 12 };
  const uint32_t generation = sim_board(device)->pcie_generation;
  return bytes / ((uint64_t)FIRST_BYTES_PER_NS << (generation > FIRST ? generation - FIRST : 0));
}

// Memory transfers twice per clock; a copy reads and writes.
uint64_t sim_memory_ns(CUdevice device, uint64_t bytes)
{
  const sim_board_t *board = sim_board(device);
  const uint64_t     bytes_per_us = (uint64_t)board->memory_clock_mhz * 2 * board->memory_bus_bits / 8;
  return bytes_per_us == 0 ? bytes : bytes * 1000 / bytes_per_us;
}

static bool is_host_end(CUmemorytype kind, CUdeviceptr address)
{
  if (kind != CU_MEMORYTYPE_UNIFIED && kind != CU_MEMORYTYPE_DEVICE) {
    return kind == CU_MEMORYTYPE_HOST;
  }
  pthread_mutex_lock(&sim_lock);
  const sim_range_t *range = sim_range_find(address);
  const bool         is_host = range == NULL || range->kind == SIM_RANGE_HOST || range->kind == SIM_RANGE_REGISTERED;
  pthread_mutex_unlock(&sim_lock);
  return is_host;
}

bool sim_copy_crosses(const CUDA_MEMCPY3D *copy)
{
  return is_host_end(copy->srcMemoryType, copy->srcDevice) || is_host_end(copy->dstMemoryType, copy->dstDevice);
}

uint64_t sim_copy_ns(const CUDA_MEMCPY3D *copy, CUdevice device)
{
  const uint64_t bytes = copy->WidthInBytes * copy->Height * copy->Depth;
  return sim_copy_crosses(copy) ? sim_link_ns(device, bytes) : 2 * sim_memory_ns(device, bytes);
}
