#include "gang.h"

#include <stddef.h>

#include "parts.h"

// Work that has not moved for itself twice and this is not slow, it waits for another rank.
#define SPINS_NS (MS / 5)
// Where a gang spins at closed gates for so long in spite of letting go, the ranks that lag have theirs opened.
#define MOST_SPUN_NS (20 * MS)
// While a gang drains, who is let go has no more than one launch under way.
#define ONE_LAUNCH_NS 1u
// Who was let go is to be stopped before its next launch.
#define DRAIN_LOOK_NS (MS / 10)
// Ranks that wait for each other drain late now and then.
#define MOST_OVERRUNS 8u
// Who gets nowhere with open gates for so long (gangs whose turns do not meet do for a tenth of it) is not held back for
// twice that, and may have as much under way as natively. No longer: it may have been its other rank that did not come.
#define NOWHERE_NS (1000 * MS)
#define FREE_NS (2000 * MS)
#define FREE_BOUND_NS (200 * MS)
// Where some work beside others, what one leaves another may have.
#define BESIDE_LOOK_NS (1 * MS)
// Who has devices that nobody else could use gets no further ahead of the neediest than two windows and this.
#define MOST_AHEAD_NS (50.0 * MS)
#define WINDOW_NS (10.0 * MS)
// Two gangs that interleave on the same devices seem to lose a tenth, to the driver's switching. Of what they seem to use,
// part is one rank's waiting for the other to have its turn: all of it but a half, were it nothing but collectives. Windows
// that are filled as far as this are better than not to know.
#define MOST_MIXED 0.8

static uint64_t least(uint64_t one, uint64_t other)
{
  return one < other ? one : other;
}

static double part_of(const jvgpu_cohort_t *cohort, const jvgpu_member_t *member)
{
  return (double)__builtin_popcountll(member->devices) / cohort->devices;
}

static bool is_gang(const jvgpu_member_t *member)
{
  return (member->devices & (member->devices - 1)) != 0;
}

static uint32_t scaled_ppm(uint32_t ppm, double part)
{
  return ppm * part < 1.0 ? 1 : (uint32_t)(ppm * part);
}

// --- taking in ------------------------------------------------------------------------------------------------

// Of what drains before a window all counts that stands in its way, and nothing else.
static uint64_t flight_for(const jvgpu_cohort_t *cohort, uint32_t index, uint64_t flight_ns)
{
  const int    next = cohort->governor.next;
  const double part = part_of(cohort, &cohort->members[index]);
  if (next < 0 || next == (int)index) {
    return (uint64_t)((double)flight_ns * part);
  }
  return (cohort->members[index].devices & cohort->members[next].devices) != 0 ? flight_ns : 0;
}

// What all ranks of a claim did, as one runner: of the cohort's time, a device is its part.
static void sum_up(jvgpu_cohort_t *cohort, uint32_t index, uint64_t now_ns)
{
  const jvgpu_member_t *member = &cohort->members[index];
  jvgpu_runner_t       *runner = &cohort->runners[index];
  jvgpu_rank_t         *ranks = &cohort->ranks[(size_t)index * cohort->devices];
  const double          part = part_of(cohort, member);
  uint64_t              used_ns = 0, flight_ns = 0;
  bool                  has_changed = false;
  bool                  has_moved = false;
  runner->weight_ppm = scaled_ppm(member->weight_ppm, part);
  runner->ceiling_ppm = member->ceiling_ppm < 1000000 ? scaled_ppm(member->ceiling_ppm, part) : 1000000;
  runner->blocked = 0;
  runner->at_work = 0;
  for (uint32_t i = 0; i < cohort->devices; i++) {
    jvgpu_rank_t *rank = &ranks[i];
    used_ns += rank->used_ns;
    flight_ns = rank->flight_ns > flight_ns ? rank->flight_ns : flight_ns;
    runner->at_work = rank->at_work > runner->at_work ? rank->at_work : runner->at_work;
    runner->blocked += rank->blocked;
    if (rank->used_ns != 0 || rank->flight_ns != rank->last_flight_ns) {
      rank->changed_ns = now_ns;
      has_moved = true;
    }
    rank->last_flight_ns = rank->flight_ns;
    rank->used_ns = 0;
  }
  runner->used_ns = used_ns / cohort->devices;
  runner->flight_ns = flight_for(cohort, index, flight_ns);
  // Whether it moves is the ranks' to say: that it is counted otherwise now is no change.
  runner->last_flight_ns = has_changed ? runner->flight_ns + 1 : runner->flight_ns;
  // What counts for another part than at the last look has not moved for that.
  runner->last_flight_ns = has_moved ? runner->last_flight_ns : runner->flight_ns;
  // It is gated, but on all its devices at once.
  runner->is_gang = now_ns < member->free_until_ns;
}

// --- deciding -----------------------------------------------------------------------------------------------------

// Two gangs that fill the same devices: each gets on only while it has its turn on all of them.
static bool are_gangs_crossed(const jvgpu_cohort_t *cohort)
{
  for (uint32_t i = 0; i < cohort->count; i++) {
    for (uint32_t j = 0; j < i; j++) {
      const uint64_t common = cohort->members[i].devices & cohort->members[j].devices;
      if ((common & (common - 1)) != 0 && may_have_windows(&cohort->runners[i]) &&
          may_have_windows(&cohort->runners[j])) {
        return true;
      }
    }
  }
  return false;
}

// returns: how many were put into `order`, the neediest first.
static uint32_t by_need(const jvgpu_cohort_t *cohort, uint16_t *order)
{
  for (uint32_t i = 0; i < cohort->count; i++) {
    uint32_t place = i;
    for (; place > 0 && cohort->runners[order[place - 1]].virtual_ns > cohort->runners[i].virtual_ns; place--) {
      order[place] = order[place - 1];
    }
    order[place] = (uint16_t)i;
  }
  return cohort->count;
}

static double lag_of(const jvgpu_cohort_t *cohort, uint64_t now_ns)
{
  uint32_t active = 0;
  for (uint32_t i = 0; i < cohort->count; i++) {
    active += is_active(&cohort->runners[i], now_ns);
  }
  return LAG_NS * active;
}

// Whether one that shares a device is further behind than the lag; not who itself stands back for a third.
static bool has_to_stand_back(const jvgpu_cohort_t *cohort, uint32_t index, double lag_ns)
{
  for (uint32_t i = 0; i < cohort->count; i++) {
    const bool is_neighbour = i != index && (cohort->members[i].devices & cohort->members[index].devices) != 0;
    if (is_neighbour && is_eligible(&cohort->runners[i]) && !cohort->members[i].stands_back &&
        cohort->runners[index].virtual_ns - cohort->runners[i].virtual_ns > lag_ns) {
      return true;
    }
  }
  return false;
}

static bool is_kept_out(const jvgpu_cohort_t *cohort, uint32_t index)
{
  const jvgpu_governor_t *governor = &cohort->governor;
  return (governor->holder >= 0 || governor->next >= 0) && governor->holder != (int)index &&
         jvgpu_windows_keep_out(governor, &cohort->runners[index]);
}

// Who may work beside a window, or what drains for one: whoever has no device in common with it, as long as
// the window lasts.
static void choose_beside(jvgpu_cohort_t *cohort, const uint16_t *order)
{
  const jvgpu_governor_t *governor = &cohort->governor;
  const bool              is_new = governor->holder != cohort->holder || governor->window_ns != cohort->window_ns;
  uint64_t                taken = governor->holder >= 0 ? cohort->members[governor->holder].devices : 0;
  taken |= governor->next >= 0 ? cohort->members[governor->next].devices : 0;
  for (uint32_t i = 0; i < cohort->count; i++) {
    jvgpu_member_t *member = &cohort->members[i];
    // A window's next holder goes on where it is already.
    const bool is_free = governor->next == (int)i || (member->devices & taken) == 0;
    const bool goes_on = governor->next >= 0 || !is_new;
    member->is_beside =
        member->is_beside && goes_on && is_free && is_kept_out(cohort, i) && !cohort->runners[i].is_capped;
    taken |= member->is_beside ? member->devices : 0;
  }
  for (uint32_t place = 0; governor->holder >= 0 && place < cohort->count; place++) {
    const uint32_t  i = order[place];
    jvgpu_member_t *member = &cohort->members[i];
    if (!member->is_beside && (member->devices & taken) == 0 && is_kept_out(cohort, i) &&
        is_eligible(&cohort->runners[i])) {
      member->is_beside = true;
      cohort->runners[i].windows += 1;
      taken |= member->devices;
    }
  }
  cohort->holder = governor->holder;
  cohort->window_ns = governor->window_ns;
}

// The governor holds back for whoever is neediest in the whole cohort: let go on who is in nobody's way.
// returns: nanoseconds until more can have to be decided here.
static uint64_t open_more(jvgpu_cohort_t *cohort, uint64_t now_ns)
{
  uint64_t       due_ns = UINT64_MAX;
  uint16_t       order[JVGPU_MOST_MEMBERS];
  const uint32_t count = by_need(cohort, order);
  const double   lag_ns = lag_of(cohort, now_ns);
  const double   behind_ns = count != 0 ? cohort->runners[order[0]].virtual_ns : 0.0;
  choose_beside(cohort, order);
  for (uint32_t i = 0; i < count; i++) {
    cohort->members[i].stands_back = false;
  }
  for (uint32_t place = 0; place < count; place++) {
    const uint32_t  i = order[place];
    jvgpu_runner_t *runner = &cohort->runners[i];
    jvgpu_member_t *member = &cohort->members[i];
    if (runner->is_open || runner->is_capped) {
      continue;
    }
    if (is_kept_out(cohort, i)) {
      runner->is_open = member->is_beside;
    } else {
      member->stands_back = has_to_stand_back(cohort, i, lag_ns);
      runner->is_open = !member->stands_back;
    }
    due_ns = runner->is_open ? BESIDE_LOOK_NS : due_ns;
    const double most_ns = behind_ns + 2 * WINDOW_NS / runner->entitled + MOST_AHEAD_NS;
    if (runner->is_open && runner->virtual_ns > most_ns) {
      runner->virtual_ns = most_ns;
    }
  }
  return due_ns;
}

// --- ranks that wait for each other at closed gates -------------------------------------------------------------------

static bool spins(const jvgpu_rank_t *rank, uint64_t now_ns)
{
  return rank->flight_ns != 0 && now_ns - rank->changed_ns > 2 * rank->flight_ns + SPINS_NS;
}

// Who has as much under way as the others waits for the driver's turns, not for a launch.
static bool lags(const jvgpu_rank_t *rank, uint64_t most_ns)
{
  return rank->blocked != 0 && rank->flight_ns < most_ns;
}

// returns: whether any rank was let go.
static bool let_go(const jvgpu_cohort_t *cohort, jvgpu_member_t *member, jvgpu_rank_t *ranks, uint64_t bound_ns,
                   uint64_t now_ns)
{
  uint64_t most_ns = 0;
  bool     has_spinner = false, has_laggard = false, has_any = false;
  for (uint32_t i = 0; i < cohort->devices; i++) {
    most_ns = ranks[i].flight_ns > most_ns ? ranks[i].flight_ns : most_ns;
    has_spinner = has_spinner || spins(&ranks[i], now_ns);
  }
  for (uint32_t i = 0; i < cohort->devices; i++) {
    has_laggard = has_laggard || lags(&ranks[i], most_ns);
  }
  const bool is_at_it = has_spinner && has_laggard;
  member->spun_since_ns = !is_at_it ? 0 : member->spun_since_ns != 0 ? member->spun_since_ns : now_ns;
  const bool is_too_long = is_at_it && now_ns - member->spun_since_ns > MOST_SPUN_NS;
  for (uint32_t i = 0; i < cohort->devices; i++) {
    jvgpu_rank_t *rank = &ranks[i];
    rank->is_open = is_at_it && lags(rank, most_ns) && (rank->flight_ns == 0 || is_too_long);
    rank->bound_ns = is_too_long ? bound_ns : ONE_LAUNCH_NS;
    rank->least = 1;
    has_any = has_any || rank->is_open;
  }
  return has_any;
}

// returns: nanoseconds until a rank can be found to spin.
static uint64_t until_it_spins(const jvgpu_cohort_t *cohort, const jvgpu_rank_t *ranks, uint64_t now_ns)
{
  uint64_t soonest_ns = UINT64_MAX;
  for (uint32_t i = 0; i < cohort->devices; i++) {
    const uint64_t at_ns = ranks[i].changed_ns + 2 * ranks[i].flight_ns + SPINS_NS;
    const uint64_t left_ns = at_ns > now_ns + DRAIN_LOOK_NS ? at_ns - now_ns : DRAIN_LOOK_NS;
    soonest_ns = ranks[i].flight_ns != 0 && left_ns < soonest_ns ? left_ns : soonest_ns;
  }
  return soonest_ns;
}

// With open gates.
static uint64_t bound_of(const jvgpu_runner_t *runner, jvgpu_member_t *member, uint64_t now_ns)
{
  if (is_gang(member) && runner->is_stuck && runner->blocked != 0 && now_ns - runner->served_ns > NOWHERE_NS) {
    member->free_until_ns = now_ns + FREE_NS;
  }
  return now_ns < member->free_until_ns ? FREE_BOUND_NS : runner->bound_ns;
}

static void tell(jvgpu_cohort_t *cohort, uint32_t index, uint64_t now_ns, uint64_t *due_ns)
{
  const jvgpu_runner_t *runner = &cohort->runners[index];
  jvgpu_member_t       *member = &cohort->members[index];
  jvgpu_rank_t         *ranks = &cohort->ranks[(size_t)index * cohort->devices];
  const double          part = part_of(cohort, member);
  member->use = runner->use / part;
  member->entitled = runner->entitled / part < 1.0 ? runner->entitled / part : 1.0;
  if (!runner->is_open) {
    const bool     has_any = let_go(cohort, member, ranks, runner->bound_ns, now_ns);
    const uint64_t pause_ns = !is_gang(member) ? UINT64_MAX
                              : has_any        ? DRAIN_LOOK_NS
                                               : until_it_spins(cohort, ranks, now_ns);
    *due_ns = least(*due_ns, pause_ns);
    return;
  }
  const uint64_t bound_ns = bound_of(runner, member, now_ns);
  member->spun_since_ns = 0;
  for (uint32_t i = 0; i < cohort->devices; i++) {
    ranks[i].is_open = true;
    ranks[i].bound_ns = bound_ns;
    ranks[i].least = runner->least;
  }
}

void jvgpu_cohort_start(jvgpu_cohort_t *cohort)
{
  jvgpu_governor_start(&cohort->governor);
  cohort->governor.most_overruns = MOST_OVERRUNS;
  cohort->governor.is_trial_vague = true;
  cohort->holder = -1;
}

uint64_t jvgpu_cohort_look(jvgpu_cohort_t *cohort, uint64_t now_ns)
{
  for (uint32_t i = 0; i < cohort->count; i++) {
    sum_up(cohort, i, now_ns);
  }
  uint64_t due_ns = jvgpu_governor_look(&cohort->governor, cohort->runners, cohort->count, now_ns);
  if (are_gangs_crossed(cohort)) {
    cohort->governor.mixed_total = MOST_MIXED;
    cohort->governor.mixed_ns = now_ns;
    cohort->governor.mixed_every_ns = MIXED_EVERY_NS;
  }
  due_ns = least(due_ns, open_more(cohort, now_ns));
  for (uint32_t i = 0; i < cohort->count; i++) {
    tell(cohort, i, now_ns, &due_ns);
  }
  return due_ns;
}
