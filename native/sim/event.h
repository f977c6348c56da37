// Events: what their files know of each other.

#ifndef JVGPU_SIM_EVENT_H
#define JVGPU_SIM_EVENT_H

#include "driver.h"

#define SIM_EVENT_MAGIC 0x45564e54u
enum { BLOCKING_SYNC = 1, DISABLE_TIMING = 2, INTERPROCESS = 4 };

struct CUevent_st {
  uint32_t                 magic;
  unsigned int             flags;
  bool                     is_recorded;
  uint64_t                 position;   // where it begins, and where it is over
  uint64_t                 end;
  uint64_t                 moment_ns;  // when the device got to `position`; 0 = not known yet
  CUevent                  next;       // of the context's unsettled ones
  CUcontext                context;
  CUstream                 stream;
  uint64_t                 host_ticket;    // host functions of the stream that come before it
  sim_capture_t           *capture;  // recorded under this capture: a point in a graph, not in time
  uint64_t                 capture_id;
  CUgraphNode             *tail;
  size_t                   tail_count;
  struct sim_event_page_s *page;  // once it is shared with other processes
  int                      file;  // descriptor + 1 of the page's file, of whoever shared it
};

bool sim_is_event(CUevent event);
CUresult sim_event_new(CUevent *out, unsigned int flags);

// The page of an event that several processes have (event_ipc.c). It is theirs, so nothing in it is believed: the worst
// it can do is to let them wait for each other's work too long or not at all.
typedef struct sim_event_page_s sim_event_page_t;

// Tells the others of a record. Does nothing for an event that is not shared.
void sim_event_page_record(CUevent event);
// returns: true when what was recorded last, by whomever, is done or never will be; else `eta_ns` (may be NULL) is when
// to look again
bool sim_event_page_is_done(const sim_event_page_t *page, uint64_t *eta_ns);
void sim_event_page_wait(const sim_event_page_t *page);
void sim_event_page_drop(CUevent event);

#endif
