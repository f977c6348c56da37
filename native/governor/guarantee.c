#include "guarantee.h"

#include "governor.h"

#define PERIOD_NS UINT64_C(1000000000)
// A guarantee of which so much was had is met: a second begins and ends in the midst of work under way, 3 ms of it.
#define MET 0.95
#define MOST_IN_A_ROW 3u

void jvgpu_guarantee_set(jvgpu_guarantee_t *guarantee, uint32_t least_ppm)
{
  if (guarantee->least_ppm == least_ppm) {
    return;
  }
  guarantee->least_ppm = least_ppm;
  guarantee->begun_ns = 0;
  guarantee->in_a_row = 0;
  guarantee->is_raised = false;
}

static void begin(jvgpu_guarantee_t *guarantee, uint64_t used_ns, uint64_t now_ns)
{
  guarantee->begun_ns = guarantee->looked_ns = now_ns;
  guarantee->used_ns = used_ns;
  guarantee->wanted_ns = 0;
}

static bool is_violated(const jvgpu_guarantee_t *guarantee, uint64_t length_ns, uint64_t had_ns)
{
  const double least = guarantee->least_ppm / 1e6;
  const double waited_ns = guarantee->wanted_ns > had_ns ? (double)(guarantee->wanted_ns - had_ns) : 0.0;
  return (double)had_ns < least * (double)length_ns * MET && (double)had_ns >= least * ((double)length_ns - waited_ns);
}

static void judge(jvgpu_guarantee_t *guarantee, bool violated)
{
  guarantee->violations += violated;
  guarantee->in_a_row = violated ? guarantee->in_a_row + 1 : 0;
  guarantee->is_raised = guarantee->in_a_row >= MOST_IN_A_ROW;
}

void jvgpu_guarantee_note(jvgpu_guarantee_t *guarantee, uint64_t used_ns, bool stands, uint64_t now_ns)
{
  if (guarantee->least_ppm == 0) {
    return;
  }
  if (guarantee->begun_ns == 0) {
    begin(guarantee, 0, now_ns);
    return;
  }
  guarantee->used_ns += used_ns;
  const uint64_t dt_ns = now_ns - guarantee->looked_ns;
  guarantee->wanted_ns += stands || used_ns > dt_ns ? dt_ns : used_ns;
  guarantee->looked_ns = now_ns;
  const uint64_t length_ns = now_ns - guarantee->begun_ns;
  if (length_ns < PERIOD_NS) {
    return;
  }
  const uint64_t had_ns = guarantee->used_ns < length_ns ? guarantee->used_ns : length_ns;
  // A whole second, not one in which nobody looked.
  if (length_ns < 2 * PERIOD_NS) {
    judge(guarantee, is_violated(guarantee, length_ns, had_ns));
  }
  begin(guarantee, guarantee->used_ns - had_ns, now_ns);
}

uint32_t jvgpu_guarantee_priority(const jvgpu_guarantee_t *guarantee, uint32_t priority)
{
  return guarantee->is_raised && priority < JVGPU_PRIORITY_HIGH ? priority + 1 : priority;
}
