#define _GNU_SOURCE
#include "whose.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t word_of(const jvgpu_slot_t *slot, int word)
{
  return __atomic_load_n(&slot->reserved[word], __ATOMIC_RELAXED);
}

static unsigned int host_pid_of(const jvgpu_slot_t *slot)
{
  return __atomic_load_n(&slot->pid, __ATOMIC_RELAXED);
}

static unsigned int local_pid_of(const jvgpu_slot_t *slot)
{
  return (unsigned int)word_of(slot, JVGPU_SLOT_LOCAL_PID);
}

// The system calls, since a C library may remember the id of before a fork, and ours is older than statx.
void jvgpu_whose_sign(jvgpu_slot_t *slot)
{
  struct statx info = {.stx_ino = 0};
  const bool   is_known = syscall(SYS_statx, AT_FDCWD, "/proc/self/ns/pid", 0, STATX_INO, &info) == 0;
  __atomic_store_n(&slot->reserved[JVGPU_SLOT_LOCAL_PID], (uint64_t)syscall(SYS_getpid), __ATOMIC_RELAXED);
  __atomic_store_n(&slot->reserved[JVGPU_SLOT_NAMESPACE], is_known ? info.stx_ino : 0, __ATOMIC_RELAXED);
}

// returns: the slot of the process with this id, NULL where none of the tenant's has it.
static const jvgpu_slot_t *find(const jvgpu_process_t *self, unsigned int pid, bool is_local)
{
  const uint32_t count = __atomic_load_n(&self->control->slot_count, __ATOMIC_ACQUIRE);
  const uint64_t here = word_of(self->slot, JVGPU_SLOT_NAMESPACE);
  for (uint32_t i = 0; pid != 0 && i < count && i < JVGPU_MAX_SLOTS; i++) {
    const jvgpu_slot_t *slot = &self->usage->slots[i];
    const bool          is_here = here != 0 && word_of(slot, JVGPU_SLOT_NAMESPACE) == here;
    if (host_pid_of(slot) != 0 && (is_local ? is_here && local_pid_of(slot) == pid : host_pid_of(slot) == pid)) {
      return slot;
    }
  }
  return NULL;
}

static unsigned int pid_in(const void *rows, unsigned int index, size_t row_bytes, size_t pid_at)
{
  unsigned int pid;
  memcpy(&pid, (const char *)rows + index * row_bytes + pid_at, sizeof pid);
  return pid;
}

// returns: whether NVML speaks the caller's ids and not the host's. Where both are the same it does not
// matter; otherwise a row with a host id of the tenant's gives the host away.
static bool speaks_local(const jvgpu_process_t *self, const void *rows, unsigned int count, size_t row_bytes,
                         size_t pid_at)
{
  if (host_pid_of(self->slot) == local_pid_of(self->slot) || word_of(self->slot, JVGPU_SLOT_NAMESPACE) == 0) {
    return false;
  }
  for (unsigned int i = 0; i < count; i++) {
    if (find(self, pid_in(rows, i, row_bytes, pid_at), false) != NULL) {
      return false;
    }
  }
  return true;
}

// What the caller calls the process: another namespace's is left as NVML has it.
static unsigned int name_here(const jvgpu_process_t *self, const jvgpu_slot_t *slot, unsigned int pid)
{
  const uint64_t here = word_of(self->slot, JVGPU_SLOT_NAMESPACE);
  return here != 0 && word_of(slot, JVGPU_SLOT_NAMESPACE) == here ? local_pid_of(slot) : pid;
}

unsigned int jvgpu_whose_keep(const jvgpu_process_t *self, void *rows, unsigned int count, size_t row_bytes,
                              size_t pid_at)
{
  const bool   is_local = speaks_local(self, rows, count, row_bytes, pid_at);
  unsigned int own = 0;
  for (unsigned int i = 0; i < count; i++) {
    const unsigned int  pid = pid_in(rows, i, row_bytes, pid_at);
    const jvgpu_slot_t *slot = find(self, pid, is_local);
    if (slot == NULL) {
      continue;
    }
    char              *kept = (char *)rows + own * row_bytes;
    const unsigned int name = name_here(self, slot, pid);
    memmove(kept, (const char *)rows + i * row_bytes, row_bytes);
    memcpy(kept + pid_at, &name, sizeof name);
    own += 1;
  }
  return own;
}

bool jvgpu_whose_is_own(const jvgpu_process_t *self, unsigned int pid)
{
  return find(self, pid, word_of(self->slot, JVGPU_SLOT_NAMESPACE) != 0) != NULL;
}
