// Check: a test program in two macros. The name of a check is a sentence about behaviour.
//
//   CHECK("half of nothing is nothing", half(0) == 0);
//   RESULT();   at the end of main: exit status 0 when everything held, 1 otherwise

#ifndef JVGPU_CHECK_H
#define JVGPU_CHECK_H

#include <stdio.h>

static int checks_made;
static int checks_failed;

#define CHECK(sentence, condition)                                                                  \
  do {                                                                                              \
    checks_made += 1;                                                                               \
    if (!(condition)) {                                                                             \
      checks_failed += 1;                                                                           \
      fprintf(stderr, "%s:%d: does not hold: %s (%s)\n", __FILE__, __LINE__, sentence, #condition); \
    }                                                                                               \
  } while (0)

#define RESULT()                                                  \
  do {                                                            \
    printf("%d checks, %d failed\n", checks_made, checks_failed); \
    return checks_failed == 0 && checks_made > 0 ? 0 : 1;         \
  } while (0)

#endif
