#define _GNU_SOURCE
#include "say.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MOST 640u

static size_t append(char *line, size_t used, const char *text)
{
  const size_t bytes = text == NULL ? 0 : strnlen(text, MOST - 1 - used);
  memcpy(line + used, text == NULL ? "" : text, bytes);
  return used + bytes;
}

void jvgpu_say(const char *text, const char *detail)
{
  char      line[MOST];
  const int error = errno;
  size_t    used = append(line, 0, "jupyter_vgpu: ");
  used = append(line, used, text);
  used = append(line, used, detail);
  line[used] = '\n';
  const ssize_t written = write(STDERR_FILENO, line, used + 1);
  (void)written;
  errno = error;
}
