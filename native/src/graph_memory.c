#define _GNU_SOURCE
#include "graph_memory.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "account.h"
#include "charge.h"
#include "devices.h"
#include "real.h"

void jvgpu_graph_memory_seen(jvgpu_process_t *self)
{
  if (self != NULL) {
    __atomic_store_n(&self->has_graph_memory, 1, __ATOMIC_RELAXED);
  }
}

// --- what a graph needs -------------------------------------------------------------------------------------------
//
// Graphs lie in graphs, as deep as the program likes: they are walked without recursion, which a thread's small stack
// might not bear.

#define FIRST_GRAPHS 256u

typedef struct graphs_s {
  CUgraph *to_walk;  // from mmap, NULL = none yet
  size_t   count;
  size_t   capacity;
} graphs_t;

static void *pages(size_t bytes)
{
  void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return place == MAP_FAILED ? NULL : place;
}

// returns: false when memory is short.
static bool push(graphs_t *graphs, CUgraph graph)
{
  if (graphs->count == graphs->capacity) {
    const size_t capacity = graphs->capacity == 0 ? FIRST_GRAPHS : 2 * graphs->capacity;
    CUgraph     *larger = pages(capacity * sizeof *larger);
    if (larger == NULL) {
      return false;
    }
    if (graphs->to_walk != NULL) {
      memcpy(larger, graphs->to_walk, graphs->count * sizeof *larger);
      munmap(graphs->to_walk, graphs->capacity * sizeof *larger);
    }
    graphs->to_walk = larger;
    graphs->capacity = capacity;
  }
  graphs->to_walk[graphs->count++] = graph;
  return true;
}

// What is not found for want of memory, or because the driver does not say, is charged when the graph has been launched.
static void add_node(jvgpu_process_t *self, CUgraphNode node, uint64_t needs[JVGPU_MAX_DEVICES], graphs_t *graphs)
{
  CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
  CUgraph                    child = NULL;
  int                        type = 0;
  if (jvgpu_real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
    return;
  }
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && jvgpu_real.cuGraphMemAllocNodeGetParams(node, &params) == CUDA_SUCCESS) {
    const int device = jvgpu_device_at(self, params.poolProps.allocType, &params.poolProps.location);
    if (device != JVGPU_ON_HOST && device != JVGPU_NO_DEVICE) {
      // Whole blocks: the driver maps them.
      needs[device] += jvgpu_charge_in_blocks(params.bytesize);
    }
  } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && jvgpu_real.cuGraphChildGraphNodeGetGraph != NULL &&
             jvgpu_real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
    (void)push(graphs, child);
  }
}

static void add_nodes(jvgpu_process_t *self, CUgraph graph, uint64_t needs[JVGPU_MAX_DEVICES], graphs_t *graphs)
{
  size_t count = 0;
  if (jvgpu_real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0) {
    return;
  }
  const size_t bytes = count * sizeof(CUgraphNode);
  CUgraphNode *nodes = pages(bytes);
  if (nodes == NULL) {
    return;
  }
  if (jvgpu_real.cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS) {
    for (size_t i = 0; i < count && i < bytes / sizeof(CUgraphNode); i++) {
      add_node(self, nodes[i], needs, graphs);
    }
  }
  munmap(nodes, bytes);
}

static void add_up(jvgpu_process_t *self, CUgraph graph, uint64_t needs[JVGPU_MAX_DEVICES])
{
  graphs_t graphs = {.to_walk = NULL};
  if (jvgpu_real.cuGraphGetNodes == NULL || jvgpu_real.cuGraphNodeGetType == NULL ||
      jvgpu_real.cuGraphMemAllocNodeGetParams == NULL || !push(&graphs, graph)) {
    return;
  }
  while (graphs.count != 0) {
    add_nodes(self, graphs.to_walk[--graphs.count], needs, &graphs);
  }
  munmap(graphs.to_walk, graphs.capacity * sizeof *graphs.to_walk);
}

// Executable graphs are objects of many bytes: no two keys meet.
static uint64_t key_of(CUgraphExec exec, uint32_t device)
{
  return (uint64_t)(uintptr_t)exec + device;
}

// `launched` is the number of trims so far, plus one, where the driver has taken what the graph needs; 0 = not yet.
static void note(jvgpu_process_t *self, CUgraphExec exec, const uint64_t needs[JVGPU_MAX_DEVICES], uint64_t launched)
{
  jvgpu_lock(&self->graph_memory.lock);
  for (uint32_t device = 0; device < JVGPU_MAX_DEVICES; device++) {
    const jvgpu_record_t record = {
        .key = key_of(exec, device), .bytes = needs[device], .owner = launched, .device = device};
    if (needs[device] != 0) {
      (void)jvgpu_table_put(&self->graph_memory.needs, &record);
    }
  }
  jvgpu_unlock(&self->graph_memory.lock);
}

void jvgpu_graph_memory_instantiated(jvgpu_process_t *self, CUgraphExec exec, CUgraph graph)
{
  uint64_t needs[JVGPU_MAX_DEVICES] = {0};
  add_up(self, graph, needs);
  note(self, exec, needs, 0);
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
static bool set_aside(jvgpu_process_t *self, const uint64_t needs[JVGPU_MAX_DEVICES], room_t *room)
{
  *room = (room_t){.bytes = {0}};
  for (uint32_t device = 0; device < self->control->device_count; device++) {
    if (needs[device] == 0) {
      continue;
    }
    // A refusal trims unused memory of pools and graphs first, and tries again.
    const jvgpu_charge_t charge = jvgpu_charge_begin_on(self, (int)device, needs[device]);
    if (charge.refused) {
      give_up(room, device);
      return false;
    }
    room->bytes[device] = needs[device];
    room->slots[device] = charge.slot;
  }
  return true;
}

static bool begin(jvgpu_process_t *self, CUgraphExec exec, room_t *room)
{
  uint64_t needs[JVGPU_MAX_DEVICES] = {0};
  for (uint32_t device = 0; device < self->control->device_count; device++) {
    needs[device] = missing_bytes(self, exec, device);
  }
  return set_aside(self, needs, room);
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

CUresult jvgpu_graph_memory_instantiate(CUresult (*real)(CUgraphExec *, CUgraph, void *), CUgraphExec *exec,
                                        CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
  jvgpu_process_t *self = jvgpu_tenant();
  uint64_t         needs[JVGPU_MAX_DEVICES] = {0};
  room_t           room = {.bytes = {0}};
  if (!jvgpu_graph_memory_is_used(self)) {
    return real(exec, graph, params);
  }
  const bool uploads = params != NULL && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  add_up(self, graph, needs);
  if (uploads && !set_aside(self, needs, &room)) {
    params->hErrNode_out = NULL;
    params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = real(exec, graph, params);
  if (result == CUDA_SUCCESS) {
    const uint64_t now = __atomic_load_n(&self->graph_memory.trims, __ATOMIC_RELAXED) + UINT64_C(1);
    note(self, *exec, needs, uploads ? now : 0);
  }
  for (uint32_t device = 0; uploads && device < self->control->device_count; device++) {
    if (needs[device] != 0) {
      (void)look_at(self, device);
    }
  }
  give_up(&room, self->control->device_count);
  return result;
}
