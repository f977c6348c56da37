// Trace: which names a program looks up, for probing a new driver. Compiled in only with
// -DJVGPU_TRACE=ON; a shipped library has none of it.

#ifndef JVGPU_TRACE_H
#define JVGPU_TRACE_H

#ifdef JVGPU_TRACE
// Append "how name" to the file that JVGPU_TRACE_FILE names.
void jvgpu_trace(const char *how, const char *name);
#else
static inline void jvgpu_trace(const char *how, const char *name)
{
  (void)how;
  (void)name;
}
#endif

#endif
