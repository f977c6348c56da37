// What counts as a violated guarantee, when it is asked for more loudly, and what that brings.

#include "guarantee.h"

#include "check.h"
#include "governor_scene.h"

#define LOOK_NS 500000u

// Some milliseconds in which the device was wanted or not, of which the tenant had it for `had_ms`, evenly.
static void spend(jvgpu_guarantee_t *guarantee, uint64_t *now_ns, double ms, double had_ms, bool wanted)
{
  const uint32_t looks = (uint32_t)(ms * 1e6 / LOOK_NS);
  double         given_ns = 0;
  for (uint32_t i = 1; i <= looks; i++) {
    const uint64_t part_ns = (uint64_t)(had_ms * 1e6 * i / looks - given_ns);
    given_ns += (double)part_ns;
    *now_ns += LOOK_NS;
    jvgpu_guarantee_note(guarantee, part_ns, wanted, *now_ns);
  }
}

static jvgpu_guarantee_t begun(uint32_t least_ppm, uint64_t *now_ns)
{
  jvgpu_guarantee_t guarantee = {.violations = 0};
  jvgpu_guarantee_set(&guarantee, least_ppm);
  *now_ns = 1000000000u;
  jvgpu_guarantee_note(&guarantee, 0, false, *now_ns);
  return guarantee;
}

// returns: the violations of one second that is like that.
static uint64_t of_a_second(uint32_t least_ppm, double wanted_ms, double had_ms)
{
  uint64_t          now_ns;
  jvgpu_guarantee_t guarantee = begun(least_ppm, &now_ns);
  spend(&guarantee, &now_ns, wanted_ms, had_ms, true);
  spend(&guarantee, &now_ns, 1000 - wanted_ms, 0, false);
  return guarantee.violations;
}

static void one_second(void)
{
  CHECK("who always wants and has a tenth of its quarter less is not given it", of_a_second(250000, 1000, 225) == 1);
  CHECK("who always wants and has nothing is not given it", of_a_second(250000, 1000, 0) == 1);
  CHECK("a fiftieth less is within what can be measured", of_a_second(250000, 1000, 245) == 0);
  CHECK("who has it has it", of_a_second(250000, 1000, 250) == 0);
  CHECK("who wants nothing is owed nothing", of_a_second(250000, 0, 0) == 0);
  CHECK("who would not use that much is owed no more than it uses", of_a_second(250000, 100, 100) == 0);
  // 400 ms on the device and 600 ms elsewhere; stretched, because it waits, to 1600 ms and 600 ms.
  CHECK("who comes and goes and would use that much is owed it", of_a_second(250000, 727, 182) == 1);
  // 150 ms and 850 ms; twice as long on the device.
  CHECK("and who is merely slowed down below it is not", of_a_second(250000, 261, 130) == 0);
  CHECK("where nothing is guaranteed, nothing is missed", of_a_second(0, 1000, 0) == 0);
  uint64_t          now_ns;
  jvgpu_guarantee_t alone = begun(250000, &now_ns);
  spend(&alone, &now_ns, 1000, 100, false);
  CHECK("who uses a tenth and never stands has had what it wanted", alone.violations == 0);
}

static void long_work(void)
{
  uint64_t          now_ns;
  jvgpu_guarantee_t guarantee = begun(500000, &now_ns);
  // Charged as it begins, as launches are.
  jvgpu_guarantee_note(&guarantee, 3000000000u, true, now_ns);
  spend(&guarantee, &now_ns, 3000, 0, true);
  CHECK("work of three seconds is had for three seconds, though it was charged at once", guarantee.violations == 0);
  spend(&guarantee, &now_ns, 1000, 0, true);
  CHECK("and for no longer", guarantee.violations == 1);
}

static void seconds_that_nobody_saw(void)
{
  uint64_t          now_ns;
  jvgpu_guarantee_t guarantee = begun(500000, &now_ns);
  spend(&guarantee, &now_ns, 600, 0, true);
  now_ns += 5000000000u;
  jvgpu_guarantee_note(&guarantee, 0, true, now_ns);
  CHECK("a second in which the agent stood still is not judged", guarantee.violations == 0);
  spend(&guarantee, &now_ns, 1000, 0, true);
  CHECK("the next is", guarantee.violations == 1);
}

static void a_row(void)
{
  uint64_t          now_ns;
  jvgpu_guarantee_t guarantee = begun(500000, &now_ns);
  spend(&guarantee, &now_ns, 2000, 0, true);
  CHECK("after two in a row nothing changes", guarantee.in_a_row == 2 && !guarantee.is_raised);
  CHECK("its priority is its own",
        jvgpu_guarantee_priority(&guarantee, JVGPU_PRIORITY_NORMAL) == JVGPU_PRIORITY_NORMAL);
  spend(&guarantee, &now_ns, 1000, 0, true);
  CHECK("after three it is raised", guarantee.in_a_row == 3 && guarantee.is_raised);
  CHECK("a class higher", jvgpu_guarantee_priority(&guarantee, JVGPU_PRIORITY_LOW) == JVGPU_PRIORITY_NORMAL);
  CHECK("and high stays high", jvgpu_guarantee_priority(&guarantee, JVGPU_PRIORITY_HIGH) == JVGPU_PRIORITY_HIGH);
  spend(&guarantee, &now_ns, 3000, 900, true);
  CHECK("as long as it is missed", guarantee.is_raised && guarantee.violations == 6);
  spend(&guarantee, &now_ns, 1000, 500, true);
  CHECK("until it is met", !guarantee.is_raised && guarantee.in_a_row == 0 && guarantee.violations == 6);
  spend(&guarantee, &now_ns, 2000, 0, true);
  spend(&guarantee, &now_ns, 1000, 0, false);
  spend(&guarantee, &now_ns, 2000, 0, true);
  CHECK("a second in which nothing was owed ends a row", !guarantee.is_raised && guarantee.violations == 10);
  spend(&guarantee, &now_ns, 1000, 0, true);
  jvgpu_guarantee_set(&guarantee, 500000);
  CHECK("the same guarantee again changes nothing", guarantee.is_raised);
  jvgpu_guarantee_set(&guarantee, 250000);
  CHECK("another begins a new row", !guarantee.is_raised && guarantee.in_a_row == 0 && guarantee.violations == 11);
}

// Any seconds at all, looked at as it comes.
static void any_seconds(void)
{
  model_gpu_t chance = {.random = 7};
  uint32_t    wrong = 0, violated = 0;
  for (uint32_t i = 0; i < 20000; i++) {
    const uint32_t    least_ppm = 1 + (uint32_t)(model_chance(&chance) * 1e6);
    const double      most_used = model_chance(&chance), most_wanted = model_chance(&chance);
    uint64_t          now_ns, used_ns = 0;
    jvgpu_guarantee_t guarantee = begun(least_ppm, &now_ns);
    const uint64_t    from_ns = now_ns;
    bool              always = true;
    while (now_ns < from_ns + 1000000000u) {
      const uint64_t dt_ns = 1 + (uint64_t)(model_chance(&chance) * 100e6);
      const uint64_t part_ns = (uint64_t)(model_chance(&chance) * most_used * (double)dt_ns);
      const bool     wanted = model_chance(&chance) < most_wanted * 2;
      now_ns += dt_ns;
      used_ns += part_ns;
      always = always && wanted;
      jvgpu_guarantee_note(&guarantee, part_ns, wanted, now_ns);
    }
    const double part = (double)used_ns / (double)(now_ns - from_ns);
    const bool   has_less = part < least_ppm / 1e6 * 0.95;
    wrong += guarantee.violations != 0 && !has_less;
    wrong += guarantee.violations == 0 && has_less && always;
    violated += (uint32_t)guarantee.violations;
  }
  CHECK(
      "of any seconds, none in which it had enough is a violation, and each is in which it always wanted and had less",
      wrong == 0);
  CHECK("and there were both kinds", violated > 1000 && violated < 19000);
}

// --- with the governor, on the model GPU ----------------------------------------------------------------------------

static const model_program_t burn = {.launch_ns = 20e3, .host_ns = 4e3};

static void against_four_processes(void)
{
  scene_t scene = {.count = 0};
  add(&scene, burn, 500000, 1000000);
  for (int i = 0; i < 3; i++) {
    add_process(&scene, burn);
  }
  add(&scene, burn, 500000, 1000000);
  scene.guarantee_ppm[1] = 400000;
  const scene_t native = both("guaranteed .4 beside 4", &scene);
  CHECK("the driver alone gives one process beside four no two fifths, and each second is counted",
        native.guarantees[1].violations >= 4 && native.guarantees[1].is_raised);
  CHECK("the governor does, and none is", scene.guarantees[1].violations == 0);
  CHECK("nobody else's are counted", scene.guarantees[0].violations == 0);
}

static void what_a_raise_brings(void)
{
  scene_t plain = {.count = 0};
  add(&plain, burn, 250000, 1000000);
  add(&plain, burn, 250000, 1000000);
  scene_t raised = plain;
  raised.runners[0].priority = JVGPU_PRIORITY_HIGH;
  scene_t full = {.count = 0};
  add(&full, burn, 500000, 1000000);
  add(&full, burn, 500000, 1000000);
  full.runners[0].is_raised = true;
  run(&plain, 4);
  run(&raised, 4);
  run(&full, 4);
  show("quarters, half is left", &plain);
  show("one of a higher class", &raised);
  show("halves, one is raised", &full);
  CHECK("of equals each has half", is_near(plain.part[0] / plain.total, 0.5, 0.01));
  CHECK("a class higher has all that nobody was promised", is_near(raised.part[0] / raised.total, 0.75, 0.02));
  CHECK("where all is promised, who is raised has more than its share", full.part[0] / full.total > 0.52);
  CHECK("and the other goes on", full.part[1] / full.total > 0.4);
}

int main(void)
{
  one_second();
  long_work();
  seconds_that_nobody_saw();
  a_row();
  any_seconds();
  against_four_processes();
  what_a_raise_brings();
  RESULT();
}
