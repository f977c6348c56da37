#define _GNU_SOURCE
#include "exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "jvgpu/pages.h"

#define SYSTEM_SOCKET "/run/jupyter-vgpu/attach.sock"
#define LOOK_AGAIN_NS 20000000L

// Behind a request: this process has a slot, and carries over what stands in it.
static const char renewal[8] = "RENEWAL";

// --- who answers ------------------------------------------------------------------------------------------

// By the system call, since glibc's lstat and statx are younger than our floor.
static bool look_at(const char *path, struct statx *info)
{
  return syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_UID, info) == 0;
}

// returns: whether this machine has an agent of root's.
static bool has_system_agent(void)
{
  struct statx info;
  return look_at(SYSTEM_SOCKET, &info) && info.stx_uid == 0;
}

static bool is_socket(const char *path)
{
  struct statx info;
  return look_at(path, &info) && S_ISSOCK(info.stx_mode);
}

// A tenant could point us at an agent of its own with any limit it likes. Root's agent is always
// believed; our own user's only where the machine has no system agent, and so no limit to get round.
bool jvgpu_is_believed(int socket_fd)
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

static int connect_once(const char *path, time_t wait_seconds)
{
  struct sockaddr_un   address = {.sun_family = AF_UNIX};
  const struct timeval wait = {.tv_sec = wait_seconds};
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

// An agent that ended without a word leaves its socket, and is started again: `patience_ns` is how long
// it is waited for. One that was stopped takes its socket away.
int jvgpu_connect(const char *path, time_t wait_seconds, uint64_t patience_ns)
{
  const uint64_t        begun_ns = jvgpu_now_ns();
  const struct timespec moment = {.tv_nsec = LOOK_AGAIN_NS};
  int                   fd = connect_once(path, wait_seconds);

  while (fd < 0 && errno == ECONNREFUSED && jvgpu_now_ns() - begun_ns < patience_ns && is_socket(path)) {
    nanosleep(&moment, NULL);
    fd = connect_once(path, wait_seconds);
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

void jvgpu_grant_unmap(const jvgpu_grant_t *grant)
{
  if (grant->control != NULL) {
    munmap(grant->control, sizeof *grant->control);
  }
  if (grant->usage != NULL) {
    munmap(grant->usage, sizeof *grant->usage);
  }
}

static bool accept_pages(const jvgpu_attach_reply_t *reply, const int fds[2], jvgpu_grant_t *grant)
{
  grant->control = map_page(fds[0], sizeof *grant->control, PROT_READ);
  grant->usage = map_page(fds[1], sizeof *grant->usage, PROT_READ | PROT_WRITE);
  grant->slot = reply->slot;
  if (grant->control != NULL && grant->usage != NULL && grant->control->magic == JVGPU_MAGIC &&
      grant->control->layout == JVGPU_LAYOUT && grant->control->device_count >= 1 &&
      grant->control->device_count <= JVGPU_MAX_DEVICES && grant->slot < JVGPU_MAX_SLOTS) {
    return true;
  }
  jvgpu_grant_unmap(grant);
  return false;
}

const char *jvgpu_exchange(int socket_fd, const char *secret, bool is_renewal, jvgpu_grant_t *grant,
                           char refusal[JVGPU_MESSAGE_BYTES])
{
  struct {
    jvgpu_attach_request_t request;
    char                   tail[sizeof renewal];
  } asked = {.request = {.magic = JVGPU_MAGIC, .layout = JVGPU_LAYOUT}};
  const size_t         bytes = is_renewal ? sizeof asked : sizeof asked.request;
  jvgpu_attach_reply_t reply;
  int                  fds[2];
  const char          *complaint = NULL;

  memcpy(asked.request.secret_hex, secret, sizeof asked.request.secret_hex);
  memcpy(asked.tail, renewal, sizeof renewal);
  memset(&reply, 0, sizeof reply);
  refusal[0] = '\0';
  if (send(socket_fd, &asked, bytes, MSG_NOSIGNAL) != (ssize_t)bytes || !receive(socket_fd, &reply, fds)) {
    return "the node agent did not answer. Ask your admin whether it runs.";
  }
  if (reply.status != JVGPU_ATTACH_OK) {
    reply.message[sizeof reply.message - 1] = '\0';
    memcpy(refusal, reply.message, sizeof reply.message);
    complaint = "";
  } else if (fds[0] < 0 || fds[1] < 0) {
    complaint = JVGPU_NO_DESCRIPTORS;
  } else if (reply.layout != JVGPU_LAYOUT || !accept_pages(&reply, fds, grant)) {
    complaint = "the node agent and the library are of different versions.";
  }
  for (int i = 0; i < 2; i++) {
    if (fds[i] >= 0) {
      close(fds[i]);
    }
  }
  return complaint;
}

void jvgpu_say_moved(int socket_fd)
{
  char    nothing;
  ssize_t got;
  (void)shutdown(socket_fd, SHUT_WR);
  do {
    got = recv(socket_fd, &nothing, sizeof nothing, 0);
  } while (got > 0 || (got < 0 && errno == EINTR));
}
