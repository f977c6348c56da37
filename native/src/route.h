// Route: which address a program gets when it looks a name up.
//
// `dlsym` and `dlvsym` are ours by name and the C library's by a jump (dlsym_*.S), so that RTLD_NEXT
// and RTLD_DEFAULT keep meaning the caller. cuGetProcAddress is routed by the pointer that the driver
// handed back. Where the process has no driver library we answer as if we were not there.

#ifndef JVGPU_ROUTE_H
#define JVGPU_ROUTE_H

#include <stdint.h>

// Two registers on both architectures: what the assembly reads.
typedef struct jvgpu_answer_s {
  void     *address;   // the answer, or the C library's function to jump to
  uintptr_t answered;  // 0 = jump to `address`; 1 = return `address`
} jvgpu_answer_t;

jvgpu_answer_t jvgpu_route_dlsym(void *handle, const char *name);
jvgpu_answer_t jvgpu_route_dlvsym(void *handle, const char *name, const char *version);

// returns: our hook for the driver's function at `address`, or `address` itself.
void *jvgpu_route_pointer(void *address);

#endif
