// Occupancy: which part of a device's SMs a launch can fill.
//
// Pure. Blocks go out one to an SM, then a second to each, up to what fits; whatever is left over waits for
// the next *wave*. In a full wave all SMs work; in the last one as many as it has blocks.

#ifndef JVGPU_OCCUPANCY_H
#define JVGPU_OCCUPANCY_H

#include <stdint.h>

// returns: the mean part of the SMs over the launch's waves, in millionths, 1..1000000.
// `blocks`: of the grid; `a_wave`: that all SMs hold at a time, 0 = not known. pre: sms >= 1.
static inline uint32_t jvgpu_sm_part_ppm(uint64_t blocks, uint32_t sms, uint64_t a_wave)
{
  if (blocks == 0) {
    return 1000000;
  }
  const uint64_t wave = a_wave < sms ? sms : a_wave;
  const uint64_t full = blocks / wave;
  const uint64_t rest = blocks % wave;
  if (rest == 0 || full > 1000) {
    return 1000000;
  }
  const uint64_t last_ppm = rest < sms ? rest * 1000000 / sms : 1000000;
  const uint64_t mean_ppm = (full * 1000000 + last_ppm) / (full + 1);
  return mean_ppm != 0 ? (uint32_t)mean_ppm : 1;
}

#endif
