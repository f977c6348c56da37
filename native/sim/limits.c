// Memory limits of control groups, as driver R615 has them: set by root through NVML, kept by the driver.
//
// source: NVML API Reference 13.5, nvmlDeviceSetMemoryLimits_v1

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared.h"

#define MOUNT "/sys/fs/cgroup"

static bool is_below(const char *path, const char *group)
{
  const size_t length = strlen(group);
  return strncmp(path, group, length) == 0 && (path[length] == 0 || path[length] == '/' || length == 0);
}

// source: cgroups(7), /proc/pid/cgroup: "0::PATH" of the unified hierarchy, "N:CONTROLLERS:PATH" of the others
bool sim_limit_holds_for(const sim_memory_limit_t *limit, pid_t pid)
{
  char path[64];
  char text[4096];
  snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  const ssize_t count = read(fd, text, sizeof text - 1);
  close(fd);
  text[count < 0 ? 0 : count] = 0;
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    char *controllers = strchr(line, ':');
    char *place = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (place == NULL) {
      continue;
    }
    char whole[4200];
    *place++ = 0;
    place = strcmp(place, "/") == 0 ? "" : place;
    snprintf(whole, sizeof whole, MOUNT "%s%s%s", controllers[1] == 0 ? "" : "/", controllers + 1, place);
    if (is_below(whole, limit->group)) {
      return true;
    }
  }
  return false;
}

uint64_t sim_limit_used(sim_shared_t *shared, uint32_t board, const sim_memory_limit_t *limit)
{
  uint64_t used = 0;
  for (uint32_t i = 0; i < SIM_MAX_SLOTS && i < atomic_load(&shared->slot_count); i++) {
    const pid_t pid = sim_shared_living_pid(&shared->slots[i]);
    if (pid != 0 && sim_limit_holds_for(limit, pid)) {
      used += atomic_load(&shared->slots[i].uses[board].held_bytes);
    }
  }
  return used;
}

uint64_t sim_limits_room(sim_shared_t *shared, uint32_t board, pid_t pid)
{
  uint64_t room = UINT64_MAX;
  for (uint32_t i = 0; i < SIM_MEMORY_LIMITS; i++) {
    const sim_memory_limit_t *limit = &shared->controls[board].limits[i];
    if (limit->group[0] != 0 && sim_limit_holds_for(limit, pid)) {
      const uint64_t used = sim_limit_used(shared, board, limit);
      const uint64_t left = used < limit->hard_bytes ? limit->hard_bytes - used : 0;
      room = left < room ? left : room;
    }
  }
  return room;
}

bool sim_limits_exceeded(sim_shared_t *shared, uint32_t board, pid_t pid)
{
  for (uint32_t i = 0; i < SIM_MEMORY_LIMITS; i++) {
    const sim_memory_limit_t *limit = &shared->controls[board].limits[i];
    if (limit->group[0] != 0 && sim_limit_holds_for(limit, pid) &&
        sim_limit_used(shared, board, limit) > limit->hard_bytes) {
      return true;
    }
  }
  return false;
}
