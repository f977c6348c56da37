// Array size: the most that an array of a shape can take on a device.
//
// Pure arithmetic. The driver does not say how it lays a shape out; this is the block-linear layout of NVIDIA's
// devices with every padding at its largest. Where the driver can be asked for the size, it is asked instead.

#ifndef JVGPU_ARRAY_SIZE_H
#define JVGPU_ARRAY_SIZE_H

#include <stdint.h>

#include "cuda_abi.h"

// returns: bytes for `levels` mipmap levels (1 = a plain array); UINT64_MAX for what is larger than any device.
uint64_t jvgpu_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels);

#endif
