// The driver's pointers where no driver is wanted: all NULL.
#include "real.h"
jvgpu_real_t jvgpu_real;
