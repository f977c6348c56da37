// What the tests of shapes share: one that is new, figures that are about right, and ways to have taken a sample.

#ifndef JVGPU_SHAPE_SCENE_H
#define JVGPU_SHAPE_SCENE_H

#include "check.h"
#include "shapes.h"

#define US 1e3
#define MS 1e6
// With one neighbour a lost turn costs this much.
#define LOST (2.475 * MS)

static inline jvgpu_shape_t fresh(void)
{
  const jvgpu_shape_t shape = {.key = 1};
  return shape;
}

static inline int within(double figure, double truth, double part)
{
  return figure > truth * (1 - part) && figure < truth * (1 + part);
}

static const jvgpu_how_t alone = {.contenders = 1};
static const jvgpu_how_t surely_alone = {.contenders = 1, .is_alone = true, .is_sure = true};
static const jvgpu_how_t beside = {.contenders = 2};
static const jvgpu_how_t watched = {.contenders = 2, .is_watched = true};

#endif
