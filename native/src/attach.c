#define _GNU_SOURCE
#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "jvgpu/pages.h"
#include "say.h"

#define SYSTEM_SOCKET "/run/jupyter-vgpu/attach.sock"
#define WAIT_SECONDS 5
#define STALE_NS UINT64_C(2000000000)
#define RETRY_NS UINT64_C(1000000000)

static const char how_to_get_one[] =
    " Pick a GPU profile when starting your server, or run 'jupyter vgpu run -- COMMAND'.";

typedef struct grant_s {
  jvgpu_control_t *control;
  jvgpu_usage_t   *usage;
  uint32_t         slot;
} grant_t;

static void tell_once(jvgpu_process_t *self, const char *text, const char *detail)
{
  if (__atomic_exchange_n(&self->told, 1, __ATOMIC_RELAXED) == 0) {
    jvgpu_say(text, detail);
  }
}

// --- who answers ------------------------------------------------------------------------------------------

// returns: whether this machine has an agent of root's. By the system call, since glibc's lstat and
// statx are younger than our floor.
static bool has_system_agent(void)
{
  struct statx info;
  return syscall(SYS_statx, AT_FDCWD, SYSTEM_SOCKET, AT_SYMLINK_NOFOLLOW, STATX_UID, &info) == 0 && info.stx_uid == 0;
}

// A tenant could point us at an agent of its own with any limit it likes. Root's agent is always
// believed; our own user's only where the machine has no system agent, and so no limit to get round.
static bool is_believed(int socket_fd)
{
  struct ucred peer;
  socklen_t    bytes = sizeof peer;

  if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return false;
  }
  if (peer.uid == 0) {
    return true;
  }
  return peer.uid == geteuid() && !has_system_agent();
}

static int connect_to(const char *path)
{
  struct sockaddr_un   address = {.sun_family = AF_UNIX};
  const struct timeval wait = {.tv_sec = WAIT_SECONDS};
  const size_t         bytes = strlen(path);

  if (bytes >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(address.sun_path, path, bytes + 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return -1;
  }
  int result = -1;
  if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) == 0 &&
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0) {
    do {
      result = connect(fd, (const struct sockaddr *)&address, sizeof address);
    } while (result != 0 && errno == EINTR);
  }
  if (result != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

// --- the exchange --------------------------------------------------------------------------------------------

// returns: whether a whole reply came; fds are -1 where none came along.
static bool receive(int socket_fd, jvgpu_attach_reply_t *reply, int fds[2])
{
  union {
    struct cmsghdr header;
    char           room[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct iovec  body = {.iov_base = reply, .iov_len = sizeof *reply};
  struct msghdr message = {
      .msg_iov = &body, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ssize_t got;

  fds[0] = -1;
  fds[1] = -1;
  do {
    got = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return false;
  }
  for (struct cmsghdr *each = CMSG_FIRSTHDR(&message); each != NULL; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) {
      const size_t bytes = each->cmsg_len - CMSG_LEN(0);
      memcpy(fds, CMSG_DATA(each), bytes < 2 * sizeof(int) ? bytes : 2 * sizeof(int));
    }
  }
  return got == (ssize_t)sizeof *reply && reply->magic == JVGPU_MAGIC;
}

static void *map_page(int fd, size_t bytes, int protection)
{
  if (fd < 0 || lseek(fd, 0, SEEK_END) < (off_t)bytes) {
    return NULL;
  }
  void *page = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
  return page == MAP_FAILED ? NULL : page;
}

static bool accept_pages(const jvgpu_attach_reply_t *reply, const int fds[2], grant_t *grant)
{
  grant->control = map_page(fds[0], sizeof *grant->control, PROT_READ);
  grant->usage = map_page(fds[1], sizeof *grant->usage, PROT_READ | PROT_WRITE);
  grant->slot = reply->slot;
  if (grant->control != NULL && grant->usage != NULL && grant->control->magic == JVGPU_MAGIC &&
      grant->control->layout == JVGPU_LAYOUT && grant->control->device_count >= 1 &&
      grant->control->device_count <= JVGPU_MAX_DEVICES && grant->slot < JVGPU_MAX_SLOTS) {
    return true;
  }
  if (grant->control != NULL) {
    munmap(grant->control, sizeof *grant->control);
  }
  if (grant->usage != NULL) {
    munmap(grant->usage, sizeof *grant->usage);
  }
  return false;
}

static bool exchange(jvgpu_process_t *self, int socket_fd, const char *secret, grant_t *grant, bool quiet)
{
  jvgpu_attach_request_t request = {.magic = JVGPU_MAGIC, .layout = JVGPU_LAYOUT};
  jvgpu_attach_reply_t   reply;
  int                    fds[2];
  const char            *complaint = NULL;
  const char            *detail = how_to_get_one;

  memcpy(request.secret_hex, secret, sizeof request.secret_hex);
  memset(&reply, 0, sizeof reply);
  if (send(socket_fd, &request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request ||
      !receive(socket_fd, &reply, fds)) {
    if (!quiet) {
      tell_once(self, "no GPU for this process: the node agent did not answer. Ask your admin whether it runs.", NULL);
    }
    return false;
  }
  reply.message[sizeof reply.message - 1] = '\0';
  if (reply.status != JVGPU_ATTACH_OK) {
    complaint = "no GPU for this process: ";
    detail = reply.message;
  } else if (reply.layout != JVGPU_LAYOUT || !accept_pages(&reply, fds, grant)) {
    complaint = "no GPU for this process: the node agent and the library are of different versions.";
    detail = NULL;
  }
  for (int i = 0; i < 2; i++) {
    if (fds[i] >= 0) {
      close(fds[i]);
    }
  }
  if (complaint != NULL && !quiet) {
    tell_once(self, complaint, detail);
  }
  return complaint == NULL;
}

// Reach the agent that the environment names. `quiet`: a renewal, nobody is waiting for a GPU.
static bool ask(jvgpu_process_t *self, grant_t *grant, bool quiet)
{
  const char *path = getenv("JUPYTER_VGPU_SOCKET");
  const char *secret = getenv("JUPYTER_VGPU_SECRET");

  if (path == NULL || secret == NULL || strlen(secret) != 2 * JVGPU_SECRET_BYTES) {
    if (!quiet) {
      tell_once(self,
                "no GPU for this process: it holds no slice (JUPYTER_VGPU_SOCKET and JUPYTER_VGPU_SECRET are not set).",
                how_to_get_one);
    }
    return false;
  }
  const int fd = connect_to(path);
  if (fd < 0) {
    if (!quiet) {
      tell_once(self, "no GPU for this process: the node agent is not running at ", path);
    }
    return false;
  }
  bool granted = false;
  if (is_believed(fd)) {
    granted = exchange(self, fd, secret, grant, quiet);
  } else if (!quiet) {
    tell_once(self, "no GPU for this process: this machine's node agent is root's, and another answers at ", path);
  }
  close(fd);
  return granted;
}

// --- the outside ------------------------------------------------------------------------------------------------

static void move_in(jvgpu_process_t *self, const grant_t *grant)
{
  self->devices_known = 0;
  self->usage = grant->usage;
  __atomic_store_n(&self->control, grant->control, __ATOMIC_RELAXED);
  // Release: whoever takes the slot sees the pages it lies in.
  __atomic_store_n(&self->slot, &grant->usage->slots[grant->slot], __ATOMIC_RELEASE);
}

jvgpu_process_t *jvgpu_attach(void)
{
  jvgpu_process_t *self = jvgpu_process();
  if (self == NULL || __atomic_load_n(&self->state, __ATOMIC_ACQUIRE) == JVGPU_ATTACHED) {
    return self;
  }
  // Several threads may start CUDA at once; one asks, the others wait for its answer.
  jvgpu_lock(&self->attach_lock);
  const uint32_t state = __atomic_load_n(&self->state, __ATOMIC_ACQUIRE);
  // A refusal is final for a second, so that a program that tries in a loop does not hammer the agent.
  if (state == JVGPU_FRESH || (state == JVGPU_REFUSED && jvgpu_now_ns() - self->tried_ns > RETRY_NS)) {
    const int error = errno;
    grant_t   grant;
    self->tried_ns = jvgpu_now_ns();
    const bool granted = ask(self, &grant, false);
    if (granted) {
      move_in(self, &grant);
    }
    // Release: whoever sees ATTACHED sees the pages.
    __atomic_store_n(&self->state, granted ? JVGPU_ATTACHED : JVGPU_REFUSED, __ATOMIC_RELEASE);
    errno = error;
  }
  jvgpu_unlock(&self->attach_lock);
  return __atomic_load_n(&self->state, __ATOMIC_ACQUIRE) == JVGPU_ATTACHED ? self : NULL;
}

// Carry what this process holds and did into its slot of the new pages.
static void carry_over(const jvgpu_process_t *self, const grant_t *grant)
{
  jvgpu_slot_t *to = &grant->usage->slots[grant->slot];
  for (uint32_t to_index = 0; to_index < grant->control->device_count; to_index++) {
    for (uint32_t from_index = 0; from_index < self->control->device_count; from_index++) {
      if (memcmp(grant->control->devices[to_index].uuid, self->control->devices[from_index].uuid, JVGPU_UUID_BYTES) ==
          0) {
        const jvgpu_use_t *from = &self->slot->devices[from_index];
        to->devices[to_index] = *from;
      }
    }
  }
}

void jvgpu_attach_renew(jvgpu_process_t *self)
{
  const uint64_t now = jvgpu_now_ns();
  const uint64_t heartbeat = __atomic_load_n(&self->control->heartbeat_ns, __ATOMIC_RELAXED);
  if (now < heartbeat + STALE_NS || now - __atomic_load_n(&self->tried_ns, __ATOMIC_RELAXED) < RETRY_NS) {
    return;
  }
  jvgpu_lock(&self->attach_lock);
  if (now - self->tried_ns >= RETRY_NS) {
    const int error = errno;
    grant_t   grant;
    __atomic_store_n(&self->tried_ns, now, __ATOMIC_RELAXED);
    if (ask(self, &grant, true)) {
      carry_over(self, &grant);
      // The old pages stay mapped: another thread may be adding to them in this instant.
      move_in(self, &grant);
    }
    errno = error;
  }
  jvgpu_unlock(&self->attach_lock);
}
