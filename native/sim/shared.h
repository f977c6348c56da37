// The boards of the node, as every process sees them: one file, mapped by all.
//
// Python (`jupyter_vgpu.sim.create_boards`) writes the header and the boards; the rest starts as zeroes and
// belongs to the libraries. A process owns one slot and writes nothing else, so that a kill at any moment
// corrupts nobody's figures: what a dead process held is simply no longer counted.
//
// threads: all functions may be called from any thread; none blocks.

#ifndef JVGPU_SIM_SHARED_H
#define JVGPU_SIM_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "turns.h"

#define SIM_MAGIC 0x4d495356475055ull  // "UPGVSIM"
#define SIM_LAYOUT 2u
#define SIM_MAX_BOARDS 16u
#define SIM_MAX_SLOTS 1024u
#define SIM_MIG_PROFILES 10u   // GPU instance profiles of one board
#define SIM_MIG_INSTANCES 7u   // GPU instances alive at once
#define SIM_MIG_SLICES 8u      // memory slices a board has at most
#define SIM_DOMAINS (SIM_MAX_BOARDS * (1u + SIM_MIG_INSTANCES))
#define SIM_XIDS 16u           // events remembered per board
#define SIM_MISSING 8u         // functions that can be missing at once
#define SIM_PID_MASK ((1ull << 23) - 1u)  // of an identity (sim_shared_identity): the PID
#define SIM_MEMORY_LIMITS 32u  // groups with a memory limit, per board

// A kind of GPU instance, as NVML's profile tables give it.
typedef struct sim_mig_profile_s {
  char     name[24];      // "1g.10gb"
  uint32_t profile_id;    // NVML_GPU_INSTANCE_PROFILE_*
  uint32_t count;         // how many fit on an empty board
  uint32_t compute_slices;
  uint32_t memory_slices;
  uint32_t sm_count;
  uint32_t copy_engines;
  uint32_t decoders;
  uint32_t jpegs;
  uint32_t ofas;
  uint32_t start_count;
  uint32_t starts[SIM_MIG_SLICES];  // memory slices it may begin at
  uint64_t memory_mib;
} sim_mig_profile_t;

// Constants of one board. jupyter_vgpu/sim.py lists the same fields in the same order.
typedef struct sim_board_s {
  char              name[96];
  char              serial[32];
  uint8_t           uuid[16];
  uint64_t          memory_bytes;    // physical; NVML's total
  uint64_t          reserved_bytes;  // kept by the driver: CUDA's total is memory - reserved
  uint64_t          context_bytes;   // what a bare context costs
  uint64_t          bar1_bytes;
  uint64_t          l2_bytes;
  uint32_t          sm_count;
  uint32_t          capability_major;
  uint32_t          capability_minor;
  uint32_t          sm_clock_mhz;
  uint32_t          memory_clock_mhz;
  uint32_t          memory_bus_bits;
  uint32_t          cores_per_sm;
  uint32_t          threads_per_sm;
  uint32_t          blocks_per_sm;
  uint32_t          shared_per_sm_bytes;
  uint32_t          shared_per_block_optin_bytes;
  uint32_t          pci_domain;
  uint32_t          pci_bus;
  uint32_t          pci_device;
  uint32_t          pci_device_id;     // device << 16 | vendor, as NVML gives it
  uint32_t          pci_subsystem_id;
  uint32_t          pcie_generation;
  uint32_t          power_limit_mw;
  uint32_t          power_idle_mw;
  uint32_t          architecture;      // nvmlDeviceArchitecture_t
  uint32_t          has_mig;           // MIG-capable
  uint32_t          mig_profile_count;
  uint32_t          reserved[2];
  sim_mig_profile_t mig_profiles[SIM_MIG_PROFILES];
} sim_board_t;

// What one process holds and did on one board.
typedef struct sim_use_s {
  _Atomic uint64_t held_bytes;     // contexts included
  _Atomic uint64_t pending_bytes;  // being reserved: not yet granted
  _Atomic uint64_t contexts;
  _Atomic uint64_t instance;       // GPU instance its contexts are in, plus one; 0 = the whole board
  _Atomic uint64_t compute;        // compute instance in it
  uint64_t         reserved[3];
} sim_use_t;

typedef struct sim_slot_s {
  _Atomic uint64_t owner;  // PID and start time of the process, packed; 0 = free
  uint64_t         reserved[7];
  sim_use_t        uses[SIM_MAX_BOARDS];
} sim_slot_t;

// A compute instance: a part of a GPU instance's SMs.
typedef struct sim_compute_s {
  uint32_t is_used;
  uint32_t slices;
  uint32_t start;
  uint32_t profile_id;
} sim_compute_t;

typedef struct sim_instance_s {
  uint32_t      is_used;
  uint32_t      profile;  // index into the board's profiles
  uint32_t      start;    // first memory slice
  uint32_t      reserved;
  sim_compute_t computes[SIM_MIG_INSTANCES];
} sim_instance_t;

// A hardware error, as NVML's event interface tells it.
typedef struct sim_xid_s {
  uint32_t xid;
  uint32_t pid;  // 0: not one process's
  uint64_t at_ns;
} sim_xid_t;

typedef struct sim_memory_limit_s {
  char     group[112];  // the control group it holds for, with those below it; "" = free
  uint64_t soft_bytes;
  uint64_t hard_bytes;
} sim_memory_limit_t;

// What can be changed on a board while it runs: by commands (python -m jupyter_vgpu.sim), by NVML calls of root.
// Structure (MIG, limits) is written under the lock of the board's first domain; the rest are single words.
typedef struct sim_control_s {
  _Atomic uint32_t   is_lost;            // fallen off the bus
  _Atomic uint32_t   is_mps;             // contexts of all processes run at once, as under an MPS server
  _Atomic uint32_t   fault_serial;       // raised with each fault of a context
  _Atomic uint32_t   fault_pid;          // whose contexts the last one hit; 0 = all
  _Atomic uint32_t   fault_result;       // CUresult they answer from then on
  _Atomic uint32_t   is_absurd;          // NVML's process rows are nonsense
  _Atomic uint64_t   nvml_stall_until_ns;
  _Atomic uint64_t   allocations_to_failure;  // the n-th device allocation from now fails; 0 = none
  _Atomic uint32_t   temperature_c;      // 0: as the load makes it
  _Atomic uint32_t   throttle_reasons;   // NVML's bits, beside the idle one
  _Atomic uint64_t   ecc_corrected;
  _Atomic uint64_t   ecc_uncorrected;
  _Atomic uint64_t   xid_count;
  sim_xid_t          xids[SIM_XIDS];
  _Atomic uint32_t   mig_mode;
  _Atomic uint32_t   mig_pending;
  sim_instance_t     instances[SIM_MIG_INSTANCES];
  sim_memory_limit_t limits[SIM_MEMORY_LIMITS];
  _Atomic uint32_t
           is_generous;  // NVML counts a process as busy while others have their turn, as real ones were seen to
  uint32_t reserved1;
  uint64_t reserved[63];
} sim_control_t;

typedef struct sim_shared_s {
  uint64_t         magic;
  uint32_t         layout;
  uint32_t         board_count;   // 1..SIM_MAX_BOARDS
  uint32_t         cuda_version;  // 13000
  uint32_t         slowdown;  // the boards' clock runs this many times slower than the machine's; 0 and 1: as fast
  char             driver_version[80];
  char             nvml_version[80];
  _Atomic uint32_t slot_count;  // one past the highest slot ever used
  uint32_t         reserved1[7];
  sim_board_t      boards[SIM_MAX_BOARDS];
  char             missing[SIM_MISSING][64];  // names of functions this driver has not
  sim_control_t    controls[SIM_MAX_BOARDS];
  sim_slot_t       slots[SIM_MAX_SLOTS];
  sim_domain_t     domains[SIM_DOMAINS];  // of board b: b * 8, then one for each GPU instance
} sim_shared_t;

// returns: the mapping of the file named by JUPYTER_VGPU_SIM; NULL when there is none or it is not a state file
sim_shared_t *sim_shared_open(void);

// returns: the slot now owned by this process; NULL when all are taken by living processes
sim_slot_t *sim_shared_claim_slot(sim_shared_t *shared);

// Frees the slot at the process's end. Does nothing in a process that does not own it (a forked child).
void sim_shared_leave(sim_slot_t *slot);

// Takes `bytes` of the board for this process; all or nothing, and never more than the board has, whatever
// other processes do at the same moment.
// pre: the caller lets one thread of the process in at a time
bool sim_shared_reserve(sim_shared_t *shared, sim_slot_t *slot, uint32_t board, uint64_t bytes);
void sim_shared_release(sim_slot_t *slot, uint32_t board, uint64_t bytes);

// returns: bytes held on the board by living processes, all together
uint64_t sim_shared_used(sim_shared_t *shared, uint32_t board);
// The same of one GPU instance, counted from 1; 0 means the whole board.
uint64_t sim_shared_used_in(sim_shared_t *shared, uint32_t board, uint32_t instance);

// returns: bytes a board can give to processes
static inline uint64_t sim_board_capacity(const sim_board_t *board)
{
  return board->memory_bytes - board->reserved_bytes;
}

// returns: the PID of the slot's process if it lives, else 0 (and the slot is free from then on)
pid_t sim_shared_living_pid(sim_slot_t *slot);

// Memory limits of control groups (limits.c).
// returns: true when the process is in the limit's group or below it
bool sim_limit_holds_for(const sim_memory_limit_t *limit, pid_t pid);
uint64_t sim_limit_used(sim_shared_t *shared, uint32_t board, const sim_memory_limit_t *limit);
// returns: bytes the process may still take; UINT64_MAX when no limit holds for it
uint64_t sim_limits_room(sim_shared_t *shared, uint32_t board, pid_t pid);
bool sim_limits_exceeded(sim_shared_t *shared, uint32_t board, pid_t pid);

// returns: what tells this process from all others, also from later ones of the same PID
uint64_t sim_shared_identity(void);
bool sim_shared_is_alive(uint64_t identity);

// Lets the caller alone into a domain. Whoever dies inside is noticed; who stops inside for long loses it.
void sim_domain_lock(sim_domain_t *domain);
void sim_domain_unlock(sim_domain_t *domain);

// Locks the domain and brings its schedule up to now. Lanes of dead processes go.
// returns: now
uint64_t sim_domain_enter(sim_shared_t *shared, uint32_t domain);

// The boards' clock: CLOCK_MONOTONIC, slowed down where the state file says so.
uint64_t sim_now_ns(void);
// returns: the CLOCK_MONOTONIC time at which the boards' clock shows `moment_ns`
uint64_t sim_monotonic_of(uint64_t moment_ns);

#endif
