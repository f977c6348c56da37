// Exchange: one question to the agent, and the pages that come back.
//
// Knows nothing of this process's state. All waits are bounded.

#ifndef JVGPU_EXCHANGE_H
#define JVGPU_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "jvgpu/pages.h"

// What is wrong where a socket or a page could not have a descriptor.
#define JVGPU_NO_DESCRIPTORS "it has too many files open. Close some, or raise its limit ('ulimit -n')."

// Both pages of a claim, mapped, and a slot in them.
typedef struct jvgpu_grant_s {
  jvgpu_control_t *control;
  jvgpu_usage_t   *usage;
  uint32_t         slot;
} jvgpu_grant_t;

// Connect to the socket at `path`; every later wait on it ends after `wait_seconds`. An agent that ended
// without a word leaves its socket, and is started again: `patience_ns` is how long it is waited for.
// One that was stopped takes its socket away.
// returns: a descriptor, or -1 and errno.
int jvgpu_connect(const char *path, time_t wait_seconds, uint64_t patience_ns);

// A tenant could point us at an agent of its own with any limit it likes. Root's agent is always
// believed; our own user's only where the machine has no system agent, and so no limit to get round.
bool jvgpu_is_believed(int socket_fd);

// Ask for a slot. `is_renewal`: this process has one, and carries over what stands in it.
// pre: secret has 2 * JVGPU_SECRET_BYTES characters.
// returns: NULL with a grant; otherwise what is wrong, "" where `refusal` is the agent's own word.
const char *jvgpu_exchange(int socket_fd, const char *secret, bool is_renewal, jvgpu_grant_t *grant,
                           char refusal[JVGPU_MESSAGE_BYTES]);

// Tell the agent that what this process holds stands in its slot, and wait until it has taken that in:
// until then the agent counts the process by what NVML sees of it.
void jvgpu_say_moved(int socket_fd);

void jvgpu_grant_unmap(const jvgpu_grant_t *grant);

#endif
