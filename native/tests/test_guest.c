// A guest in a process that has nothing to do with CUDA. Run with the library preloaded.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

// After us in the scope comes libnext_b.so, which has the same names.
const char *where_am_i(void);
const char *next_of_a(void);
const char *next_of_a_by_version(void);

// Descriptors of this process that could be a connection or a page of ours.
static int connections(void)
{
  int  count = 0;
  char link[64];
  char target[256];
  for (int fd = 0; fd < 64; fd++) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t bytes = readlink(link, target, sizeof target - 1);
    target[bytes < 0 ? 0 : bytes] = '\0';
    count += strncmp(target, "socket:", 7) == 0 || strstr(target, "memfd:") != NULL;
  }
  return count;
}

static int entries_of(const char *path)
{
  int  count = 0;
  DIR *directory = opendir(path);
  while (directory != NULL && readdir(directory) != NULL) {
    count += 1;
  }
  if (directory != NULL) {
    closedir(directory);
  }
  return count;
}

int main(int argc, char **argv)
{
  struct sigaction action;
  (void)argc;
  void *self = dlopen(NULL, RTLD_LAZY);

  CHECK("the library is really there", getenv("LD_PRELOAD") != NULL && strstr(getenv("LD_PRELOAD"), argv[1]) != NULL);
  // catches a bug where RTLD_NEXT from another library was NULL or the wrong thing (CASES 19); at -O0 and -O2
  CHECK("RTLD_NEXT means the caller, not us", next_of_a() != NULL && strcmp(next_of_a(), "b") == 0);
  CHECK("the same by version", next_of_a_by_version() != NULL);
  CHECK("the default scope still finds what is there", dlsym(RTLD_DEFAULT, "printf") == (void *)printf);
  CHECK("cuInit is not found where there is no driver", dlsym(RTLD_DEFAULT, "cuInit") == NULL && dlerror() != NULL);
  CHECK("nor in the program's own handle", dlsym(self, "cuInit") == NULL && dlerror() != NULL);
  CHECK("nor after us", dlsym(RTLD_NEXT, "nvmlInit_v2") == NULL && dlerror() != NULL);
  CHECK("a name that only begins like the driver's is left alone", dlsym(RTLD_DEFAULT, "cube_of_a") != NULL);
  CHECK("dlsym finds itself", dlsym(RTLD_DEFAULT, "dlsym") != NULL);
  CHECK("a look-up of nothing is an error as ever", dlsym(self, "no_such_thing") == NULL && dlerror() != NULL);
  // catches a bug where umask was left at 0 and signal handlers were replaced (CASES 22)
  CHECK("umask is as it was", umask(022) == 022);
  CHECK("SIGUSR1 is as it was", sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  CHECK("SIGUSR2 is as it was", sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  // catches a bug where any name beginning with cu started the machinery (CASES 23)
  CHECK("no connection was made", connections() == 0);
  CHECK("no thread was started", entries_of("/proc/self/task") == 3);  // ".", ".." and this one
  RESULT();
}
