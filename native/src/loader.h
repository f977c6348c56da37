// Loader: finds the C library's dlsym family and the driver's libraries, without a constructor.
//
// Our own `dlsym` shadows the real one, so the real one is found by reading the symbol tables of
// the loaded objects; nothing private of glibc is used, and no symbol newer than GLIBC_2.17.

#ifndef JVGPU_LOADER_H
#define JVGPU_LOADER_H

#include <stdbool.h>

// The C library's functions; a member is NULL while the object that has it is not loaded
// (before glibc 2.34 they live in libdl, which a program may not need).
typedef struct jvgpu_dl_s {
  void *(*sym)(void *handle, const char *name);
  void *(*vsym)(void *handle, const char *name, const char *version);
  void *(*open)(const char *path, int flags);
  int (*close)(void *handle);
  int (*addr)(const void *address, void *info);
} jvgpu_dl_t;

typedef enum jvgpu_library_e { JVGPU_CUDA, JVGPU_NVML } jvgpu_library_t;

// returns: the C library's functions as far as they are loaded.
// threads: any; the first calls may fill it at the same time, with the same values.
const jvgpu_dl_t *jvgpu_dl(void);

// returns: whether the driver library is loaded in this process; binds jvgpu_real to it on the way.
// Never loads it: a process that does not use CUDA stays one.
bool jvgpu_loaded(jvgpu_library_t library);

// returns: whether `address` lies in a driver library of that kind; binds jvgpu_real to that very
// object if nothing is bound yet, so that a driver opened by path is the one that is called.
bool jvgpu_is_drivers(jvgpu_library_t library, const void *address);

#endif
