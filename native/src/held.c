#include "held.h"

// A duration is a mean: launches that take longer make up for others that take less. So much is remembered of what was
// left. Fences are behind several launches, and seen a little late: that is less.
#define MOST_SLACK_NS UINT64_C(20000000)

uint64_t jvgpu_held_look(jvgpu_held_t *held, uint64_t now_ns, uint64_t charged_ns, uint64_t under_way_ns, bool is_idle)
{
  const uint64_t over_ns = charged_ns > under_way_ns ? charged_ns - under_way_ns : 0;
  // What is under way may have had all the time since it was launched.
  const uint64_t most_slack_ns = MOST_SLACK_NS + under_way_ns;
  const bool     is_known = held->looked_ns != 0 && now_ns >= held->looked_ns;
  const uint64_t length_ns = is_known && !held->is_idle ? now_ns - held->looked_ns : 0;
  // Launches of unknown duration are under way with something, and charged nothing: less may be over for a while.
  const uint64_t own_ns = is_known && over_ns > held->charged_ns ? over_ns - held->charged_ns : 0;
  const uint64_t most_ns = length_ns + held->slack_ns;
  held->looked_ns = now_ns;
  held->charged_ns = is_known && over_ns < held->charged_ns ? held->charged_ns : over_ns;
  held->is_idle = is_idle;
  if (own_ns > most_ns) {
    held->slack_ns = 0;
    return own_ns - most_ns;
  }
  held->slack_ns = most_ns - own_ns < most_slack_ns ? most_ns - own_ns : most_slack_ns;
  return 0;
}

void jvgpu_held_forget(jvgpu_held_t *held)
{
  held->looked_ns = 0;
}
