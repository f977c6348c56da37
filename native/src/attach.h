// Attach: how a process gets from a socket's path and a secret to its slot in its claim's pages.

#ifndef JVGPU_ATTACH_H
#define JVGPU_ATTACH_H

#include <stdbool.h>

#include "process.h"

// Ask the agent for a slot, on this process's first call. Later calls are a load and a branch.
// returns: this process's state with a slot, or NULL; then the reason has been written on stderr, once.
// Never waits longer than eight seconds for an agent that went away without a word, and five for its answer.
jvgpu_process_t *jvgpu_attach(void);

// If the agent's heartbeat has stopped, look for a new agent and move what is held to its pages. The
// limits last known go on holding meanwhile. Two seconds at most, and then not again for one.
void jvgpu_attach_renew(jvgpu_process_t *self);

#endif
