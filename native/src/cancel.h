// Cancel: a thread that its program cancels while it waits in here would leave what it holds held for ever.

#ifndef JVGPU_CANCEL_H
#define JVGPU_CANCEL_H

#include <pthread.h>

// Put a cancellation off until what is held is given back. returns: what to give to `jvgpu_cancel_again`.
static inline int jvgpu_cancel_later(void)
{
  int state = PTHREAD_CANCEL_ENABLE;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  return state;
}

static inline void jvgpu_cancel_again(int state)
{
  (void)pthread_setcancelstate(state, NULL);
}

#endif
