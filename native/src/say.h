// Say: one line on stderr, for the one time a process has to be told why it has no GPU.

#ifndef JVGPU_SAY_H
#define JVGPU_SAY_H

// Write "jupyter_vgpu: <text><detail>\n" in one piece. `detail` may be NULL.
void jvgpu_say(const char *text, const char *detail);

#endif
