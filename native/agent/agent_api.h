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
// Read one slot on one device, as untrusted input. Returns 0, or -1 for a bad index.
int jvgpu_tenant_slot_read(const jvgpu_tenant_t *tenant, uint32_t slot, uint32_t index, jvgpu_reading_t *reading);

// Fill a reply that Python sends; `reply` has jvgpu_agent_reply_bytes() bytes.
void jvgpu_agent_fill_reply(void *reply, uint32_t status, uint32_t slot, uint32_t generation, const char *message);
// Check a request of `bytes` bytes; copies 64 hex digits + NUL to `secret_hex` (65 bytes).
// Returns a JVGPU_ATTACH_* status (0 = well formed; 1 = malformed; 2 = other layout).
uint32_t jvgpu_agent_parse_request(const void *request, uint32_t bytes, char *secret_hex);
