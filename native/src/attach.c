#define _GNU_SOURCE
#include "attach.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cancel.h"
#include "clock.h"
#include "exchange.h"
#include "jvgpu/pages.h"
#include "say.h"
#include "whose.h"

#define STALE_NS UINT64_C(2000000000)
#define RETRY_NS UINT64_C(1000000000)
#define FORGET_NS UINT64_C(60000000000)

// How long to wait for an agent that is there, and for one that was: after a crash it is back soon.
#define FIRST_WAIT_SECONDS 5
#define RENEWAL_WAIT_SECONDS 2
#define COMING_BACK_NS UINT64_C(8000000000)

static const char how_to_get_one[] =
    " Pick a GPU profile when starting your server, or run 'jupyter vgpu run -- COMMAND'.";

// Say why there is no GPU, once.
static void tell_once(jvgpu_process_t *self, const char *text, const char *detail)
{
  if (__atomic_exchange_n(&self->told, 1, __ATOMIC_RELAXED) == 0) {
    jvgpu_say(text, detail);
  }
}

// returns: the secret in the environment, NULL where it is none.
static const char *secret_in_environment(void)
{
  const char *secret = getenv("JUPYTER_VGPU_SECRET");
  return secret != NULL && strlen(secret) == 2 * (size_t)JVGPU_SECRET_BYTES ? secret : NULL;
}

// Programs change their environment, or clear it, while an agent is asked and before the next is.
// returns: false where no socket can have that path.
static bool remember(jvgpu_process_t *self, const char *path, const char *secret)
{
  const size_t bytes = strlen(path) + 1;
  if (bytes > sizeof self->socket_path) {
    return false;
  }
  memcpy(self->socket_path, path, bytes);
  memcpy(self->secret, secret, sizeof self->secret);
  return true;
}

// Reach the agent that the environment names, for a process's first slot.
static bool ask(jvgpu_process_t *self, jvgpu_grant_t *grant, uint64_t patience_ns)
{
  const char *path = getenv("JUPYTER_VGPU_SOCKET");
  const char *secret = secret_in_environment();

  if (path == NULL || secret == NULL) {
    tell_once(self,
              "no GPU for this process: it holds no slice (JUPYTER_VGPU_SOCKET and JUPYTER_VGPU_SECRET are not set).",
              how_to_get_one);
    return false;
  }
  const bool can_be = remember(self, path, secret);
  const int  fd = can_be ? jvgpu_connect(self->socket_path, FIRST_WAIT_SECONDS, patience_ns) : -1;
  if (fd < 0 && can_be && (errno == EMFILE || errno == ENFILE)) {
    tell_once(self, "no GPU for this process: ", JVGPU_NO_DESCRIPTORS);
    return false;
  }
  if (fd < 0) {
    tell_once(self, "no GPU for this process: the node agent is not running at ", can_be ? self->socket_path : path);
    return false;
  }
  char        refusal[JVGPU_MESSAGE_BYTES];
  const char *wrong = NULL;
  if (!jvgpu_is_believed(fd)) {
    wrong = "";
    tell_once(self, "no GPU for this process: this machine's node agent is root's, and another answers at ",
              self->socket_path);
  } else {
    wrong = jvgpu_exchange(fd, self->secret, false, grant, refusal);
    if (wrong != NULL) {
      tell_once(self, "no GPU for this process: ", *wrong != '\0' ? wrong : refusal);
    }
  }
  close(fd);
  return wrong == NULL;
}

// returns: what to give to `unlock_attach`.
static int lock_attach(jvgpu_process_t *self)
{
  const int cancel_state = jvgpu_cancel_later();
  jvgpu_lock(&self->attach_lock);
  return cancel_state;
}

static void unlock_attach(jvgpu_process_t *self, int cancel_state)
{
  jvgpu_unlock(&self->attach_lock);
  jvgpu_cancel_again(cancel_state);
}

// --- the first time -----------------------------------------------------------------------------------------------

static void move_in(jvgpu_process_t *self, const jvgpu_grant_t *grant)
{
  jvgpu_whose_sign(&grant->usage->slots[grant->slot]);
  __atomic_store_n(&self->devices_known, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&self->usage, grant->usage, __ATOMIC_RELAXED);
  __atomic_store_n(&self->control, grant->control, __ATOMIC_RELAXED);
  // Release: whoever takes the slot sees the pages it lies in. Sequential: who has reserved in the old
  // slot either sees that it is left, or is seen by the carrying that follows.
  __atomic_store_n(&self->slot, &grant->usage->slots[grant->slot], __ATOMIC_SEQ_CST);
}

jvgpu_process_t *jvgpu_attach(void)
{
  jvgpu_process_t *self = jvgpu_process();
  if (self == NULL || __atomic_load_n(&self->state, __ATOMIC_ACQUIRE) == JVGPU_ATTACHED) {
    return self;
  }
  // Several threads may start CUDA at once; one asks, the others wait for its answer.
  const int      cancel_state = lock_attach(self);
  const uint32_t state = __atomic_load_n(&self->state, __ATOMIC_ACQUIRE);
  // A refusal is final for a second, so that a program that tries in a loop does not hammer the agent.
  if (state == JVGPU_FRESH || (state == JVGPU_REFUSED && jvgpu_now_ns() - self->tried_ns > RETRY_NS)) {
    const int     error = errno;
    jvgpu_grant_t grant;
    const bool    granted = ask(self, &grant, state == JVGPU_FRESH ? COMING_BACK_NS : 0);
    self->tried_ns = jvgpu_now_ns();
    if (granted) {
      move_in(self, &grant);
    }
    // Release: whoever sees ATTACHED sees the pages.
    __atomic_store_n(&self->state, granted ? JVGPU_ATTACHED : JVGPU_REFUSED, __ATOMIC_RELEASE);
    errno = error;
  }
  unlock_attach(self, cancel_state);
  return __atomic_load_n(&self->state, __ATOMIC_ACQUIRE) == JVGPU_ATTACHED ? self : NULL;
}

// --- an agent that has gone, and the next -------------------------------------------------------------------------

static bool is_stale(const jvgpu_process_t *self)
{
  const jvgpu_control_t *control = __atomic_load_n(&self->control, __ATOMIC_RELAXED);
  return !jvgpu_is_recent(&control->heartbeat_ns, STALE_NS);
}

// An agent that was only slow gives the slot that we have, as it is.
static bool is_same_place(const jvgpu_process_t *self, const jvgpu_grant_t *grant)
{
  const uint64_t mark = jvgpu_now_ns() | 1u;
  uint64_t      *ours = &self->slot->reserved[JVGPU_SLOT_MARK];
  uint64_t      *theirs = &grant->usage->slots[grant->slot].reserved[JVGPU_SLOT_MARK];

  __atomic_store_n(ours, mark, __ATOMIC_SEQ_CST);
  const bool is_same = __atomic_load_n(theirs, __ATOMIC_SEQ_CST) == mark;
  __atomic_store_n(ours, 0, __ATOMIC_SEQ_CST);
  return is_same;
}

static jvgpu_left_t *place_to_leave(jvgpu_process_t *self)
{
  jvgpu_left_t *oldest = &self->left[0];
  for (uint32_t i = 0; i < JVGPU_MOST_LEFT; i++) {
    if (self->left[i].control == NULL) {
      return &self->left[i];
    }
    oldest = self->left[i].left_ns < oldest->left_ns ? &self->left[i] : oldest;
  }
  return oldest;
}

static void carry_all(jvgpu_process_t *self, uint64_t now_ns)
{
  uint32_t still_left = 0;
  for (uint32_t i = 0; i < JVGPU_MOST_LEFT; i++) {
    jvgpu_left_t *left = &self->left[i];
    if (left->control == NULL) {
      continue;
    }
    jvgpu_carry(left, self->control, self->slot);
    if (now_ns - left->left_ns > FORGET_NS) {
      left->control = NULL;
    } else {
      still_left += 1;
    }
  }
  __atomic_store_n(&self->has_left, still_left, __ATOMIC_RELAXED);
}

// The old pages stay mapped: other threads may be adding to them in this instant.
static void move_over(jvgpu_process_t *self, const jvgpu_grant_t *grant, uint64_t now_ns)
{
  // What was left earlier is first brought to where we leave from.
  carry_all(self, now_ns);
  jvgpu_left_t *left = place_to_leave(self);
  memset(left, 0, sizeof *left);
  left->slot = self->slot;
  left->left_ns = now_ns;
  left->control = self->control;
  // Before anyone uses the new slot, what this process holds stands in it.
  jvgpu_carry(left, grant->control, &grant->usage->slots[grant->slot]);
  move_in(self, grant);
  carry_all(self, now_ns);
}

// returns: when to try again at the soonest. While no agent is there that is at once: the question costs
// some microseconds, and the first allocation beside the next agent has to be in its pages.
static uint64_t renew(jvgpu_process_t *self, uint64_t now_ns)
{
  jvgpu_grant_t grant;
  char          refusal[JVGPU_MESSAGE_BYTES];

  const int fd = jvgpu_connect(self->socket_path, RENEWAL_WAIT_SECONDS, 0);
  if (fd < 0) {
    return now_ns;
  }
  if (jvgpu_is_believed(fd) && jvgpu_exchange(fd, self->secret, true, &grant, refusal) == NULL) {
    if (is_same_place(self, &grant)) {
      jvgpu_grant_unmap(&grant);
    } else {
      move_over(self, &grant, now_ns);
    }
    jvgpu_say_moved(fd);
  }
  close(fd);
  return jvgpu_now_ns() + RETRY_NS;
}

void jvgpu_attach_renew(jvgpu_process_t *self)
{
  if (!is_stale(self) && __atomic_load_n(&self->has_left, __ATOMIC_RELAXED) == 0) {
    return;
  }
  // Whoever comes while another asks waits for its answer: the old pages may not be the last word.
  const int cancel_state = lock_attach(self);
  // Under the lock: no page was left later than that.
  const uint64_t now_ns = jvgpu_now_ns();
  if (is_stale(self) && now_ns >= self->retry_ns) {
    const int error = errno;
    self->retry_ns = renew(self, now_ns);
    errno = error;
  }
  if (self->has_left != 0) {
    carry_all(self, now_ns);
  }
  unlock_attach(self, cancel_state);
}
