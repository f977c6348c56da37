// Which boards a process sees, and in which order.
//
// source: CUDA C++ Programming Guide 13.0, "CUDA Environment Variables": indices or UUIDs (a prefix will do),
// separated by commas; an invalid entry hides itself and all after it. A repeated device makes the list empty.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "driver.h"

static uint64_t speed(const sim_board_t *board)
{
  return (uint64_t)board->sm_count * board->cores_per_sm * board->sm_clock_mhz;
}

static int order_boards(const sim_shared_t *shared, const char *order, uint32_t *ordered)
{
  const int count = (int)shared->board_count;
  for (int i = 0; i < count; i++) {
    ordered[i] = (uint32_t)i;
  }
  if (order != NULL && strcasecmp(order, "PCI_BUS_ID") == 0) {
    return count;  // boards stand in the file in that order
  }
  // Fastest first; equally fast ones stay in bus order.
  for (int i = 1; i < count; i++) {
    for (int j = i; j > 0 && speed(&shared->boards[ordered[j]]) > speed(&shared->boards[ordered[j - 1]]); j--) {
      const uint32_t swapped = ordered[j];
      ordered[j] = ordered[j - 1];
      ordered[j - 1] = swapped;
    }
  }
  return count;
}

// returns: the place in `ordered` the entry means, -1 for none
static int match(const sim_shared_t *shared, const uint32_t *ordered, int count, const char *entry)
{
  if (strncasecmp(entry, "GPU-", 4) == 0) {
    int found = -1;
    for (int i = 0; i < count; i++) {
      const uint8_t *u = shared->boards[ordered[i]].uuid;
      char           text[48];
      snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
               u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
      if (strncasecmp(text, entry, strlen(entry)) == 0) {
        if (found >= 0) {
          return -1;  // the prefix does not say which
        }
        found = i;
      }
    }
    return found;
  }
  char      *end = NULL;
  const long index = strtol(entry, &end, 10);
  return end == entry || *end != 0 || index < 0 || index >= count ? -1 : (int)index;
}

int sim_visible_boards(const sim_shared_t *shared, const char *visible, const char *order, uint32_t *board_of)
{
  uint32_t  ordered[SIM_MAX_BOARDS];
  const int count = order_boards(shared, order, ordered);
  if (visible == NULL) {
    memcpy(board_of, ordered, sizeof ordered);
    return count;
  }
  int         chosen = 0;
  const char *cursor = visible;
  while (*cursor != 0) {
    char         entry[64];
    const size_t length = strcspn(cursor, ",");
    const size_t lead = strspn(cursor, " \t");
    if (lead >= length || length - lead >= sizeof entry) {
      break;
    }
    size_t used = length - lead;
    memcpy(entry, cursor + lead, used);
    while (used > 0 && (entry[used - 1] == ' ' || entry[used - 1] == '\t')) {
      used--;
    }
    entry[used] = 0;
    const int place = match(shared, ordered, count, entry);
    if (place < 0) {
      break;
    }
    for (int i = 0; i < chosen; i++) {
      if (board_of[i] == ordered[place]) {
        return 0;
      }
    }
    board_of[chosen++] = ordered[place];
    cursor += length + (cursor[length] == ',' ? 1 : 0);
  }
  return chosen;
}
