// Physical memory of the VMM calls, and its handles.

#ifndef JVGPU_SIM_VMM_H
#define JVGPU_SIM_VMM_H

#include "range.h"

// One cuMemCreate. It lives while a handle or a mapping holds it.
typedef struct sim_physical_s {
  CUdevice                     device;
  size_t                       bytes;
  int                          fd;               // the memory file it lies in
  off_t                        offset;
  bool                         owns_file;       // exportable memory has a file of its own
  bool                         is_imported;     // then the exporter pays
  CUmemGenericAllocationHandle handle;
  uint32_t                     handles;     // references by handle
  uint32_t                     mappings;
  CUmemAllocationProp          properties;
  uint32_t                     team;  // a multicast object: devices that were added, one bit each
  uint32_t                     team_count;
  uint32_t                     team_size;  // and how many there are to be; 0 = plain memory
} sim_physical_t;

// pre of all: sim_lock held
// returns: NULL when the handle means nothing
sim_physical_t *sim_physical_find(CUmemGenericAllocationHandle handle);
// Frees the memory once nothing holds it.
void sim_physical_drop(sim_physical_t *physical);
// An object without memory of a board's (multicast.c). Takes sim_lock itself.
CUresult sim_physical_multicast(CUmemGenericAllocationHandle *handle, size_t bytes, uint32_t team_size);
bool sim_physical_is_location(const CUmemLocation *location);
// Maps `bytes` of the memory behind `handle` at addresses of the driver's choice (external.c).
// returns: 0 when that cannot be
uintptr_t sim_physical_place(CUmemGenericAllocationHandle handle, uint64_t offset, uint64_t bytes, CUdevice *device);

#endif
