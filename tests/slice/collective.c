// Collective: a tenant with a process on each of its two devices, which launch in lockstep, as in an all-reduce loop.
//
// Launch number n of a rank is followed on its stream by a step that ends only when the other rank's number n has
// come as far: whoever is kept from launching holds up the other's stream. With one device: launches that wait for
// nobody. Linked against the driver, knows nothing of the library.
//
// usage: collective DEVICES LAUNCH_US
// Says the ranks' process ids, then, for each line of input, how many launches each has finished. Ends with its input, and
// with its parent.

#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCKS 132
#define THREADS 256

extern int cuInit(unsigned flags);
extern int cuDevicePrimaryCtxRetain(void **context, int device);
extern int cuCtxSetCurrent(void *context);
extern int cuStreamCreate(void **stream, unsigned flags);
extern int cuModuleLoadData(void **module, const void *image);
extern int cuModuleGetFunction(void **function, void *module, const char *name);
extern int cuLaunchKernel(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                          void *stream, void **parameters, void **extra);
extern int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);

typedef struct rank_s {
  int               peer;  // -1 = there is none
  _Atomic uint64_t *done;
} rank_t;

static void must(int result, const char *what)
{
  if (result != 0) {
    fprintf(stderr, "%s says %d\n", what, result);
    _exit(1);
  }
}

// On the driver's thread, in the stream's order.
static void meet(void *data)
{
  rank_t *rank = data;
  char    byte = 0;
  if (rank->peer >= 0 && (send(rank->peer, &byte, 1, MSG_NOSIGNAL) != 1 || read(rank->peer, &byte, 1) != 1)) {
    pause();  // the other rank is gone: a collective without it never ends
  }
  *rank->done += 1;
}

static void work(rank_t *rank, int device, const char *name)
{
  void *context, *stream, *module, *function;
  must(cuInit(0), "cuInit");
  must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  must(cuStreamCreate(&stream, 1), "cuStreamCreate");
  must(cuModuleLoadData(&module, "any text"), "cuModuleLoadData");
  must(cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
  for (;;) {
    must(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, NULL, NULL), "cuLaunchKernel");
    must(cuLaunchHostFunc(stream, meet, rank), "cuLaunchHostFunc");
  }
}

int main(int argc, char **argv)
{
  const int ranks = argc == 3 ? atoi(argv[1]) : 0;
  char      name[64];
  int       pair[2] = {-1, -1};
  if (ranks < 1 || ranks > 2) {
    fprintf(stderr, "usage: collective 1|2 LAUNCH_US\n");
    return 2;
  }
  snprintf(name, sizeof name, "sim_busy_%sus", argv[2]);
  _Atomic uint64_t *done = mmap(NULL, sizeof *done * 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (done == MAP_FAILED || (ranks == 2 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)) {
    return 1;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < ranks; i++) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (ranks == 2) {
        close(pair[1 - i]);
      }
      rank_t rank = {.peer = pair[i], .done = &done[i]};
      work(&rank, i, name);
    }
    printf("%d ", (int)pid);
  }
  close(pair[0]);
  close(pair[1]);
  printf("\n");
  fflush(stdout);
  for (int c; (c = getchar()) != EOF;) {
    if (c == '\n') {
      for (int i = 0; i < ranks; i++) {
        printf("%llu ", (unsigned long long)done[i]);
      }
      printf("\n");
      fflush(stdout);
    }
  }
  return 0;
}
