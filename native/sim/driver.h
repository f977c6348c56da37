// Inside the simulated libcuda.so.1: what its files know of each other.
//
// One lock, `sim_lock`, guards all structure of the process (contexts, ranges, pools, graphs). It is held for
// the length of a list operation and never across a wait. Launches take no lock: they touch atomics only.
// A forked child never gets as far as the lock: `sim_ready` refuses it first.

#ifndef JVGPU_SIM_DRIVER_H
#define JVGPU_SIM_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda_abi_graph.h"
#include "shared.h"
#include "timeline.h"

#define SIM_KIB 1024ull
#define SIM_MIB (1024ull * 1024ull)
#define SIM_CHUNK_BYTES (2 * SIM_MIB)  // what the device hands out and charges, as the real driver does
#define SIM_CUDA_VERSION 13000

// ---- process (process.c)

typedef struct sim_process_s {
  sim_shared_t *shared;
  sim_slot_t   *slot;
  int           device_count;                 // visible ones
  sim_board_t   boards[SIM_MAX_BOARDS];       // as this process sees them: a MIG device is a small board
  uint32_t      instance_of[SIM_MAX_BOARDS];  // GPU instance, counted from 1; 0 = the whole board
  uint32_t      board_of[SIM_MAX_BOARDS];     // CUDA ordinal -> board
} sim_process_t;

extern sim_process_t   sim_process;
extern pthread_mutex_t sim_lock;

// returns: CUDA_SUCCESS, or what a call answers before cuInit, in a forked child, or after the process's end began
CUresult sim_ready(void);
CUresult sim_check_device(CUdevice device);
sim_shared_t *sim_opened(void);  // also before cuInit; NULL when there is no state file
int sim_driver_version(void);    // 13000, or what it was told to be

static inline const sim_board_t *sim_board(CUdevice device)
{
  return &sim_process.boards[device];
}

static inline sim_control_t *sim_control(CUdevice device)
{
  return &sim_process.shared->controls[sim_process.board_of[device]];
}

// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (visible.c).
// returns: number of boards written to `board_of`
int sim_visible_boards(const sim_shared_t *shared, const char *visible, const char *order, uint32_t *board_of);

// MIG (visible_mig.c): boards with MIG on are replaced by a compute instance, of which a process sees one at most.
// returns: number of devices left in `process`; its boards and instances are filled in
int sim_visible_mig(sim_shared_t *shared, const char *visible, sim_process_t *process, int count,
                    uint32_t computes[SIM_MAX_BOARDS]);

// returns: bytes the device has left, for this process
uint64_t sim_device_free(CUdevice device);

// Charge and uncharge the board behind a CUDA ordinal.
// pre: sim_lock held
bool sim_charge(CUdevice device, uint64_t bytes);
void sim_uncharge(CUdevice device, uint64_t bytes);

// ---- streams (stream.c) and captures (capture.c)

typedef struct sim_capture_s sim_capture_t;

#define SIM_STREAM_MAGIC 0x5354524dul
#define SIM_CONTEXT_MAGIC 0x43545854ul
#define SIM_DEAD_MAGIC 0x44454144ul
#define SIM_STREAM_NON_BLOCKING 1u

struct CUstream_st {
  uint32_t                 magic;
  uint32_t                 flags;
  int                      priority;
  bool                     is_legacy;
  bool                     is_internal;  // legacy or per-thread: not for cuStreamDestroy
  CUcontext                context;
  uint64_t                 stream_id;
  uint64_t                 until;     // position at which what was submitted so far is done (timeline.c)
  uint64_t                *queue;     // positions at which the last launches end, round; NULL before the first
  uint64_t                 launches;  // since then
  uint64_t                 launch_end;  // where the last one ends
  uint64_t                 timing_end;  // and the last timing event
  _Atomic uint64_t         host_issued;       // host functions submitted
  _Atomic uint64_t         host_done;
  _Atomic(sim_capture_t *) capture;
  CUgraphNode             *tail;                  // under capture: what the next node depends on
  size_t                   tail_count;
  pid_t                    thread;                       // owner of a per-thread stream
  struct CUstream_st      *next;
};

// Which default stream a NULL handle means: the caller of a `_ptsz` or `_ptds` twin gets the thread's own.
typedef enum { SIM_LEGACY, SIM_PER_THREAD } sim_face_t;

// A stream-taking call and its per-thread twin. `expression` sees the parameters and `face`.
#define SIM_TWINS(name, suffix, params, expression) \
  SIM_API CUresult name params;                     \
  SIM_API CUresult name##_##suffix params;          \
  SIM_API CUresult name            params           \
  {                                                 \
    const sim_face_t face = SIM_LEGACY;             \
    return (expression);                            \
  }                                                 \
  SIM_API CUresult name##_##suffix params           \
  {                                                 \
    const sim_face_t face = SIM_PER_THREAD;         \
    return (expression);                            \
  }

// returns: CUDA_SUCCESS and the stream, or why the handle cannot be used
CUresult sim_stream_of(CUstream handle, sim_face_t face, CUstream *stream);
CUstream sim_stream_new(CUcontext context, uint32_t flags, int priority);
CUresult sim_stream_run_host(CUstream stream, CUhostFn function, void *user_data);
// By the thread that calls host functions, behind those it was given before.
CUresult sim_host_run_later(CUhostFn function, void *user_data);
// Frees the context's streams.
// pre: sim_lock held
void sim_streams_drop(CUcontext context);

// ---- contexts (context.c)

#define SIM_LIMITS 10

struct CUctx_st {
  uint32_t            magic;
  uint32_t            flags;
  CUdevice            device;
  unsigned int        api_version;
  bool                is_primary;
  int                 references;
  uint64_t            context_id;
  uint64_t            charged_bytes;
  CUstream            legacy;
  CUstream            streams;                    // all others, per-thread ones included
  uint32_t            sm_count;           // SMs it may use: fewer than the board has under MPS limits and MIG
  uint32_t            domain;             // whose turns it takes part in
  uint32_t            lane;               // SIM_LANES before the first work
  uint64_t            blocking_until;     // latest end of work on blocking streams: the legacy stream waits for it
  uint64_t            groups_free_at[SIM_SM_GROUPS];  // positions, ascending
  uint64_t            lately_ns;          // queued lately, and of it weighted by SMs
  uint64_t            lately_sm_ns;
  CUevent             unsettled;          // timing events whose moment is not known yet
  uint32_t            fault_serial;       // faults of the board this context has outlived
  sim_control_t      *control;  // of its board
  CUresult            fault;              // CUDA_SUCCESS, or what every call answers since
  struct sim_range_s *ranges;
  struct CUctx_st    *next;
  unsigned int        peers;                  // devices whose memory was opened by cuCtxEnablePeerAccess
  size_t              limits[SIM_LIMITS];
};

static inline sim_domain_t *sim_domain(CUcontext context)
{
  return &sim_process.shared->domains[context->domain];
}

#define SIM_STACK_DEPTH 32

typedef struct sim_thread_s {
  int                 depth;
  CUstreamCaptureMode capture_mode;
  int                 local_captures;       // captures this thread began and which are not relaxed
  CUstream            own_stream;      // last per-thread stream used
  uint64_t            host_ns;         // the thread's own clock (timeline.c)
  uint64_t            credit_ns;       // how far it may lag behind the real one
  uint64_t            seen_ns;         // when the thread last called
  sim_unit_t          unit;            // open: what it submits now are nodes of a graph
  CUcontext           stack[SIM_STACK_DEPTH];
} sim_thread_t;

extern _Thread_local sim_thread_t sim_thread __attribute__((tls_model("initial-exec")));

// Faults (faults.c).
// returns: CUDA_SUCCESS, or what every call of the context answers since a fault hit it
CUresult sim_context_fault(CUcontext context);
static inline CUresult sim_context_check(CUcontext context)
{
  const bool is_well =
      atomic_load_explicit(&context->control->fault_serial, memory_order_relaxed) == context->fault_serial &&
      atomic_load_explicit(&context->control->is_lost, memory_order_relaxed) == 0;
  return is_well ? context->fault : sim_context_fault(context);
}
// returns: true when this device allocation is the one that was to fail
bool sim_allocation_fails(CUdevice device);
// returns: true when the driver was told to be without this function
bool sim_is_missing(const sim_shared_t *shared, const char *name);

// returns: CUDA_SUCCESS and the calling thread's context; CUDA_ERROR_INVALID_CONTEXT when it has none
CUresult sim_current(CUcontext *context);
bool sim_context_is_alive(CUcontext context);
// Why what is no living context is refused.
CUresult sim_context_refusal(CUcontext context);
CUresult sim_stack_push(CUcontext context);
// Takes a context that goes off the calling thread's stack if it is the current one.
void sim_stack_leave(CUcontext context);
// returns: the device's primary context, made if needed, and counted once more (memory pools live on devices)
CUresult sim_context_primary(CUdevice device, CUcontext *context);
// A context with a part of the SMs, which costs nothing beside the primary one (green.c).
CUresult sim_context_green(CUdevice device, uint32_t sm_count, CUcontext *context);
void sim_context_green_destroy(CUcontext context);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);

// Pools let go of what lies unused above their threshold; called when the host waits for the device (pool.c).
void sim_pools_trim(void);

// ---- work: what can be queued, captured, or stand in a graph (work.c)

typedef struct sim_kernel_work_s {
  CUfunction   function;
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  void       **params;  // in a node: one block, owned by the node
} sim_kernel_work_t;

typedef struct sim_work_s {
  CUgraphNodeType kind;
  union {
    sim_kernel_work_t       kernel;
    CUDA_MEMCPY3D           copy;
    CUDA_MEMSET_NODE_PARAMS fill;
    CUDA_HOST_NODE_PARAMS   host;
    CUevent                 event;
    CUgraph                 child;
    CUdeviceptr             address;  // of a memory node
  } of;
} sim_work_t;

// Do the work now, or add it to the graph the stream captures into.
CUresult sim_stream_do(CUstream stream, const sim_work_t *work);
CUresult sim_work_run(const sim_work_t *work, CUstream stream);

CUresult sim_kernel_run(const sim_kernel_work_t *kernel, CUstream stream);  // launch.c
// returns: a copy of the parameters of a function that has a body; NULL for others
void **sim_params_copy(CUfunction function, void **params, void **extra);
// On a stream, or on the caller's default stream behind what is queued there (copy.c).
CUresult sim_copy_async(const CUDA_MEMCPY3D *copy, CUstream handle, sim_face_t face);
CUresult sim_copy_now(const CUDA_MEMCPY3D *copy, sim_face_t face);
CUresult sim_copy_run(const CUDA_MEMCPY3D *copy);                           // copy.c
CUresult sim_fill_run(const CUDA_MEMSET_NODE_PARAMS *fill);                 // fill.c
// How long they take (transfer.c): over the link to the host, in the device's memory, a copy.
uint64_t sim_link_ns(CUdevice device, uint64_t bytes);
uint64_t sim_memory_ns(CUdevice device, uint64_t bytes);
uint64_t sim_copy_ns(const CUDA_MEMCPY3D *copy, CUdevice device);
bool sim_copy_crosses(const CUDA_MEMCPY3D *copy);  // the link to the host
// returns: true when every byte of the span is memory the device can reach
bool sim_is_reachable(CUdeviceptr start, size_t bytes);
CUresult sim_event_record(CUevent event, CUstream stream);                  // event.c
CUresult sim_event_wait(CUevent event, CUstream stream);

// ---- functions of modules and libraries (module.c)

struct CUfunc_st {
  uint32_t magic;
  uint64_t duration_ns;
  CUresult (*body)(void **params, uint64_t threads);  // NULL: takes time, does nothing
  const uint8_t    *param_sizes;                     // known only where there is a body
  unsigned int      param_count;
  CUmodule          module;
  struct CUfunc_st *next;
  int               attributes[CU_FUNC_ATTRIBUTE_MAX];
  char              name[];  // of any length: compilers write types into it
};

#define SIM_FUNCTION_MAGIC 0x46554e43ul

CUfunction sim_function_new(const char *name, CUmodule module);

// A device function that computes (body.c).
typedef struct sim_body_s {
  const char *name;
  const char *mangled;  // of the C++ compilers' (Itanium) ABI
  CUresult (*run)(void **params, uint64_t threads);
  uint8_t      sizes[4];  // of its parameters
  unsigned int count;
} sim_body_t;

// returns: NULL for a function that only takes time
const sim_body_t *sim_body_of(const char *name);

#endif
