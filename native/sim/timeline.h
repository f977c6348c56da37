// Time: streams as positions in their context's own time, which stands still while others have their turn (turns.h).

#ifndef JVGPU_SIM_TIMELINE_H
#define JVGPU_SIM_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"

#define SIM_SM_GROUPS 32u

// What a launch costs the device.
typedef struct sim_cost_s {
  uint64_t duration_ns;  // 0: nothing at all
  uint64_t sm_ns;        // of which, weighted by the part of the SMs it fills
  uint32_t sm_groups;    // 1..SIM_SM_GROUPS
} sim_cost_t;

// Work that is being submitted as one.
typedef struct sim_unit_s {
  bool      is_open;
  CUcontext context;  // NULL: nothing yet
  uint64_t  arrival;  // position the context had reached when the first of it came
  uint64_t  goal;
  uint32_t  demand_ppm;
} sim_unit_t;

// Queue work: the stream is busy `duration_ns` longer.
// returns: where it starts
uint64_t sim_submit(CUstream stream, uint64_t duration_ns);
// The same for a timing event, which is told its moment once the context is there.
void sim_submit_timing(CUstream stream, uint64_t duration_ns, CUevent event);
// The same for a launch: it takes SMs, the host's time, and a place in the stream's queue, for which it may wait.
void sim_submit_launch(CUstream stream, const sim_cost_t *cost);
// What the calling thread submits between the two reaches the device as one, as a graph does: no pause of the host
// falls in between.
void sim_unit_begin(void);
void sim_unit_end(void);
void sim_graph_pay(void);
// Work submitted from now on starts at `position` at the earliest.
void sim_stream_hold(CUstream stream, uint64_t position);
void sim_stream_hold_until(CUstream stream, uint64_t moment_ns);
// returns: where everything submitted to the stream so far is done (legacy ordering included)
uint64_t sim_stream_position(CUstream stream);
bool sim_stream_is_done(CUstream stream);
void sim_stream_wait(CUstream stream);
// returns: true when the context is past `position`; else `eta_ns` (may be NULL) is when to look again
bool sim_position_is_reached(CUcontext context, uint64_t position, uint64_t *eta_ns);
void sim_position_wait(CUcontext context, uint64_t position);
void sim_lane_drop(CUcontext context);

// ---- the host's clock (host_clock.c)

// The calling thread's clock goes on; it sleeps when that is far ahead of the real one.
void sim_host_pay(uint64_t cost_ns);
// Waits until the real clock shows what the thread's does: before it looks at what the device has done.
void sim_host_catch_up(void);
// The thread's clock goes on from `due_ns`, when it should have been woken: what the real sleep was late is caught up.
void sim_host_resume(uint64_t due_ns);
void sim_sleep_until(uint64_t deadline_ns);

// Timing events whose moment is not known yet (event.c).
// pre of all three: the context's domain entered
void sim_events_add(CUcontext context, CUevent event, uint64_t position, uint64_t end);
// Notes the moments that lie in the past.
void sim_events_settle(CUcontext context);
// The context gets no further: the rest is cut off now.
void sim_events_cut(CUcontext context, uint64_t now_ns);

#endif
