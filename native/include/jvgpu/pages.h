// Pages: what the node agent and a tenant's processes share, and how they come by it.
//
// The control page is written by the agent alone: a memfd that the agent maps writable and then
// seals with F_SEAL_FUTURE_WRITE, so no holder of a descriptor can map it writable again.
// The usage page is written by the tenant; the agent reads it as untrusted input. Both are per
// claim: no tenant writes anything that another tenant reads.
//
// Changing anything here changes JVGPU_LAYOUT.

#ifndef JVGPU_PAGES_H
#define JVGPU_PAGES_H

#include <stdint.h>

#define JVGPU_MAGIC 0x4a564750u  // "JVGP"
#define JVGPU_LAYOUT 3u

#define JVGPU_MAX_DEVICES 16u
#define JVGPU_MAX_SLOTS 1024u
#define JVGPU_UUID_BYTES 16u
#define JVGPU_SECRET_BYTES 32u
#define JVGPU_MESSAGE_BYTES 192u

enum {
  JVGPU_GATE_OPEN = 0,
  JVGPU_GATE_CLOSED = 1,  // launches wait, while governor_ns is fresh
};

enum {
  JVGPU_CLAIM_BOUND = 1,
  JVGPU_CLAIM_RELEASED = 2,  // revoked or over: nothing more is granted
};

// One device of the claim. Indices are the claim's own order, the same in both pages.
typedef struct jvgpu_control_device_s {
  uint8_t  uuid[JVGPU_UUID_BYTES];  // as cuDeviceGetUuid gives it
  uint64_t memory_limit_bytes;      // what the tenant's processes together may hold, overhead included
  uint64_t memory_overhead_bytes;   // contexts, module code: seen by NVML only
  uint32_t share_ppm;               // promised part of GPU time, 1..1000000
  uint32_t ceiling_ppm;             // most it may use, share_ppm..1000000
  uint32_t gate;                    // JVGPU_GATE_*; a futex word
  uint32_t contenders;              // processes, of any tenant, that launched here lately; 0 = not known
  uint64_t flight_bound_ns;         // most estimated GPU time a process may have in flight, 0 = any
  uint32_t is_governed;             // 1 = somebody is, or may soon be, held back here: say what is done
  uint32_t least_in_flight;         // so many short launches may always be: 1, or 2 for who is alone in its claim
  uint64_t clear_ns;  // since when it has the device for itself, in a window; 0 = others may be at work
} jvgpu_control_device_t;

typedef struct jvgpu_control_s {
  uint32_t               magic;
  uint32_t               layout;
  uint32_t               state;  // JVGPU_CLAIM_*
  uint32_t               device_count;  // 1..JVGPU_MAX_DEVICES
  uint32_t               slot_count;  // one past the highest slot in use: how far a sum has to look
  uint32_t               epoch;  // grows with every change the agent makes, heartbeats apart
  uint64_t               heartbeat_ns;  // CLOCK_MONOTONIC of the agent's last sign of life
  uint64_t               agent_pid;  // host PID, for messages
  uint64_t               governor_ns;  // CLOCK_MONOTONIC of the governor's last look, 0 = there is none
  uint64_t               reserved[2];
  jvgpu_control_device_t devices[JVGPU_MAX_DEVICES];
} jvgpu_control_t;

// What one process holds and did on one device.
typedef struct jvgpu_use_s {
  uint64_t held_bytes;  // granted by the driver
  uint64_t pending_bytes;  // reserved, not yet answered by the driver
  uint64_t launches;  // launches, graph launches included
  uint64_t waited_ns;  // work in flight, less the GPU time it had
  uint64_t busy_ns;  // GPU time, charged as launches are made
  uint64_t refused;  // allocations refused for want of room in the slice
  uint64_t done_ns;  // of busy_ns, what is known to be over; kept while the device is governed
  uint64_t gated_ns;  // time that launches stood at a closed gate or at the flight bound
  uint64_t throttled;  // launches that did
  uint64_t sm_ns;  // GPU time x the part of the SMs that the launches could fill
  uint64_t allocations;  // live allocations
  uint32_t blocked;  // threads that stand there now
  uint32_t is_guess;  // 1 = what launches are charged was never seen while nobody else was at work, and may be far off
  uint64_t ahead_ns;  // of busy_ns, what was too much and is taken off what is charged next
  uint64_t reserved[3];
} jvgpu_use_t;

// One process. The agent writes `pid` at attach and clears the slot at death; the rest is the tenant's.
typedef struct jvgpu_slot_s {
  uint32_t    pid;  // host PID, 0 = free
  uint32_t    generation;  // grows each time the slot is given out
  uint64_t    reserved[7];
  jvgpu_use_t devices[JVGPU_MAX_DEVICES];
} jvgpu_slot_t;

typedef struct jvgpu_usage_s {
  uint32_t     magic;
  uint32_t     layout;
  uint64_t     reserved[7];
  jvgpu_slot_t slots[JVGPU_MAX_SLOTS];
} jvgpu_usage_t;

// Attach: one request, one reply, over SOCK_SEQPACKET. Fixed sizes, native byte order (same host).
typedef struct jvgpu_attach_request_s {
  uint32_t magic;
  uint32_t layout;
  char     secret_hex[2 * JVGPU_SECRET_BYTES];  // not terminated
} jvgpu_attach_request_t;

enum {
  JVGPU_ATTACH_OK = 0,
  JVGPU_ATTACH_REFUSED = 1,  // wrong secret, wrong user, released claim; `message` says which
  JVGPU_ATTACH_VERSION = 2,  // layouts differ
  JVGPU_ATTACH_FULL = 3,  // no slot left
};

// With JVGPU_ATTACH_OK two descriptors come along by SCM_RIGHTS: control, usage.
typedef struct jvgpu_attach_reply_s {
  uint32_t magic;
  uint32_t layout;
  uint32_t status;  // JVGPU_ATTACH_*
  uint32_t slot;  // index into jvgpu_usage_t.slots
  uint32_t generation;
  uint32_t reserved;
  char     message[JVGPU_MESSAGE_BYTES];  // terminated; for the tenant's eyes when refused
} jvgpu_attach_reply_t;

#endif
