// Whose turn it is: how the contexts of one board share its time.
//
// A lane is one context. Its own time (positions, ns) stands still while another lane has its turn, so the end of
// work is a position that never changes, and only the schedule says when the lane gets there. Nobody drives the
// schedule: whoever wants to know brings it up to the present, from what was queued when.
//
// Pure arithmetic: no clock, no lock. Values read from the file are bounded before use, since a process that dies or
// is stopped half-way may leave them odd.

#ifndef JVGPU_SIM_TURNS_H
#define JVGPU_SIM_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_LANES 128u  // per domain
#define SIM_SPANS 63u   // stretches remembered per lane

// The model's constants. source: measured on an H200, docs/simulated-board.md
enum {
  SIM_TURN_NS = 2080000,   // what a context executes before it must make way
  SIM_SWITCH_NS = 197500,  // lost when it is made to
  SIM_YIELD_NS = 15000,    // lost when it had nothing left
  SIM_LINGER_NS = 4000000  // who comes back after longer lets the round begin anew
};

#define SIM_WINDOW_SHIFT 27u  // a utilisation window lasts 2^27 ns, 134 ms

// A lane executed from position `start` to `end` while the clock went from `from_ns` to `until_ns`.
typedef struct sim_span_s {
  uint64_t from_ns;
  uint64_t until_ns;
  uint64_t start;
  uint64_t end;
} sim_span_t;

// What a lane executed lately, newest last, in a ring. When it is full and a position of the oldest stretch is still
// asked for, the two oldest become one: what lies in it is then known to a round of turns, in the right order still.
typedef struct sim_history_s {
  uint64_t   wanted;  // lowest position whose moment is asked for; UINT64_MAX = none
  uint64_t   reserved[3];
  sim_span_t spans[SIM_SPANS];
} sim_history_t;

typedef struct sim_lane_s {
  _Atomic uint64_t owner;         // identity of the process; 0 = free
  uint64_t         done;          // position reached
  uint64_t         goal;          // position up to which work is queued
  uint64_t         order;         // place in the round
  uint64_t         dry_since_ns;  // when `done` last met `goal`
  uint64_t         busy_ns;       // executed in the current window
  uint64_t         last_busy_ns;  // executed in the one before
  uint64_t         span_count;
  uint32_t         demand_ppm;    // part of the SMs its work fills
  uint32_t         reserved;
} sim_lane_t;

typedef struct sim_turns_s {
  uint64_t   now_ns;         // the schedule is known up to here
  uint64_t   ready_at_ns;    // the device changes from one context to another until then
  uint64_t   slice_left_ns;  // of the holder's turn; 0 = used up, and nobody else wanted it
  uint64_t   checked_ns;     // when the holder was last seen alive
  uint64_t   window;         // number of the current utilisation window
  uint64_t   busy_ns;        // any lane at work, in it
  uint64_t   last_busy_ns;   // in the one before
  uint64_t   sm_ns;          // the same, weighted by the SMs that were filled
  uint64_t   last_sm_ns;
  uint64_t   total_busy_ns;  // since the board was made
  uint64_t   total_sm_ns;
  uint32_t   holder;         // lane + 1; 0 = none
  uint32_t   last;           // lane + 1 that ran last
  uint32_t   lane_count;     // one past the highest lane used
  uint32_t   is_mps;         // no turns: all lanes at once
  sim_lane_t lanes[SIM_LANES];
} sim_turns_t;

typedef struct sim_domain_s {
  _Atomic uint64_t lock;  // identity of the process inside; 0 = nobody
  uint64_t         reserved[7];
  sim_turns_t      turns;
  sim_history_t    histories[SIM_LANES];
} sim_domain_t;

// Brings the schedule up to `to_ns` and notes who executed when.
void sim_turns_advance(sim_domain_t *domain, uint64_t to_ns);

// pre of the following: the schedule is up to now

// returns: a lane of `owner`, at position 0; SIM_LANES when all are taken
uint32_t sim_turns_take_lane(sim_domain_t *domain, uint64_t owner);
void sim_turns_drop_lane(sim_turns_t *turns, uint32_t lane);

// returns: true when no other lane has work
bool sim_turns_is_alone(const sim_turns_t *turns, uint32_t lane);

// Queues work: the lane's work now ends at `goal`.
void sim_turns_queue(sim_turns_t *turns, uint32_t lane, uint64_t goal, uint32_t demand_ppm);

// returns: when the lane will reach `position` if nothing else is queued; `limit_ns` if that is later
uint64_t sim_turns_predict(const sim_turns_t *turns, uint32_t lane, uint64_t position, uint64_t limit_ns);

// When the lane began to execute what lies at `position`: the start of its turn, where that begins there.
// returns: false when it has not yet
bool sim_turns_moment(const sim_domain_t *domain, uint32_t lane, uint64_t position, uint64_t *moment_ns);

#endif
