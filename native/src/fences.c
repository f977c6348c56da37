#include "clock.h"
#include "meter.h"
#include "pacer_parts.h"
#include "real.h"

// What has no fence is little by what launches are believed to take. They may take more, or be believed to all at once:
// then it is waited for so long, with the gate open.
#define UNSEEN_NS UINT64_C(50000000)

void jvgpu_fences_publish(jvgpu_pacer_t *pacer)
{
  jvgpu_use_t   *use = pacer_use(pacer);
  const uint64_t busy_ns = __atomic_load_n(&use->busy_ns, __ATOMIC_RELAXED);
  const uint64_t under_way_ns = pacer->flight.under_way_ns;
  __atomic_store_n(&use->done_ns, busy_ns > under_way_ns ? busy_ns - under_way_ns : 0, __ATOMIC_RELAXED);
}

bool jvgpu_fences_prepare(jvgpu_pacer_t *pacer)
{
  CUcontext ctx = NULL;
  if (pacer->failed || jvgpu_real.cuCtxGetCurrent == NULL || jvgpu_real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS ||
      ctx == NULL) {
    return false;
  }
  if (pacer->ctx != NULL) {
    return pacer->ctx == ctx;  // launches of a second context on the device are gated, not bounded
  }
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    if (jvgpu_real.cuEventCreate(&pacer->events[i], 2 /* CU_EVENT_DISABLE_TIMING */) != CUDA_SUCCESS) {
      pacer->failed = true;
      return false;
    }
  }
  pacer->ctx = ctx;
  jvgpu_fences_publish(pacer);
  return true;
}

// returns: since when the claim has the device for itself, 0 = others may be at work. Not after a governor that may be
// gone: before the others take it for that their gates hold.
static uint64_t clear_of(const jvgpu_pacer_t *pacer)
{
  const uint64_t clear_ns = __atomic_load_n(&pacer_limits(pacer)->clear_ns, __ATOMIC_ACQUIRE);
  return clear_ns != 0 && jvgpu_is_recent(&pacer_control(pacer)->governor_ns, JVGPU_SURE_GOVERNOR_NS) ? clear_ns : 0;
}

// What is under way was charged by a guess that was `times` too little; that is made good already, and not once more when
// it is over.
static void take_news(jvgpu_pacer_t *pacer, double times)
{
  const uint64_t before_ns = pacer->flight.under_way_ns;
  if (times < 1.0 || times > 1.0) {
    jvgpu_flight_scale(&pacer->flight, times);
    pacer->launched_ns += pacer->flight.under_way_ns - before_ns;
  }
}

// What is over took no longer than there was time for it, and as long where nobody else had the GPU.
static void look_at_time(jvgpu_pacer_t *pacer)
{
  const jvgpu_control_device_t *limits = pacer_limits(pacer);
  const uint64_t                bound_ns = __atomic_load_n(&limits->flight_bound_ns, __ATOMIC_RELAXED);
  const bool                    is_idle = pacer_is_closed(limits) && jvgpu_flight_is_over(&pacer->flight, bound_ns);
  const uint64_t                now_ns = jvgpu_now_ns();
  const uint64_t                under_way_ns = pacer->flight.under_way_ns;
  const uint64_t excess_ns = jvgpu_held_look(&pacer->held, now_ns, pacer->launched_ns, under_way_ns, is_idle);
  if (excess_ns != 0) {
    jvgpu_meter_too_much(pacer->self, pacer->device, excess_ns);
  }
  const jvgpu_done_t done = {
      .now_ns = now_ns,
      .charged_ns = pacer->launched_ns > under_way_ns ? pacer->launched_ns - under_way_ns : 0,
      .launches = pacer->launched - pacer->flight.launches,
      .launched = pacer->launched,
  };
  const jvgpu_had_t had = jvgpu_own_look(&pacer->own, clear_of(pacer), jvgpu_flight_is_busy(&pacer->flight), done);
  if (had.ns != 0) {
    take_news(pacer, jvgpu_meter_had(pacer->self, pacer->device, had));
  }
}

void jvgpu_fences_look(jvgpu_pacer_t *pacer)
{
  if (pacer_is_quiet(pacer) || pacer->ctx == NULL) {
    return;
  }
  jvgpu_flight_look(&pacer->flight);
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    if (pacer->flight.fences[i].is_set == 0) {
      continue;
    }
    const CUresult result = jvgpu_real.cuEventQuery(pacer->events[i]);
    if (result == CUDA_SUCCESS) {
      jvgpu_flight_passed(&pacer->flight, i);
    } else if (result != CUDA_ERROR_NOT_READY) {
      // The context is broken, and the program will hear of it: nothing of it is under way any more.
      pacer->failed = true;
      jvgpu_flight_clear(&pacer->flight);
      break;
    }
  }
  look_at_time(pacer);
  jvgpu_fences_publish(pacer);
}

void jvgpu_fences_give_up(jvgpu_pacer_t *pacer, uint64_t now_ns)
{
  if (pacer_is_closed(pacer_limits(pacer)) || !jvgpu_flight_is_unseen(&pacer->flight)) {
    pacer->unseen_ns = 0;
  } else if (pacer->unseen_ns == 0) {
    pacer->unseen_ns = now_ns;
  } else if (now_ns - pacer->unseen_ns > UNSEEN_NS) {
    jvgpu_flight_clear(&pacer->flight);
    jvgpu_fences_publish(pacer);
    pacer->unseen_ns = 0;
  }
}

void jvgpu_fences_set(jvgpu_pacer_t *pacer, uint32_t place, CUstream stream, const jvgpu_stream_calls_t *calls)
{
  const int fence = jvgpu_flight_fence(&pacer->flight, place);
  if (calls->record(pacer->events[fence], stream) != CUDA_SUCCESS) {
    jvgpu_flight_unfence(&pacer->flight, fence);
  }
}
