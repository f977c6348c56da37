"""Where nobody does anything the agent hardly looks; who begins is seen all the same, with all that it did."""

from __future__ import annotations

import asyncio
import itertools
import mmap
import os
import select
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_vgpu.agent.figures import History, Rates, Totals
from jupyter_vgpu.agent.nap import Nap
from jupyter_vgpu.agent.roster import Roster
from jupyter_vgpu.model import Claim, Device, Grant
from jupyter_vgpu.pages import TenantPages
from jupyter_vgpu.steering import Record, Steering

UUID = "GPU-00000000-0000-0000-0000-000000000001"
GIB = 1 << 30
MS = 1_000_000
SECONDS = 120.0
# The governor looks at who rests less than twice a second, and at least every 50 ms at who does not.
RESTS_NS = 300 * MS
# native/include/jvgpu/pages.h
SLOT_AT, SLOT_BYTES = 64, 64 + 16 * 128
GOVERNOR_NS_AT = 40


def write_use(pages: TenantPages, slot: int, launches: int, busy_ns: int) -> None:
    """Write what a process of the tenant did on its first device."""
    with mmap.mmap(pages.usage_fd, 0) as page:
        struct.pack_into("=QQQ", page, SLOT_AT + slot * SLOT_BYTES + 64 + 16, launches, 0, busy_ns)


class Governed:
    """A claim on a device of its own, under a governor, with all that the governor recorded."""

    def __init__(self, ceiling_ppm: int) -> None:
        self.steering = Steering({UUID: 0})
        self.pages = TenantPages(1)
        self.pages.set_device(0, UUID, GIB, 100_000, ceiling_ppm)
        slot = self.pages.take_slot(os.getpid())
        assert slot is not None
        self._slot = slot.index
        self.records: list[Record] = []
        self.steering.record(True)
        self.steering.add(self.pages, 0, UUID, "normal")

    def use(self, launches: int, busy_ns: int) -> None:
        write_use(self.pages, self._slot, launches, busy_ns)

    def until(self, holds: Callable[[list[Record]], Any], what: str) -> None:
        """Wait until what has been recorded so far is so."""
        deadline = time.monotonic() + SECONDS
        while not holds(self.records):
            assert time.monotonic() < deadline, f"{what}; the last records: {self.records[-20:]}"
            time.sleep(0.02)
            self.records += self.steering.take()[0]

    def close(self) -> None:
        self.steering.drop(self.pages)
        self.steering.close()
        self.pages.close()


@pytest.fixture
def governed() -> Iterator[Callable[[int], Governed]]:
    made: list[Governed] = []

    def make(ceiling_ppm: int) -> Governed:
        made.append(Governed(ceiling_ppm))
        return made[-1]

    yield make
    for each in made:
        each.close()


def looks(records: list[Record]) -> list[int]:
    return [record.time_ns for record in records if record.kind == "under way"]


def charged(records: list[Record]) -> int:
    return sum(record.value_ns for record in records if record.kind == "charged")


def rests(records: list[Record]) -> bool:
    times = looks(records)
    return any(later - earlier > RESTS_NS for earlier, later in itertools.pairwise(times))


def test_whoever_begins_on_a_device_at_rest_is_charged_with_all_it_did(governed: Callable[[int], Governed]) -> None:
    tenant = governed(1_000_000)

    for turn in (1, 2):
        tenant.records.clear()
        tenant.until(rests, "the governor rests")
        tenant.records.clear()
        tenant.use(launches=turn, busy_ns=5 * MS * turn)
        tenant.until(lambda records: charged(records) >= 5 * MS, "what it did is seen")

        assert charged(tenant.records) == 5 * MS


def test_it_is_told_when_somebody_begins_where_nobody_did_anything(governed: Callable[[int], Governed]) -> None:
    tenant = governed(1_000_000)
    deadline = time.monotonic() + SECONDS

    for launches in itertools.count(1):
        assert time.monotonic() < deadline, "nothing was told"
        tenant.records.clear()
        # On a very busy machine looks are late too, and nobody begins then where somebody is still at work.
        tenant.until(rests, "the governor rests")
        told_before = len(select.select([tenant.steering.begun_fd], [], [], 0)[0])
        tenant.use(launches, busy_ns=5 * MS * launches)
        tenant.until(lambda records: charged(records) >= 5 * MS, "what it did is seen")
        if select.select([tenant.steering.begun_fd], [], [], 0)[0]:
            break

    assert told_before == 0
    assert os.eventfd_read(tenant.steering.begun_fd) == 1
    assert select.select([tenant.steering.begun_fd], [], [], 0)[0] == []


def test_the_governor_is_alive_while_it_rests(governed: Callable[[int], Governed]) -> None:
    """Tenants take a governor without a sign of life for half a second for lost."""
    tenant = governed(1_000_000)
    tenant.until(rests, "the governor rests")

    def has_given_a_sign_between_looks(records: list[Record]) -> bool:
        with mmap.mmap(tenant.pages.control_fd, 128, prot=mmap.PROT_READ) as page:
            signs.add(struct.unpack_from("=Q", page, GOVERNOR_NS_AT)[0])
        times = looks(records)
        return len([sign for sign in signs if times[0] < sign < times[-1] and sign not in times]) >= 3

    signs: set[int] = set()
    tenant.until(has_given_a_sign_between_looks, "there are signs of life between looks")


def test_a_gate_that_is_closed_opens_although_nobody_does_anything_any_more(
    governed: Callable[[int], Governed],
) -> None:
    """A debt of a quarter of a second at a ceiling of a tenth: longer than it takes to be at rest."""
    tenant = governed(100_000)
    tenant.until(rests, "the governor rests")

    tenant.use(launches=1, busy_ns=250 * MS)
    tenant.until(lambda records: "gate closed" in [each.kind for each in records], "its ceiling is passed")
    tenant.until(lambda records: "gate opened" in [each.kind for each in records], "its debt is over")


# --- what the agent's loop follows


def followed(roster: Roster, now: float) -> bool:
    roster.heartbeat()
    return roster.follow(now)


@pytest.fixture
def roster() -> Iterator[Roster]:
    device = Device(UUID, "Simulated", 0, 80 * GIB, 100, "9.0", True, "1")
    made = Roster({UUID: device}, None, lambda claim_id: None)
    yield made
    made.close(is_for_good=True)


def add(roster: Roster, name: str) -> tuple[Any, int]:
    """Return the tenant of a new claim, and the slot of its one process."""
    claim = Claim(
        claim_id=name,
        tenant=name,
        hub="hub",
        uid=0,
        profile_name="offer",
        backend="intercept",
        grants=(Grant(UUID, GIB, 100_000, 1_000_000),),
        state="bound",
        created_at=time.time() - 1000.0,
        secret_sha256="",
    )
    roster.add(claim)
    process = roster.bound[name].attach(os.getpid(), -1, time.time())
    assert process is not None
    return roster.bound[name], process.slot.index


def at_rest(roster: Roster, since: float) -> float:
    """Follow four times a second, by a clock of our own, until there is nothing to follow; return when that was."""
    for beat in range(40):
        if not followed(roster, since + beat / 4):
            return since + beat / 4
    raise AssertionError("it never rests")


def test_tenants_that_do_nothing_come_to_rest_and_their_rates_are_nothing(roster: Roster) -> None:
    tenant, slot = add(roster, "one")
    followed(roster, 100.0)
    write_use(tenant.pages, slot, 400, 200 * MS)

    assert at_rest(roster, 100.25) > 101.25
    assert tenant.rates(0) == Rates()
    assert tenant.totals(0).launches == 400


def test_rates_after_a_rest_are_those_of_the_last_second(roster: Roster) -> None:
    tenant, slot = add(roster, "one")
    rested = at_rest(roster, 100.0)
    for beat in range(1, 4001):
        assert not followed(roster, rested + beat / 4)

    write_use(tenant.pages, slot, 400, 200 * MS)

    assert followed(roster, rested + 1000.25)
    assert tenant.rates(0).gpu_time_fraction == pytest.approx(0.2 / 1.25)
    assert tenant.rates(0).launches_per_second == pytest.approx(400 / 1.25)


def test_one_that_begins_or_comes_wakes_the_others_up(roster: Roster) -> None:
    tenant, slot = add(roster, "one")
    rested = at_rest(roster, 100.0)

    other, other_slot = add(roster, "other")
    assert followed(roster, rested + 1)
    rested = at_rest(roster, rested + 2)
    write_use(other.pages, other_slot, 1, MS)
    write_use(tenant.pages, slot, 1, MS)
    assert followed(roster, rested + 1)

    assert [list(each.launches_of_processes().values()) for each in (tenant, other)] == [[1], [1]]


def test_who_leaves_or_is_released_while_all_rest_disturbs_nobody(roster: Roster) -> None:
    add(roster, "one")
    other, _ = add(roster, "other")
    rested = at_rest(roster, 100.0)

    other.detach(os.getpid())
    assert followed(roster, rested + 1)
    roster.release("other")
    rested = at_rest(roster, rested + 2)
    roster.release("one")  # its process lives on
    at_rest(roster, rested + 2)

    assert [tenant.claim.claim_id for tenant in roster.all] == ["one"]
    assert roster.bound == {}


def test_totals_that_are_held_make_rates_of_one_window() -> None:
    history = History()
    for beat in range(6):
        history.add(beat / 4, [Totals()])
    assert history.is_level

    history.hold(1000.0)
    history.add(1000.25, [Totals(launches=10)])

    assert not history.is_level
    assert history.rates(0).launches_per_second == pytest.approx(8.0)


def test_a_nap_ends_when_somebody_says_so_and_the_next_one_is_a_whole_one() -> None:
    async def naps() -> list[bool]:
        nap = Nap()
        nap.end()  # nobody sleeps
        first = asyncio.ensure_future(nap.take(3600.0))
        await asyncio.sleep(0)
        nap.end()
        nap.end()
        await asyncio.wait_for(first, SECONDS)
        second = asyncio.ensure_future(nap.take(3600.0))
        await asyncio.sleep(0)
        is_over = second.done()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        await asyncio.wait_for(nap.take(0.0), SECONDS)
        return [first.done(), is_over]

    assert asyncio.run(naps()) == [True, False]


# --- the audit


def test_an_audit_that_has_calmed_down_finds_who_dropped_the_library(
    agent: Any, device_user: Callable[..., Any]
) -> None:
    granted = agent.claim()
    idle = device_user(granted)
    assert idle.asked(f"hold {GIB}") == "held"
    looks_before = agent.looks()
    deadline = time.monotonic() + SECONDS
    while (
        agent.looks() < looks_before + 18
    ):  # it is calm once four find tenants awake, and twelve that all is as it was
        assert time.monotonic() < deadline
        time.sleep(0.1)

    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))

    deadline = time.monotonic() + SECONDS
    while not (found := [each for each in agent.hub.events() if each["kind"] == "bypass"]):
        assert time.monotonic() < deadline, agent.hub.events()
        time.sleep(0.05)
    assert [(each["claim"], each["pid"]) for each in found] == [(granted.claim["claim"], dropped.pid)]
