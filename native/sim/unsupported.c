// Functions of the real driver that a simulated board has not: they are there, and say that they are not supported.

#include <stdbool.h>

// Whatever their parameters, they look at none: so they are declared without, and without NVIDIA's prototypes.
typedef int sim_result_t;
sim_result_t sim_ready(void);
enum { NOT_SUPPORTED = 801 };

static sim_result_t answer(void)
{
  const sim_result_t ready = sim_ready();
  return ready != 0 ? ready : NOT_SUPPORTED;
}

#define SIM_ENTRY(name, symbol, version)                            \
  __attribute__((visibility("default"))) sim_result_t symbol(void); \
  __attribute__((visibility("default"))) sim_result_t symbol(void)  \
  {                                                                 \
    return answer();                                                \
  }
#define SIM_TWIN(name, symbol, version) SIM_ENTRY(name, symbol, version)
#include "unsupported.def"
