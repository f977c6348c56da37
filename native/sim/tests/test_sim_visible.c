// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, as a pure function.

#include <string.h>

#include "check.h"
#include "driver.h"
#include "state.h"

static sim_shared_t shared;

// returns: the boards seen, as digits
static const char *seen(const char *visible, const char *order)
{
  static char text[SIM_MAX_BOARDS + 1];
  uint32_t    boards[SIM_MAX_BOARDS];
  const int   count = sim_visible_boards(&shared, visible, order, boards);
  for (int i = 0; i < count; i++) {
    text[i] = (char)('0' + boards[i]);
  }
  text[count] = 0;
  return text;
}

int main(void)
{
  shared.board_count = 3;
  for (unsigned int i = 0; i < 3; i++) {
    shared.boards[i] = state_board(i, 1u << 30);  // board 2 is the fastest
  }
  CHECK("the fastest board comes first", strcmp(seen(NULL, NULL), "210") == 0);
  CHECK("PCI_BUS_ID keeps the order of the bus", strcmp(seen(NULL, "PCI_BUS_ID"), "012") == 0);
  CHECK("an index counts in the chosen order", strcmp(seen("0", NULL), "2") == 0);
  CHECK("indices reorder", strcmp(seen("1,0", "PCI_BUS_ID"), "10") == 0);
  CHECK("blanks round an index do not matter", strcmp(seen(" 1 , 0 ", "PCI_BUS_ID"), "10") == 0);
  CHECK("an empty list hides all", strcmp(seen("", "PCI_BUS_ID"), "") == 0);
  CHECK("an unknown index ends the list", strcmp(seen("1,7,0", "PCI_BUS_ID"), "1") == 0);
  CHECK("-1 hides all", strcmp(seen("-1", "PCI_BUS_ID"), "") == 0);
  CHECK("a word hides all", strcmp(seen("none", "PCI_BUS_ID"), "") == 0);
  CHECK("a number with a tail is no index", strcmp(seen("1x", "PCI_BUS_ID"), "") == 0);
  CHECK("a device named twice hides all", strcmp(seen("1,1", "PCI_BUS_ID"), "") == 0);
  CHECK("a whole UUID names a board", strcmp(seen("GPU-a1000000-0000-0000-0000-000000000000", NULL), "1") == 0);
  CHECK("a prefix of a UUID names a board", strcmp(seen("GPU-a1", NULL), "1") == 0);
  CHECK("upper case is read, too", strcmp(seen("GPU-A1", NULL), "1") == 0);
  CHECK("a prefix of several names none", strcmp(seen("GPU-a", NULL), "") == 0);
  CHECK("UUIDs and indices mix", strcmp(seen("GPU-a2,0", "PCI_BUS_ID"), "20") == 0);
  CHECK("an empty entry ends the list", strcmp(seen("1,,0", "PCI_BUS_ID"), "1") == 0);
  RESULT();
}
