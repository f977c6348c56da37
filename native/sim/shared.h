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

#define SIM_MAGIC 0x4d495356475055ull  // "UPGVSIM"
#define SIM_LAYOUT 1u
#define SIM_MAX_BOARDS 16u
#define SIM_MAX_SLOTS 1024u

// Constants of one board. jupyter_vgpu/sim.py lists the same fields in the same order.
typedef struct sim_board_s {
  char     name[96];
  char     serial[32];
  uint8_t  uuid[16];
  uint64_t memory_bytes;    // physical; NVML's total
  uint64_t reserved_bytes;  // kept by the driver: CUDA's total is memory - reserved
  uint64_t context_bytes;   // what a bare context costs
  uint64_t bar1_bytes;
  uint64_t l2_bytes;
  uint32_t sm_count;
  uint32_t capability_major;
  uint32_t capability_minor;
  uint32_t sm_clock_mhz;
  uint32_t memory_clock_mhz;
  uint32_t memory_bus_bits;
  uint32_t cores_per_sm;
  uint32_t threads_per_sm;
  uint32_t blocks_per_sm;
  uint32_t shared_per_sm_bytes;
  uint32_t shared_per_block_optin_bytes;
  uint32_t pci_domain;
  uint32_t pci_bus;
  uint32_t pci_device;
  uint32_t pci_device_id;     // device << 16 | vendor, as NVML gives it
  uint32_t pci_subsystem_id;
  uint32_t pcie_generation;
  uint32_t power_limit_mw;
  uint32_t power_idle_mw;
  uint32_t architecture;      // nvmlDeviceArchitecture_t
  uint32_t has_mig;           // MIG-capable; the simulated board has it disabled
  uint32_t reserved[3];
} sim_board_t;

// What one process holds and did on one board.
typedef struct sim_use_s {
  _Atomic uint64_t held_bytes;     // contexts included
  _Atomic uint64_t pending_bytes;  // being reserved: not yet granted
  _Atomic uint64_t contexts;
  _Atomic uint64_t launches;
  _Atomic uint64_t busy_ns;         // simulated GPU time submitted so far
  _Atomic uint64_t window;          // number of the current utilisation window
  _Atomic uint64_t window_busy_ns;  // busy_ns when that window began
  _Atomic uint64_t last_busy_ns;    // busy time of the window before it
} sim_use_t;

typedef struct sim_slot_s {
  _Atomic uint64_t owner;  // PID and start time of the process, packed; 0 = free
  uint64_t         reserved[7];
  sim_use_t        uses[SIM_MAX_BOARDS];
} sim_slot_t;

typedef struct sim_shared_s {
  uint64_t         magic;
  uint32_t         layout;
  uint32_t         board_count;  // 1..SIM_MAX_BOARDS
  uint32_t         cuda_version; // 13000
  uint32_t         reserved0;
  char             driver_version[80];
  char             nvml_version[80];
  _Atomic uint32_t slot_count;  // one past the highest slot ever used
  uint32_t         reserved1[7];
  sim_board_t      boards[SIM_MAX_BOARDS];
  sim_slot_t       slots[SIM_MAX_SLOTS];
} sim_shared_t;

#define SIM_WINDOW_SHIFT 27u  // a utilisation window lasts 2^27 ns, 134 ms

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

// returns: bytes a board can give to processes
static inline uint64_t sim_board_capacity(const sim_board_t *board)
{
  return board->memory_bytes - board->reserved_bytes;
}

// returns: the PID of the slot's process if it lives, else 0 (and the slot is free from then on)
pid_t sim_shared_living_pid(sim_slot_t *slot);

uint64_t sim_now_ns(void);

#endif
