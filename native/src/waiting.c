#define _GNU_SOURCE
#include "waiting.h"

#include "clock.h"
#include "real.h"

bool jvgpu_waiting_begin_now(jvgpu_waiting_t *waiting, uint64_t busy_ns)
{
  __atomic_store_n(&waiting->busy_ns, busy_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&waiting->noted_ns, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&waiting->begun_ns, jvgpu_now_ns(), __ATOMIC_RELAXED);
  return true;
}

// Launches are charged ahead of their turn, so a long queue looks for a while as if nothing waited; the figure only
// ever grows.
void jvgpu_waiting_note(jvgpu_waiting_t *waiting, jvgpu_use_t *use, uint64_t begun_ns)
{
  const uint64_t flight_ns = jvgpu_now_ns() - begun_ns;
  const uint64_t busy_ns =
      __atomic_load_n(&use->busy_ns, __ATOMIC_RELAXED) - __atomic_load_n(&waiting->busy_ns, __ATOMIC_RELAXED);
  uint64_t noted_ns = __atomic_load_n(&waiting->noted_ns, __ATOMIC_RELAXED);
  // Another thread may note it meanwhile: then that has done so.
  if (flight_ns > busy_ns + noted_ns && __atomic_compare_exchange_n(&waiting->noted_ns, &noted_ns, flight_ns - busy_ns,
                                                                    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    __atomic_fetch_add(&use->waited_ns, flight_ns - busy_ns - noted_ns, __ATOMIC_RELAXED);
  }
}

bool jvgpu_waiting_look(jvgpu_waiting_t *waiting, jvgpu_use_t *use, CUstream stream, uint64_t before_ns)
{
  const uint64_t begun_ns = jvgpu_waiting_since(waiting);
  const bool     is_idle = jvgpu_real.cuStreamQuery(stream) == CUDA_SUCCESS;
  if (begun_ns != 0 && is_idle) {
    // It was done before we came: when, nobody knows. A slow host's pauses are not waiting, and what
    // is in flight begins with this launch.
    jvgpu_waiting_begin_now(waiting, before_ns);
  } else if (begun_ns != 0) {
    jvgpu_waiting_note(waiting, use, begun_ns);
  }
  return is_idle;
}
