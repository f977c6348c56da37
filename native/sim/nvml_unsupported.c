// Functions of the real NVML that a simulated board has not.

typedef int sim_result_t;
sim_result_t sim_nvml_ready(void);
enum { NOT_SUPPORTED = 3 };

// Whatever their parameters, they look at none.
#define SIM_UNSUPPORTED(symbol)                                     \
  __attribute__((visibility("default"))) sim_result_t symbol(void); \
  __attribute__((visibility("default"))) sim_result_t symbol(void)  \
  {                                                                 \
    const sim_result_t ready = sim_nvml_ready();                    \
    return ready != 0 ? ready : NOT_SUPPORTED;                      \
  }
#include "nvml_unsupported.def"
