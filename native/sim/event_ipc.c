// Events of one process in another: cuIpcGetEventHandle and what opens it.
//
// Such an event has a page in a file without a name, which the other process opens through /proc: it says which lane of
// which schedule must have come how far. The schedule itself is everybody's.

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "event.h"

#define PAGE_BYTES 4096u
#define TICKET_MAGIC 0x5645504956474aull

// Written under the lock of `guard`, the domain of whoever shared it.
struct sim_event_page_s {
  uint32_t guard;
  uint32_t domain;
  uint32_t lane;
  uint32_t is_recorded;
  uint64_t owner;  // identity of the process that recorded
  uint64_t end;  // position of its lane
};

// What a CUipcEventHandle holds.
typedef struct sim_event_ticket_s {
  uint64_t magic;
  uint64_t owner;
  int32_t  fd;
  uint32_t board;
} sim_event_ticket_t;

_Static_assert(sizeof(sim_event_ticket_t) <= sizeof(CUipcEventHandle), "it travels in the handle");

static sim_event_page_t *map_page(int fd)
{
  struct stat info;
  void       *page = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size >= (off_t)PAGE_BYTES) {
    page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  return page == MAP_FAILED ? NULL : page;
}

static sim_domain_t *guard_of(const sim_event_page_t *page)
{
  return &sim_process.shared->domains[page->guard % SIM_DOMAINS];
}

void sim_event_page_record(CUevent event)
{
  sim_event_page_t *page = event->page;
  if (page == NULL) {
    return;
  }
  sim_domain_t *guard = guard_of(page);
  sim_domain_lock(guard);
  page->domain = event->context->domain;
  page->lane = event->context->lane;
  page->owner = sim_shared_identity();
  page->end = event->end;
  page->is_recorded = 1;
  sim_domain_unlock(guard);
}

bool sim_event_page_is_done(const sim_event_page_t *page, uint64_t *eta_ns)
{
  enum { LOOK_AGAIN_NS = 4000000 };
  sim_domain_t *guard = guard_of(page);
  sim_domain_lock(guard);
  const sim_event_page_t seen = *page;
  sim_domain_unlock(guard);
  if (seen.is_recorded == 0 || seen.domain >= SIM_DOMAINS || seen.lane >= SIM_LANES) {
    return true;
  }
  const uint64_t     now = sim_domain_enter(sim_process.shared, seen.domain);
  const sim_turns_t *turns = &sim_process.shared->domains[seen.domain].turns;
  const sim_lane_t  *lane = &turns->lanes[seen.lane];
  // A lane that is another's by now, or has not that much to do, is not the one that was meant.
  const bool is_done = atomic_load(&lane->owner) != seen.owner || lane->done >= seen.end || lane->goal < seen.end;
  if (!is_done && eta_ns != NULL) {
    *eta_ns = sim_turns_predict(turns, seen.lane, seen.end, now + LOOK_AGAIN_NS);
  }
  sim_domain_unlock(&sim_process.shared->domains[seen.domain]);
  return is_done;
}

void sim_event_page_wait(const sim_event_page_t *page)
{
  uint64_t eta_ns;
  while (!sim_event_page_is_done(page, &eta_ns)) {
    sim_sleep_until(eta_ns);
  }
}

void sim_event_page_drop(CUevent event)
{
  if (event->page != NULL) {
    munmap(event->page, PAGE_BYTES);
    event->page = NULL;
  }
  if (event->file != 0) {
    close(event->file - 1);
    event->file = 0;
  }
}

// pre: sim_lock held
static bool share(CUevent event, CUcontext context)
{
  // glibc has memfd_create only since 2.27; the floor is 2.17.
  const int fd = (int)syscall(SYS_memfd_create, "jvgpu-sim-event", MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, PAGE_BYTES) == 0) {
    event->page = map_page(fd);
  }
  if (event->page == NULL) {
    if (fd >= 0) {
      close(fd);
    }
    return false;
  }
  event->file = fd + 1;
  event->page->guard = context->domain;
  if (event->is_recorded && event->context != NULL) {
    sim_event_page_record(event);
  }
  return true;
}

SIM_API CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
  CUcontext context;
  CUresult  result = sim_current(&context);
  if (result != CUDA_SUCCESS || handle == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  if (!sim_is_event(event) || (event->flags & INTERPROCESS) == 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  pthread_mutex_lock(&sim_lock);
  if (event->page == NULL && !share(event, context)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_unlock(&sim_lock);
  if (result == CUDA_SUCCESS) {
    const sim_event_ticket_t ticket = {.magic = TICKET_MAGIC,
                                       .owner = sim_shared_identity(),
                                       .fd = event->file - 1,
                                       .board = sim_process.board_of[context->device]};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ticket, sizeof ticket);
  }
  return result;
}

static int open_file(const sim_event_ticket_t *ticket)
{
  char path[64];
  if (!sim_shared_is_alive(ticket->owner)) {
    return -1;
  }
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)(ticket->owner & SIM_PID_MASK), ticket->fd);
  return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

SIM_API CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
  sim_event_ticket_t ticket;
  CUcontext          context;
  CUresult           result = sim_current(&context);
  if (result != CUDA_SUCCESS || out == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  memcpy(&ticket, &handle, sizeof ticket);
  if (ticket.magic != TICKET_MAGIC || ticket.board != sim_process.board_of[context->device]) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (ticket.owner == sim_shared_identity()) {
    return CUDA_ERROR_INVALID_CONTEXT;  // not in the process that made it
  }
  const int         fd = open_file(&ticket);
  sim_event_page_t *page = map_page(fd);
  if (fd >= 0) {
    close(fd);
  }
  if (page == NULL) {
    return CUDA_ERROR_MAP_FAILED;
  }
  result = sim_event_new(out, INTERPROCESS | DISABLE_TIMING);
  if (result != CUDA_SUCCESS) {
    munmap(page, PAGE_BYTES);
    return result;
  }
  (*out)->page = page;
  return CUDA_SUCCESS;
}
