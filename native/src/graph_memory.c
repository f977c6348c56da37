#define _GNU_SOURCE
#include "graph_memory.h"

#include <stddef.h>
#include <sys/mman.h>

#include "account.h"
#include "charge.h"
#include "devices.h"
#include "real.h"

// Graphs in graphs, at most so deep: deeper ones are charged when they have been launched.
#define MOST_DEPTH 8

void jvgpu_graph_memory_seen(jvgpu_process_t *self)
{
  if (self != NULL) {
    __atomic_store_n(&self->has_graph_memory, 1, __ATOMIC_RELAXED);
  }
}

// --- what a graph needs -------------------------------------------------------------------------------------------

static void add_up(jvgpu_process_t *self, CUgraph graph, uint64_t needs[JVGPU_MAX_DEVICES], int depth);

static void add_node(jvgpu_process_t *self, CUgraphNode node, uint64_t needs[JVGPU_MAX_DEVICES], int depth)
{
  CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
  CUgraph                    child = NULL;
  int                        type = 0;
  if (jvgpu_real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
    return;
  }
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && jvgpu_real.cuGraphMemAllocNodeGetParams(node, &params) == CUDA_SUCCESS) {
    const int device = jvgpu_device_of(self, params.poolProps.location.id);
    if (params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE && device != JVGPU_NO_DEVICE) {
      // Whole blocks: the driver maps them.
      needs[device] += jvgpu_charge_in_blocks(params.bytesize);
    }
  } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < MOST_DEPTH &&
             jvgpu_real.cuGraphChildGraphNodeGetGraph != NULL &&
             jvgpu_real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
    add_up(self, child, needs, depth + 1);
  }
}

static void add_up(jvgpu_process_t *self, CUgraph graph, uint64_t needs[JVGPU_MAX_DEVICES], int depth)
{
  size_t count = 0;
  if (jvgpu_real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0) {
    return;
  }
  const size_t bytes = count * sizeof(CUgraphNode);
  CUgraphNode *nodes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (nodes == MAP_FAILED) {
    return;
  }
  if (jvgpu_real.cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS) {
    for (size_t i = 0; i < count && i < bytes / sizeof(CUgraphNode); i++) {
      add_node(self, nodes[i], needs, depth);
    }
  }
  munmap(nodes, bytes);
}

// Executable graphs are objects of many bytes: no two keys meet.
static uint64_t key_of(CUgraphExec exec, uint32_t device)
{
  return (uint64_t)(uintptr_t)exec + device;
}

void jvgpu_graph_memory_instantiated(jvgpu_process_t *self, CUgraphExec exec, CUgraph graph)
{
  uint64_t needs[JVGPU_MAX_DEVICES] = {0};
  if (jvgpu_real.cuGraphGetNodes == NULL || jvgpu_real.cuGraphNodeGetType == NULL ||
      jvgpu_real.cuGraphMemAllocNodeGetParams == NULL) {
    return;
  }
  add_up(self, graph, needs, 0);
  jvgpu_lock(&self->graph_memory.lock);
  for (uint32_t device = 0; device < JVGPU_MAX_DEVICES; device++) {
    const jvgpu_record_t record = {.key = key_of(exec, device), .bytes = needs[device], .device = device};
    if (needs[device] != 0) {
      (void)jvgpu_table_put(&self->graph_memory.needs, &record);
    }
  }
  jvgpu_unlock(&self->graph_memory.lock);
}

void jvgpu_graph_memory_destroyed(jvgpu_process_t *self, CUgraphExec exec)
{
  jvgpu_lock(&self->graph_memory.lock);
  for (uint32_t device = 0; device < JVGPU_MAX_DEVICES; device++) {
    jvgpu_record_t taken;
    (void)jvgpu_table_take(&self->graph_memory.needs, key_of(exec, device), &taken);
  }
  jvgpu_unlock(&self->graph_memory.lock);
}

// --- what the driver has reserved -----------------------------------------------------------------------------------

// Charge the answer to a question, unless a later question's has been charged: no lock is held while the driver
// answers. Who has launched asks afterwards, so that answer and each later one has the launch's memory in it.
// returns: bytes given back.
static uint64_t recharge(jvgpu_process_t *self, uint32_t device, uint64_t question, uint64_t now_bytes)
{
  jvgpu_slot_t *slot = __atomic_load_n(&self->slot, __ATOMIC_ACQUIRE);
  uint64_t      given_back = 0;
  jvgpu_lock(&self->graph_memory.lock);
  const uint64_t before = self->graph_memory.charged_bytes[device];
  if (question > self->graph_memory.answered[device]) {
    self->graph_memory.answered[device] = question;
    self->graph_memory.charged_bytes[device] = now_bytes;
    given_back = now_bytes < before ? before - now_bytes : 0;
    jvgpu_account_count(slot, device, (now_bytes != 0) - (before != 0));
    jvgpu_account_commit(slot, device, 0, now_bytes > before ? now_bytes - before : 0);
    jvgpu_account_free(slot, device, given_back);
  }
  jvgpu_unlock(&self->graph_memory.lock);
  return given_back;
}

// The CUDA device that is `device` of the claim, -1 = none.
static CUdevice ordinal_of(jvgpu_process_t *self, uint32_t device)
{
  for (CUdevice dev = 0; dev < JVGPU_MOST_ORDINALS; dev++) {
    if (jvgpu_device_of(self, dev) == (int)device) {
      return dev;
    }
  }
  return -1;
}

static uint64_t look_at(jvgpu_process_t *self, uint32_t device)
{
  uint64_t       now_bytes = 0;
  const CUdevice dev = ordinal_of(self, device);
  jvgpu_lock(&self->graph_memory.lock);
  const uint64_t question = ++self->graph_memory.asked[device];
  jvgpu_unlock(&self->graph_memory.lock);
  if (dev < 0 || jvgpu_real.cuDeviceGetGraphMemAttribute == NULL ||
      jvgpu_real.cuDeviceGetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &now_bytes) !=
          CUDA_SUCCESS) {
    return 0;
  }
  return recharge(self, device, question, now_bytes);
}

uint64_t jvgpu_graph_memory_look(jvgpu_process_t *self)
{
  uint64_t given_back = 0;
  for (uint32_t device = 0; jvgpu_graph_memory_is_used(self) && device < self->control->device_count; device++) {
    given_back += look_at(self, device);
  }
  return given_back;
}

void jvgpu_graph_memory_trimmed(jvgpu_process_t *self)
{
  // What graphs that are launched again need has to be taken again.
  __atomic_fetch_add(&self->graph_memory.trims, 1, __ATOMIC_RELAXED);
  (void)jvgpu_graph_memory_look(self);
}

uint64_t jvgpu_graph_memory_trim(jvgpu_process_t *self, uint32_t device)
{
  const CUdevice dev = jvgpu_graph_memory_is_used(self) ? ordinal_of(self, device) : -1;
  if (dev < 0 || jvgpu_real.cuDeviceGraphMemTrim == NULL || jvgpu_real.cuDeviceGraphMemTrim(dev) != CUDA_SUCCESS) {
    return 0;
  }
  __atomic_fetch_add(&self->graph_memory.trims, 1, __ATOMIC_RELAXED);
  return look_at(self, device);
}

// --- one launch -------------------------------------------------------------------------------------------------------

// Room that is set aside, by device of the claim.
typedef struct room_s {
  uint64_t      bytes[JVGPU_MAX_DEVICES];
  jvgpu_slot_t *slots[JVGPU_MAX_DEVICES];  // where it is: the process may have moved since
} room_t;

// Bytes that `exec` has to take on `device`: none where it was launched since the last trim.
static uint64_t missing_bytes(jvgpu_process_t *self, CUgraphExec exec, uint32_t device)
{
  const uint64_t now = __atomic_load_n(&self->graph_memory.trims, __ATOMIC_RELAXED) + UINT64_C(1);
  jvgpu_lock(&self->graph_memory.lock);
  const jvgpu_record_t *need = jvgpu_table_find(&self->graph_memory.needs, key_of(exec, device));
  const uint64_t        bytes = need == NULL || need->owner == now ? 0 : need->bytes;
  jvgpu_unlock(&self->graph_memory.lock);
  return bytes;
}

static void give_up(const room_t *room, uint32_t devices)
{
  for (uint32_t device = 0; device < devices; device++) {
    if (room->bytes[device] != 0) {
      jvgpu_account_cancel(room->slots[device], device, room->bytes[device]);
    }
  }
}

// returns: false when the tenant has no room; nothing is set aside then.
static bool begin(jvgpu_process_t *self, CUgraphExec exec, room_t *room)
{
  *room = (room_t){.bytes = {0}};
  for (uint32_t device = 0; device < self->control->device_count; device++) {
    const uint64_t bytes = missing_bytes(self, exec, device);
    if (bytes == 0) {
      continue;
    }
    // A refusal trims unused memory of pools and graphs first, and tries again.
    const jvgpu_charge_t charge = jvgpu_charge_begin_on(self, (int)device, bytes);
    if (charge.refused) {
      give_up(room, device);
      return false;
    }
    room->bytes[device] = bytes;
    room->slots[device] = charge.slot;
  }
  return true;
}

// Charge what the driver has reserved now; after a success `exec` has what it needs.
static CUresult settle(jvgpu_process_t *self, CUgraphExec exec, const room_t *room, CUresult result)
{
  const uint64_t now = __atomic_load_n(&self->graph_memory.trims, __ATOMIC_RELAXED) + UINT64_C(1);
  for (uint32_t device = 0; device < self->control->device_count; device++) {
    jvgpu_lock(&self->graph_memory.lock);
    jvgpu_record_t *need = jvgpu_table_find(&self->graph_memory.needs, key_of(exec, device));
    const bool      is_needed = need != NULL;
    if (is_needed && result == CUDA_SUCCESS) {
      need->owner = now;
    }
    jvgpu_unlock(&self->graph_memory.lock);
    if (is_needed) {
      (void)look_at(self, device);
    }
  }
  give_up(room, self->control->device_count);
  return result;
}

CUresult jvgpu_graph_memory_launch(CUresult (*real)(CUgraphExec, CUstream), CUgraphExec exec, CUstream stream,
                                   CUresult (*is_capturing)(CUstream, int *))
{
  jvgpu_process_t *self = jvgpu_tenant();
  room_t           room;
  if (!jvgpu_graph_memory_is_used(self) || jvgpu_is_captured(self, stream, is_capturing)) {
    return real(exec, stream);
  }
  if (!begin(self, exec, &room)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return settle(self, exec, &room, real(exec, stream));
}
