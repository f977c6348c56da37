// What Python (cffi, ABI mode) sees of the agent's native part: a claim's two pages.
// No preprocessor lines: cffi reads this file as it is.

typedef struct jvgpu_tenant_s jvgpu_tenant_t;

// What one slot says on one device, after the agent's sanity checks.
typedef struct jvgpu_reading_s {
  uint64_t held_bytes;
  uint64_t pending_bytes;
  uint64_t launches;
  uint64_t waited_ns;
  uint64_t busy_ns;
  uint64_t refused;
  uint64_t gated_ns;
  uint64_t throttled;
  uint64_t sm_ns;
  uint64_t allocations;
  uint64_t ahead_ns;
} jvgpu_reading_t;

// Size checks for the Python side of the attach protocol.
uint32_t jvgpu_agent_layout(void);
uint32_t jvgpu_agent_request_bytes(void);
uint32_t jvgpu_agent_reply_bytes(void);
uint32_t jvgpu_agent_max_devices(void);
uint32_t jvgpu_agent_max_slots(void);

// Make, map and seal both pages of a claim; NULL and errno on failure.
jvgpu_tenant_t *jvgpu_tenant_create(uint32_t device_count);
// Unmap and close. NULL is allowed.
void jvgpu_tenant_destroy(jvgpu_tenant_t *tenant);
// Descriptors to pass to a tenant; still owned by the tenant object.
int jvgpu_tenant_control_fd(const jvgpu_tenant_t *tenant);
int jvgpu_tenant_usage_fd(const jvgpu_tenant_t *tenant);

// Set limits of the device at `index`; `uuid` is 16 bytes. Returns 0, or -1 for a bad index.
int jvgpu_tenant_set_device(jvgpu_tenant_t *tenant, uint32_t index, const uint8_t *uuid, uint64_t memory_limit_bytes,
                            uint32_t share_ppm, uint32_t ceiling_ppm);
int jvgpu_tenant_set_overhead(jvgpu_tenant_t *tenant, uint32_t index, uint64_t overhead_bytes);
// Say how many processes, of any tenant, launched on the device lately.
int jvgpu_tenant_set_contenders(jvgpu_tenant_t *tenant, uint32_t index, uint32_t contenders);
// Mark the claim released: every later allocation is refused.
void jvgpu_tenant_release(jvgpu_tenant_t *tenant);
// Note a sign of life (CLOCK_MONOTONIC, taken inside).
void jvgpu_tenant_heartbeat(jvgpu_tenant_t *tenant);

// Give a free slot to `pid`; returns its index, or -1 when none is left. *generation is set.
int jvgpu_tenant_slot_take(jvgpu_tenant_t *tenant, uint32_t pid, uint32_t *generation);
// Clear a slot whose process is gone. Returns 0, or -1 for a bad index.
int jvgpu_tenant_slot_clear(jvgpu_tenant_t *tenant, uint32_t slot);
// Returns a figure that changes whenever anything in the slots in use does: whether it is worth reading them again.
uint64_t jvgpu_tenant_signature(const jvgpu_tenant_t *tenant);
// Note a sign of life in `count` claims at once, and put the signature of each into `signatures`.
// Returns how many differ from what stood there.
uint32_t jvgpu_tenants_beat(jvgpu_tenant_t *const *tenants, uint32_t count, uint64_t *signatures);
// Read one slot on one device, as untrusted input. Returns 0, or -1 for a bad index.
int jvgpu_tenant_slot_read(const jvgpu_tenant_t *tenant, uint32_t slot, uint32_t index, jvgpu_reading_t *reading);

// Fill a reply that Python sends; `reply` has jvgpu_agent_reply_bytes() bytes.
void jvgpu_agent_fill_reply(void *reply, uint32_t status, uint32_t slot, uint32_t generation, const char *message);
// Check a request of `bytes` bytes; copies 64 hex digits + NUL to `secret_hex` (65 bytes).
// Returns a JVGPU_ATTACH_* status (0 = well formed; 1 = malformed; 2 = other layout).
uint32_t jvgpu_agent_parse_request(const void *request, uint32_t bytes, char *secret_hex);

// --- steering: the governor's thread, one for all devices (native/governor/governor.h) ---

typedef struct jvgpu_steering_s jvgpu_steering_t;

// What the governor knows of one claim on one device.
typedef struct jvgpu_steered_s {
  uint64_t windows;         // that it was given
  uint64_t overruns;        // windows others had to wait out: its work was not drained in time
  uint64_t violations;      // seconds in which it always wanted its promised share and did not have it
  uint64_t closed_ns;       // time that its gate was closed
  uint32_t entitled_ppm;    // weighted max-min fair part of the device, as of now
  uint32_t use_ppm;         // part that it has, lately
  uint32_t is_open;
  uint32_t is_governed;
} jvgpu_steered_t;

// How a claim's guarantee on one device was kept.
typedef struct jvgpu_guaranteed_s {
  uint64_t violations;      // seconds in which it would have used that much and had less
  uint32_t in_a_row;        // of those, up to the last second
  uint32_t least_ppm;       // 0 = nothing is guaranteed
  uint32_t is_raised;       // its priority is a class higher
} jvgpu_guaranteed_t;

// One thing that the governor saw or did.
typedef struct jvgpu_trace_s {
  uint64_t time_ns;         // CLOCK_MONOTONIC
  uint64_t value_ns;        // used: GPU time charged since the last record of the kind; under way: what is
  uint32_t runner;          // number given at jvgpu_steering_add
  uint32_t kind;            // 0 gate closed, 1 gate opened, 2 window begun, 3 window over, 4 used, 5 under way
} jvgpu_trace_t;

// Returns NULL when memory is short.
jvgpu_steering_t *jvgpu_steering_make(void);
// Govern, in the caller's thread, until jvgpu_steering_stop is called by another.
void jvgpu_steering_run(jvgpu_steering_t *steering);
void jvgpu_steering_stop(jvgpu_steering_t *steering);
// A descriptor that becomes readable when somebody begins to do something on a device where nobody did; reading its
// eight bytes makes it wait for the next time. It stays the steering's.
int jvgpu_steering_begun_fd(const jvgpu_steering_t *steering);
// Open every gate and forget. After jvgpu_steering_run has returned.
void jvgpu_steering_free(jvgpu_steering_t *steering);
// Steer the claim's device at `index`; `device` numbers the node's devices, `priority` is 0 low, 1 normal, 2 high.
// Returns the runner's number > 0, or 0.
uint32_t jvgpu_steering_add(jvgpu_steering_t *steering, jvgpu_tenant_t *tenant, uint32_t index, uint32_t device,
                            uint32_t priority);
// Steer none of the claim's devices any more and open its gates. Before the tenant is destroyed.
void jvgpu_steering_drop(jvgpu_steering_t *steering, jvgpu_tenant_t *tenant);
// Returns 0, or -1 when that device of the claim is not steered.
int jvgpu_steering_read(jvgpu_steering_t *steering, const jvgpu_tenant_t *tenant, uint32_t index,
                        jvgpu_steered_t *steered);
// Guarantee that device of the claim `least_ppm` of its time in each second in which it wants that much; 0 = nothing.
// Returns 0, or -1 when it is not steered, or for more than the whole.
int jvgpu_steering_guarantee(jvgpu_steering_t *steering, const jvgpu_tenant_t *tenant, uint32_t index,
                             uint32_t least_ppm);
// Returns 0, or -1 when that device of the claim is not steered.
int jvgpu_steering_guaranteed(jvgpu_steering_t *steering, const jvgpu_tenant_t *tenant, uint32_t index,
                              jvgpu_guaranteed_t *guaranteed);
// Keep (1) or do not keep (0) records of what happens.
void jvgpu_steering_record(jvgpu_steering_t *steering, uint32_t keep);
// Take out the oldest records, at most `room`. Returns how many. *lost: records that were written over before.
uint32_t jvgpu_steering_take(jvgpu_steering_t *steering, jvgpu_trace_t *records, uint32_t room, uint64_t *lost);
