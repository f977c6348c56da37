// Rough: a launch's duration from runs over several streams, each of which says it within some per cent or, where a turn
// of others' was in it, far too long.
//
// Those without a turn lie close together, at the short end; few are shorter still, where fewer launches were done than
// were counted. Pure arithmetic; zeroed memory knows nothing.

#ifndef JVGPU_ROUGH_H
#define JVGPU_ROUGH_H

#include <stdbool.h>
#include <stdint.h>

#define JVGPU_ROUGH_KEPT 12u

typedef struct jvgpu_rough_s {
  float    kept_ns[JVGPU_ROUGH_KEPT];  // the latest, a launch
  uint32_t seen;
} jvgpu_rough_t;

// Take in what one run says a launch takes.
void jvgpu_rough_add(jvgpu_rough_t *rough, double launch_ns);

// returns: nanoseconds a launch, the mean of those that lie close together at the short end, or where none do the
// shortest. *do_agree: whether any do. pre: one was added.
double jvgpu_rough_mean_ns(const jvgpu_rough_t *rough, bool *do_agree);

// returns: nanoseconds a launch, of runs that are sure, since they began and ended with as much under way, and of others.
// pre: one was added to either.
double jvgpu_rough_best_ns(const jvgpu_rough_t *sure, const jvgpu_rough_t *others);

// returns: the mean of the shortest three or more, an eighth at least, of `count` figures above 0 that lie within a
// twentieth of each other; 0 = there are none.
double jvgpu_rough_agreed(const float *figures, uint32_t count);

#endif
