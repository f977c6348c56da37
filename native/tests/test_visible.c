// CUDA_VISIBLE_DEVICES inside a slice: what the user wrote counts within the claim.

#include <string.h>

#include "check.h"
#include "devices.h"

static jvgpu_control_t control;

static const char *visible(const char *wanted)
{
  static char text[JVGPU_UUID_TEXT * JVGPU_MAX_DEVICES + 1];
  return jvgpu_visible_devices(&control, wanted, text, sizeof text) ? text : "too small";
}

#define FIRST "GPU-a1000000-0000-0000-0000-000000000000"
#define SECOND "GPU-a2000000-0000-0000-0000-000000000000"

int main(void)
{
  char small[8];
  control.device_count = 2;
  control.devices[0].uuid[0] = 0xa1;
  control.devices[1].uuid[0] = 0xa2;

  CHECK("unset means the whole slice", strcmp(visible(NULL), FIRST "," SECOND) == 0);
  CHECK("empty means nothing", strcmp(visible(""), "") == 0);
  CHECK("a number counts within the slice", strcmp(visible("1"), SECOND) == 0);
  CHECK("order is kept", strcmp(visible("1,0"), SECOND "," FIRST) == 0);
  CHECK("spaces do not matter", strcmp(visible(" 1 , 0 "), SECOND "," FIRST) == 0);
  CHECK("a UUID of the slice is itself", strcmp(visible(SECOND), SECOND) == 0);
  CHECK("a UUID may be shortened", strcmp(visible("GPU-a2"), SECOND) == 0);
  CHECK("not so far that it means two", strcmp(visible("GPU-a"), "") == 0);
  CHECK("another tenant's device ends the list", strcmp(visible("0,GPU-ffff,1"), FIRST) == 0);
  CHECK("a number past the slice ends the list", strcmp(visible("0,2,1"), FIRST) == 0);
  CHECK("-1 means nothing", strcmp(visible("-1"), "") == 0);
  CHECK("a device named twice leaves none", strcmp(visible("0,0"), "") == 0);
  CHECK("words mean nothing", strcmp(visible("all"), "") == 0);
  CHECK("too small a buffer is said", !jvgpu_visible_devices(&control, NULL, small, sizeof small));
  CHECK("a UUID finds its device", jvgpu_device_with_uuid(&control, SECOND) == 1);
  CHECK("another UUID finds none", jvgpu_device_with_uuid(&control, "GPU-00") == JVGPU_NO_DEVICE);
  RESULT();
}
