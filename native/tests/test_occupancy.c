// The part of the SMs that a launch can fill, from its grid.

#include "occupancy.h"

#include "check.h"

int main(void)
{
  CHECK("one block fills one SM", jvgpu_sm_part_ppm(1, 100, 800) == 10000);
  CHECK("a block for each SM fills all", jvgpu_sm_part_ppm(100, 100, 800) == 1000000);
  CHECK("a whole wave fills all", jvgpu_sm_part_ppm(800, 100, 800) == 1000000);
  CHECK("a wave and a block: all, then one", jvgpu_sm_part_ppm(801, 100, 800) == 505000);
  CHECK("where one block fits on an SM, a wave is a block for each", jvgpu_sm_part_ppm(150, 100, 100) == 750000);
  CHECK("many waves: the last one no longer shows", jvgpu_sm_part_ppm(800 * 2000 + 1, 100, 800) == 1000000);
  CHECK("nothing known of the grid: all", jvgpu_sm_part_ppm(0, 100, 800) == 1000000);
  CHECK("nothing known of the wave: a block for each SM", jvgpu_sm_part_ppm(50, 100, 0) == 500000);
  CHECK("never nothing", jvgpu_sm_part_ppm(1, 4000000, 0) == 1);
  RESULT();
}
