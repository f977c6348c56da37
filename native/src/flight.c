#include "flight.h"

// A launch longer than the bound would leave the GPU idle from its end to the host's next look, were no
// other under way; but not where that would be this long.
#define ALWAYS_MOST_NS UINT64_C(10000000)

// A place with less than its part of a sixteenth of the bound needs no fence.
#define UNFENCED_PART 16u

static void set_unfenced(jvgpu_flight_t *flight, uint32_t place, uint64_t amount_ns, uint32_t launches)
{
  flight->places += (launches != 0) - (uint32_t)(flight->unfenced_launches[place] != 0);
  flight->unfenced_ns[place] = amount_ns;
  flight->unfenced_launches[place] = launches;
}

bool jvgpu_flight_launch(jvgpu_flight_t *flight, uint32_t place, uint64_t amount_ns, uint64_t bound_ns)
{
  flight->under_way_ns += amount_ns;
  flight->launches += 1;
  set_unfenced(flight, place, flight->unfenced_ns[place] + amount_ns, flight->unfenced_launches[place] + 1);
  const uint64_t parts = (uint64_t)UNFENCED_PART * flight->places;
  return flight->unfenced_ns[place] * parts >= bound_ns ||
         (flight->most != 0 && flight->unfenced_launches[place] * parts >= flight->most);
}

static int free_fence(const jvgpu_flight_t *flight)
{
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    if (flight->fences[i].is_set == 0) {
      return i;
    }
  }
  return -1;
}

static void join(jvgpu_fence_t *fence, jvgpu_fence_t *later)
{
  later->amount_ns += fence->amount_ns;
  later->launches += fence->launches;
  fence->is_set = 0;
}

// All are set: two of one place become the later of them, the two that say least of all such. returns: which is free now, -1
// where each place has one.
static int join_two(jvgpu_flight_t *flight)
{
  jvgpu_fence_t *fences = flight->fences;
  uint64_t       least_ns = UINT64_MAX;
  int            earlier = -1;
  int            later = -1;
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    for (int j = i + 1; j < JVGPU_MOST_FENCES; j++) {
      if (fences[i].place == fences[j].place && fences[i].amount_ns + fences[j].amount_ns < least_ns) {
        const bool is_first = (int32_t)(fences[j].look - fences[i].look) >= 0;
        least_ns = fences[i].amount_ns + fences[j].amount_ns;
        earlier = is_first ? i : j;
        later = is_first ? j : i;
      }
    }
  }
  if (earlier >= 0) {
    join(&fences[earlier], &fences[later]);
  }
  return earlier;
}

// returns: the only fence of this place, to be set once more behind all.
static int only_of(const jvgpu_flight_t *flight, uint32_t place)
{
  int only = 0;
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    only = flight->fences[i].place == place ? i : only;
  }
  return only;
}

_Static_assert(JVGPU_MOST_FENCES >= JVGPU_STREAM_PLACES, "without two fences at one place each place has one");

int jvgpu_flight_fence(jvgpu_flight_t *flight, uint32_t place)
{
  int           index = free_fence(flight);
  jvgpu_fence_t moved = {.is_set = 0};
  if (index < 0) {
    index = join_two(flight);
  }
  if (index < 0) {
    index = only_of(flight, place);
    moved = flight->fences[index];
  }
  flight->fences[index] = (jvgpu_fence_t){.amount_ns = moved.amount_ns + flight->unfenced_ns[place],
                                          .launches = moved.launches + flight->unfenced_launches[place],
                                          .place = place,
                                          .is_set = 1,
                                          .look = flight->looks};
  set_unfenced(flight, place, 0, 0);
  return index;
}

void jvgpu_flight_look(jvgpu_flight_t *flight)
{
  flight->looks += 1;
}

bool jvgpu_flight_is_busy(const jvgpu_flight_t *flight)
{
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    if (flight->fences[i].is_set != 0 && flight->looks - flight->fences[i].look >= 2) {
      return true;
    }
  }
  return false;
}

void jvgpu_flight_unfence(jvgpu_flight_t *flight, int index)
{
  jvgpu_fence_t *fence = &flight->fences[index];
  fence->is_set = 0;
  set_unfenced(flight, fence->place, flight->unfenced_ns[fence->place] + fence->amount_ns,
               flight->unfenced_launches[fence->place] + fence->launches);
}

void jvgpu_flight_passed(jvgpu_flight_t *flight, int index)
{
  jvgpu_fence_t *fence = &flight->fences[index];
  flight->under_way_ns -= fence->amount_ns;
  flight->launches -= fence->launches;
  fence->is_set = 0;
}

static void scale(uint64_t *amount_ns, double times)
{
  *amount_ns = (uint64_t)((double)*amount_ns * times);
}

void jvgpu_flight_scale(jvgpu_flight_t *flight, double times)
{
  // Summed up anew: what is rounded here would be missed at its end.
  flight->under_way_ns = 0;
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    scale(&flight->fences[i].amount_ns, times);
    flight->under_way_ns += flight->fences[i].is_set != 0 ? flight->fences[i].amount_ns : 0;
  }
  for (int i = 0; i < JVGPU_STREAM_PLACES; i++) {
    scale(&flight->unfenced_ns[i], times);
    flight->under_way_ns += flight->unfenced_ns[i];
  }
}

void jvgpu_flight_landed(jvgpu_flight_t *flight, uint32_t place)
{
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    if (flight->fences[i].is_set != 0 && flight->fences[i].place == place) {
      jvgpu_flight_passed(flight, i);
    }
  }
  flight->under_way_ns -= flight->unfenced_ns[place];
  flight->launches -= flight->unfenced_launches[place];
  set_unfenced(flight, place, 0, 0);
}

void jvgpu_flight_clear(jvgpu_flight_t *flight)
{
  const jvgpu_flight_t kept = {.looks = flight->looks, .most = flight->most};
  *flight = kept;
}

bool jvgpu_flight_has_room(const jvgpu_flight_t *flight, uint64_t bound_ns, uint32_t least)
{
  if (flight->most != 0 && flight->launches >= flight->most) {
    return false;
  }
  return flight->under_way_ns < bound_ns || (flight->launches < least && flight->under_way_ns < ALWAYS_MOST_NS);
}

static bool has_fence(const jvgpu_flight_t *flight)
{
  for (int i = 0; i < JVGPU_MOST_FENCES; i++) {
    if (flight->fences[i].is_set != 0) {
      return true;
    }
  }
  return false;
}

bool jvgpu_flight_is_unseen(const jvgpu_flight_t *flight)
{
  return flight->launches != 0 && !has_fence(flight);
}

bool jvgpu_flight_is_over(const jvgpu_flight_t *flight, uint64_t bound_ns)
{
  return !has_fence(flight) && flight->under_way_ns * UNFENCED_PART <= bound_ns;
}
