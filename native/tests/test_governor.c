// The governor's rules, on a GPU that is arithmetic: shares, ceilings, gaps, short work beside long.

#include "governor.h"

#include "check.h"
#include "governor_scene.h"

static const model_program_t burn = {.launch_ns = 20e3, .host_ns = 4e3};
static const model_program_t short_ones = {.launch_ns = 5e3, .host_ns = 4e3};
static const model_program_t milliseconds = {.launch_ns = 1e6, .host_ns = 4e3};
static const model_program_t waited_for = {.launch_ns = 1e6, .host_ns = 4e3, .wait_every = 1};
static const model_program_t gpt = {.launch_ns = 60e3, .host_ns = 30e3, .wait_every = 900};
static const model_program_t resnet = {.launch_ns = 40e3, .host_ns = 64e3};
static const model_program_t mlp = {.launch_ns = 5e3, .host_ns = 18e3, .wait_every = 180};
static const model_program_t cell = {.launch_ns = 20e3, .host_ns = 4e3, .wait_every = 1, .sleep_ns = 5e6};

static void alone(void)
{
  scene_t scene = {.count = 0};
  add(&scene, burn, 1000000, 1000000);
  const scene_t native = both("burn alone", &scene);
  CHECK("alone, a program has what it has without us", is_near(scene.total, native.total, 0.001));
  CHECK("and nobody steers it", !scene.runners[0].is_governed);
}

static void always_busy(void)
{
  scene_t two = {.count = 0}, four = {.count = 0}, three_to_one = {.count = 0}, three = {.count = 0};
  add(&two, burn, 500000, 1000000);
  add(&two, burn, 500000, 1000000);
  both("2 burn", &two);
  CHECK("two that are always busy lose little to switching", two.total > 0.97);
  CHECK("and have half each", is_near(two.part[0] / two.total, 0.5, 0.01));
  for (int i = 0; i < 4; i++) {
    add(&four, burn, 250000, 1000000);
  }
  both("4 burn", &four);
  CHECK("four that are always busy lose little to switching", four.total > 0.97);
  for (int i = 0; i < 4; i++) {
    CHECK("and have a quarter each", is_near(four.part[i] / four.total, 0.25, 0.01));
  }
  add(&three_to_one, burn, 750000, 1000000);
  add(&three_to_one, burn, 250000, 1000000);
  both("burn 3:1", &three_to_one);
  CHECK("weights are kept", is_near(three_to_one.part[0] / three_to_one.total, 0.75, 0.01));
  add(&three, burn, 142857, 1000000);
  add(&three, burn, 285714, 1000000);
  add(&three, burn, 571429, 1000000);
  both("burn 1:2:4", &three);
  CHECK("weights of three are kept",
        is_near(three.part[0] / three.total, 1 / 7.0, 0.01) && is_near(three.part[2] / three.total, 4 / 7.0, 0.01));
}

// The driver gives each context a turn, and a tenant with four processes has four.
static void many_processes(void)
{
  static const struct {
    const char            *name;
    const model_program_t *program;
    double                 stall_ns;
  } rows[] = {
      {"4:1 processes, 5 us", &short_ones, 0},       {"4:1 processes, 20 us", &burn, 0},
      {"  on a busy machine", &burn, 2e6},           {"4:1 processes, 1 ms", &milliseconds, 0},
      {"  on a busy machine", &milliseconds, 1e6},   {"  on a very busy machine", &milliseconds, 4e6},
      {"4:1 processes, 1 ms, wait", &waited_for, 0},
  };
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    scene_t scene = {.stall_ns = rows[row].stall_ns};
    add(&scene, *rows[row].program, 500000, 1000000);
    for (int i = 0; i < 3; i++) {
      add_process(&scene, *rows[row].program);
    }
    add(&scene, *rows[row].program, 500000, 1000000);
    both(rows[row].name, &scene);
    CHECK("four processes of one have together what one of another has",
          is_near(scene.part[0] / scene.total, 0.5, 0.02));
  }
}

static void short_launches(void)
{
  static const double stalls_ns[] = {0, 1e6, 4e6};
  for (int row = 0; row < 3; row++) {
    scene_t scene = {.stall_ns = stalls_ns[row]};
    add(&scene, short_ones, 800000, 1000000);
    add(&scene, short_ones, 200000, 1000000);
    both(row == 0 ? "5 us, 80:20" : "  on a busy machine", &scene);
    CHECK("short launches have time by their shares", is_near(scene.part[0] / scene.part[1], 4, 0.2));
  }
}

// Catches a bug where one window in which a program happened to have no processor decided for seconds what it
// was entitled to: 80:20 became 18:82.
static void disturbed(void)
{
  scene_t scene = {.kept_off_ns = 12e6};
  add(&scene, burn, 800000, 1000000);
  add(&scene, burn, 200000, 1000000);
  run(&scene, 4);
  show("80:20, a bad window", &scene);
  CHECK("a window that was disturbed does not decide", is_near(scene.part[0] / scene.total, 0.8, 0.02));
}

static void with_gaps(void)
{
  static const struct {
    const char            *name;
    const model_program_t *program;
    int                    count;
  } equal[] = {{"2 gpt", &gpt, 2},       {"4 gpt", &gpt, 4}, {"2 resnet", &resnet, 2},
               {"4 resnet", &resnet, 4}, {"2 mlp", &mlp, 2}, {"4 mlp", &mlp, 4}};
  for (size_t row = 0; row < sizeof equal / sizeof *equal; row++) {
    scene_t scene = {.count = 0};
    for (int i = 0; i < equal[row].count; i++) {
      add(&scene, *equal[row].program, 1000000 / (uint32_t)equal[row].count, 1000000);
    }
    const scene_t native = both(equal[row].name, &scene);
    CHECK("equals with gaps have together what the driver gives them", scene.total > native.total * 0.98);
  }
  scene_t uneven = {.count = 0};
  add(&uneven, resnet, 750000, 1000000);
  add(&uneven, resnet, 250000, 1000000);
  both("resnet 3:1", &uneven);
  CHECK("who is promised more than it can use has all it can use", uneven.part[0] > 0.58);
  CHECK("and the rest is the other's", uneven.part[1] > 0.2);
}

// Catches a bug where programs that leave most of the GPU idle stood at gates: the slowest host's was always the one
// most behind, though nothing kept it from what it could use.
static void slow_hosts(void)
{
  const double slower_ns[] = {0, 5e3, -1e3};
  for (int row = 0; row < 3; row++) {
    scene_t scene = {.count = 0};
    for (int i = 0; i < 4; i++) {
      model_program_t program = mlp;
      program.launch_ns = 4e3;
      program.host_ns = (row == 2 ? 24e3 : 18e3) + slower_ns[row] * i;
      add(&scene, program, 250000, 1000000);
    }
    const scene_t native = both("4 mlp, slow hosts", &scene);
    CHECK("whom its host keeps from the GPU holds nobody up", scene.total > native.total * 0.995);
  }
}

static void mixed(void)
{
  scene_t scene = {.count = 0};
  add(&scene, burn, 333333, 1000000);
  add(&scene, resnet, 333333, 1000000);
  add(&scene, mlp, 333333, 1000000);
  both("burn + resnet + mlp", &scene);
  CHECK("who wants less than its share has it", scene.part[2] > 0.22);
  scene_t uneven = {.count = 0};
  add(&uneven, gpt, 750000, 1000000);
  add(&uneven, gpt, 250000, 1000000);
  both("gpt 3:1", &uneven);
}

static void ceilings(void)
{
  static const double   launches_ns[] = {20e3, 3.6e6, 100e6};
  static const uint32_t ceilings_ppm[] = {100000, 250000, 500000};
  for (int row = 0; row < 9; row++) {
    scene_t         scene = {.count = 0};
    model_program_t program = burn;
    program.launch_ns = launches_ns[row / 3];
    add(&scene, program, ceilings_ppm[row % 3], ceilings_ppm[row % 3]);
    run(&scene, 10);
    show("ceiling", &scene);
    CHECK("a ceiling is kept, whatever the launches' length",
          is_near(scene.part[0], ceilings_ppm[row % 3] / 1e6, row < 6 ? 0.003 : 0.012));
  }
}

// Catches a bug where what an idle time had saved came on top of a launch that is longer than all of it.
static void ahead_of_a_ceiling(void)
{
  const uint64_t   launch_ns = 100000000, look_ns = 1000000;
  jvgpu_governor_t governor;
  jvgpu_runner_t   runner = {.weight_ppm = 100000, .ceiling_ppm = 100000, .priority = JVGPU_PRIORITY_NORMAL};
  double           ahead_ns = 0, most_ns = 0;
  uint64_t         busy_until_ns = 0;
  int              launches = 0;
  jvgpu_governor_start(&governor);
  for (uint64_t now_ns = look_ns; now_ns < 10000 * look_ns; now_ns += look_ns) {
    const bool goes = now_ns > 500 * look_ns && now_ns >= busy_until_ns && runner.is_open;
    launches += goes;
    busy_until_ns = goes ? now_ns + launch_ns : busy_until_ns;
    runner.used_ns = goes ? launch_ns : 0;
    runner.flight_ns = now_ns < busy_until_ns ? launch_ns : 0;
    runner.blocked = now_ns > 500 * look_ns && !goes && now_ns >= busy_until_ns;
    runner.at_work = now_ns > 500 * look_ns;
    ahead_ns += launches == 0 ? 0 : (goes ? (double)launch_ns : 0) - 0.1 * (double)look_ns;
    most_ns = ahead_ns > most_ns ? ahead_ns : most_ns;
    jvgpu_governor_look(&governor, &runner, 1, now_ns);
  }
  CHECK("a ceiling of a tenth lets ten launches of a tenth of a second go in ten seconds", launches >= 9);
  CHECK("and is never passed by more than one of them", most_ns < (double)launch_ns * 1.01);
}

static void short_work(void)
{
  for (int neighbours = 1; neighbours <= 3; neighbours += 2) {
    scene_t scene = {.count = 0};
    add(&scene, cell, 250000, 1000000);
    for (int i = 0; i < neighbours; i++) {
      add(&scene, burn, 250000, 1000000);
    }
    const scene_t          native = both("cell + burns", &scene);
    const model_program_t *it = &scene.programs[0];
    CHECK("a short cell waits a turn, however many others are busy", it->sum_ns / it->batches < 2.5e6);
    CHECK("and never as long as their windows", it->longest_ns < 6e6);
    (void)native;
  }
}

static void pretending(void)
{
  scene_t scene = {.count = 0};
  add(&scene, burn, 500000, 1000000);
  add(&scene, burn, 500000, 1000000);
  scene.programs[1].launch_ns = 0;
  scene.programs[1].host_ns = 1e15;
  scene.pretends = true;
  run(&scene, 4);
  show("burn + a liar", &scene);
  CHECK("who says that it waits and launches nothing holds nobody up", scene.part[0] > 0.95);
}

// Catches a bug where a page that says that ten seconds are under way closed all gates for twenty.
static void pretending_much(void)
{
  scene_t scene = {.count = 0};
  add(&scene, burn, 333333, 1000000);
  add(&scene, burn, 333333, 1000000);
  add(&scene, burn, 333333, 1000000);
  scene.programs[2].launch_ns = 0;
  scene.programs[2].host_ns = 1e15;
  scene.claims_ns = 10000000000u;
  run(&scene, 10);
  show("2 burn + one that claims 10 s", &scene);
  CHECK("whatever a page says is under way, the others have most of the GPU", scene.part[0] + scene.part[1] > 0.8);
  CHECK("and nobody's gate is closed for long", scene.part[0] > 0.3 && scene.part[1] > 0.3);
}

// Whose weights leave something: what is left goes to the highest priority first.
static void priorities(void)
{
  scene_t scene = {.count = 0};
  add(&scene, burn, 250000, 1000000);
  add(&scene, burn, 250000, 1000000);
  add(&scene, burn, 250000, 1000000);
  scene.runners[0].priority = JVGPU_PRIORITY_HIGH;
  scene.runners[1].priority = JVGPU_PRIORITY_NORMAL;
  scene.runners[2].priority = JVGPU_PRIORITY_LOW;
  run(&scene, 4);
  show("high, normal, low", &scene);
  CHECK("what nobody was promised goes to the highest priority", is_near(scene.part[0], 0.5, 0.02));
  CHECK("and takes nothing off what the others were", scene.part[1] > 0.24 && scene.part[2] > 0.24);
}

static void hard_limits(void)
{
  scene_t scene = {.count = 0};
  for (int i = 0; i < 4; i++) {
    add(&scene, burn, 250000, 250000);
  }
  run(&scene, 4);
  show("4 burn, ceilings 1/4", &scene);
  for (int i = 0; i < 4; i++) {
    CHECK("four hard quarters are a quarter each", scene.part[i] > 0.235 && scene.part[i] < 0.253);
  }
}

// Two claims that both have two devices are not held up on one for the other.
static void gangs(void)
{
  scene_t scene = {.count = 0};
  add(&scene, burn, 500000, 1000000);
  add(&scene, burn, 500000, 1000000);
  scene.runners[0].is_gang = scene.runners[1].is_gang = true;
  run(&scene, 2);
  show("2 gangs", &scene);
  CHECK("a gang's gates are open", scene.runners[0].is_open && scene.runners[1].is_open);
  CHECK("and it is given no windows", scene.runners[0].windows == 0);
}

static void comes_and_goes(void)
{
  // A tenth of a second of work, a fifth of a second of nothing.
  model_program_t spells = {.launch_ns = 20e3, .host_ns = 4e3, .wait_every = 2500, .sleep_ns = 200e6};
  scene_t         scene = {.count = 0};
  add(&scene, spells, 500000, 1000000);
  add(&scene, burn, 500000, 1000000);
  both("spells + burn", &scene);
  const model_program_t *it = &scene.programs[0];
  // 50 ms of work beside one that is always busy: at half the GPU 100 ms, and what is lost to coming back.
  CHECK("who comes back has its share at once", it->sum_ns / it->batches < 130e6);
  CHECK("and what it leaves is the other's", scene.part[1] > 0.78);
}

// A waking costs more than a look: it comes when something can have to be decided.
// What is taken back counts as if it had never been charged: for whose turn it is, and under a ceiling.
static void taken_back(void)
{
  jvgpu_governor_t governor;
  jvgpu_runner_t   runners[2] = {{.weight_ppm = 500000, .ceiling_ppm = 500000},
                                 {.weight_ppm = 500000, .ceiling_ppm = 500000}};
  jvgpu_governor_start(&governor);
  for (uint64_t look = 1; look <= 10; look++) {
    const bool is_first = look == 1;
    for (int i = 0; i < 2; i++) {
      runners[i].blocked = 1;
      runners[i].used_ns = 500000;
    }
    runners[1].used_ns += is_first ? 10000000 : 0;
    runners[1].back_ns = look == 5 ? 10000000 : 0;
    jvgpu_governor_look(&governor, runners, 2, look * 2000000);
    CHECK("who was charged too much stands at its ceiling until it is taken back", runners[1].is_capped == (look < 5));
  }
  CHECK("then it has what the other has",
        runners[1].budget_ns > runners[0].budget_ns - 1 && runners[1].budget_ns < runners[0].budget_ns + 1);
}

static void looks(void)
{
  scene_t single = {.count = 0}, busy = {.count = 0}, capped = {.count = 0}, interleaving = {.count = 0};
  add(&single, burn, 1000000, 1000000);
  run(&single, 4);
  CHECK("who is alone is looked at fifty times a second", single.looks_per_second < 60);
  for (int i = 0; i < 8; i++) {
    add(&busy, burn, 125000, 1000000);
  }
  run(&busy, 4);
  CHECK("eight in windows are looked at some ten times in each", busy.looks_per_second < 1100);
  add(&capped, burn, 100000, 100000);
  run(&capped, 4);
  CHECK("a ceiling is looked at when it is reached and when it lets go", capped.looks_per_second < 300);
  add(&interleaving, resnet, 500000, 1000000);
  add(&interleaving, resnet, 500000, 1000000);
  run(&interleaving, 4);
  CHECK("two with gaps are looked at every half millisecond at most", interleaving.looks_per_second < 2100);
  printf("looks a second: alone %.0f, 8 burn %.0f, ceiling of a tenth %.0f, 2 resnet %.0f\n", single.looks_per_second,
         busy.looks_per_second, capped.looks_per_second, interleaving.looks_per_second);
}

int main(void)
{
  alone();
  always_busy();
  many_processes();
  short_launches();
  disturbed();
  with_gaps();
  slow_hosts();
  mixed();
  ceilings();
  ahead_of_a_ceiling();
  short_work();
  pretending();
  pretending_much();
  priorities();
  hard_limits();
  gangs();
  comes_and_goes();
  taken_back();
  looks();
  RESULT();
}
