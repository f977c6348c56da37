// A library that looks for the next definition of its own name, as allocators and sanitizers do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

const char *where_am_i(void);
const char *next_of_a(void);
const char *next_of_a_by_version(void);
int cube_of_a(int x);

const char *where_am_i(void)
{
  return "a";
}
int cube_of_a(int x)
{
  return x * x * x;
}

const char *next_of_a(void)
{
  const char *(*next)(void) = (const char *(*)(void))dlsym(RTLD_NEXT, "where_am_i");
  return next == NULL ? NULL : next();
}

const char *next_of_a_by_version(void)
{
#ifdef __aarch64__
  return dlvsym(RTLD_NEXT, "printf", "GLIBC_2.17") == NULL ? NULL : "found";
#else
  return dlvsym(RTLD_NEXT, "printf", "GLIBC_2.2.5") == NULL ? NULL : "found";
#endif
}
