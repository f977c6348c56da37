// Who has the device for itself, and windows for who does not know what its launches take; on a GPU that is arithmetic.

#include "check.h"
#include "governor.h"
#include "governor_scene.h"

static const model_program_t burn = {.launch_ns = 20e3, .host_ns = 4e3};
static const model_program_t milliseconds = {.launch_ns = 1e6, .host_ns = 4e3};
static const model_program_t resnet = {.launch_ns = 40e3, .host_ns = 64e3};
static const model_program_t cell = {.launch_ns = 20e3, .host_ns = 4e3, .wait_every = 1, .sleep_ns = 5e6};

static scene_t scene_of(model_program_t first, model_program_t second)
{
  scene_t scene = {.count = 0};
  add(&scene, first, 500000, 1000000);
  add(&scene, second, 500000, 1000000);
  return scene;
}

static void windows_are_said_to_be_clear(void)
{
  scene_t short_ones = scene_of(burn, burn), long_ones = scene_of(milliseconds, milliseconds);
  run(&short_ones, 4);
  CHECK("in windows it is said who has the device for itself", short_ones.clear_looks > 100);
  CHECK("and never while another has something under way", short_ones.unclear_looks == 0);
  run(&long_ones, 4);
  CHECK("nor where launches are long", long_ones.clear_looks > 100 && long_ones.unclear_looks == 0);
}

static void nobody_has_it_beside_others(void)
{
  scene_t with_gaps = scene_of(resnet, resnet), beside_a_cell = scene_of(burn, burn);
  add(&beside_a_cell, cell, 250000, 1000000);
  run(&with_gaps, 4);
  CHECK("of programs with gaps it is never said wrongly", with_gaps.unclear_looks == 0);
  run(&beside_a_cell, 4);
  CHECK("where short work comes and goes beside windows it is not said", beside_a_cell.unclear_looks == 0);
}

static void who_guesses_gets_a_window(void)
{
  scene_t scene = scene_of(resnet, resnet);
  scene.runners[1].is_guess = true;
  run(&scene, 4);
  CHECK("it has the device for itself, though nobody has windows there", scene.runners[1].measured_ns != 0);
  CHECK("with nobody else at work", scene.clear_looks > 0 && scene.unclear_looks == 0);
  CHECK("who does not ask has none", scene.runners[0].measured_ns == 0);
}

// What a page says is the tenant's word.
static void who_always_asks_gains_nothing(void)
{
  scene_t scene = scene_of(burn, burn), interleaving = scene_of(resnet, resnet), fair = scene_of(resnet, resnet);
  scene.runners[1].is_guess = true;
  run(&scene, 20);
  CHECK("half is half", is_near(scene.part[0] / scene.total, 0.5, 0.01));
  run(&fair, 20);
  interleaving.runners[1].is_guess = true;
  run(&interleaving, 20);
  CHECK("and beside one with gaps it costs a hundredth", interleaving.part[0] > fair.part[0] * 0.99);
}

int main(void)
{
  windows_are_said_to_be_clear();
  nobody_has_it_beside_others();
  who_guesses_gets_a_window();
  who_always_asks_gains_nothing();
  RESULT();
}
