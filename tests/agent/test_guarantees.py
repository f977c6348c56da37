"""What is guaranteed is held against what was had, second by second, and shown where something is guaranteed."""

from __future__ import annotations

import mmap
import os
import re
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_vgpu.client import UserClient
from jupyter_vgpu.magic.view import SliceView
from jupyter_vgpu.pages import TenantPages
from jupyter_vgpu.steering import Guaranteed, Steering

UUID = "GPU-00000000-0000-0000-0000-000000000001"
GIB = 1 << 30
SECONDS = 120.0
# native/include/jvgpu/pages.h: a slot's use of its first device
USE_AT = 64 + 64
LAUNCHES_AT, BLOCKED_AT = USE_AT + 16, USE_AT + 88


class Busy:
    """A tenant that has what part of the device's time it is told to have."""

    def __init__(self, steering: Steering, guarantee_ppm: int) -> None:
        self.steering = steering
        self.pages = TenantPages(1)
        self.pages.set_device(0, UUID, GIB, 500_000, 1_000_000)
        slot = self.pages.take_slot(os.getpid())
        assert slot is not None and slot.index == 0
        steering.add(self.pages, 0, UUID, "normal", guarantee_ppm)
        self._page = mmap.mmap(self.pages.usage_fd, 0)
        self._at = time.monotonic_ns()
        self._launches = self._busy_ns = 0

    def go_on(self, part: float, stands: bool = True) -> None:
        """Have had `part` of the device's time since the last call, with a thread at the gate or without."""
        now = time.monotonic_ns()
        self._launches += 1
        self._busy_ns += int((now - self._at) * part)
        self._at = now
        struct.pack_into("=QQQ", self._page, LAUNCHES_AT, self._launches, 0, self._busy_ns)
        struct.pack_into("=I", self._page, BLOCKED_AT, int(stands))

    def kept(self) -> Guaranteed:
        kept = self.steering.guaranteed(self.pages, 0)
        assert kept is not None
        return kept

    def close(self) -> None:
        self.steering.drop(self.pages)
        self._page.close()
        self.pages.close()


@pytest.fixture
def two() -> Iterator[Callable[..., list[Busy]]]:
    steering = Steering({UUID: 0})
    made: list[Busy] = []

    def make(*guarantees_ppm: int) -> list[Busy]:
        made.extend(Busy(steering, guarantee_ppm) for guarantee_ppm in guarantees_ppm)
        return made

    yield make
    for each in made:
        each.close()
    steering.close()


def go_on_until(tenants: list[Busy], parts: list[float], holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        for tenant, part in zip(tenants, parts, strict=True):
            tenant.go_on(part)
        time.sleep(0.002)


def test_a_guarantee_that_is_missed_raises_after_three_seconds_until_one_meets_it(
    two: Callable[..., list[Busy]],
) -> None:
    """Seconds in which this machine kept the test from going on are nobody's: then it takes longer."""
    one, other = tenants = two(400_000, 0)

    go_on_until(tenants, [0.2, 0.7], lambda: one.kept().is_raised, "it is raised")
    raised = one.kept()
    go_on_until(tenants, [0.6, 0.3], lambda: not one.kept().is_raised, "it falls back")
    met = one.kept()

    assert raised.least == 0.4
    assert raised.violations >= raised.in_a_row >= 3
    assert met.in_a_row < 3
    assert met.violations >= raised.violations
    assert other.steering.guaranteed(other.pages, 0) is None


@pytest.mark.parametrize(
    "is_alone", [pytest.param(True, marks=pytest.mark.slow), False], ids=["alone", "beside another"]
)
def test_who_uses_little_and_waits_for_nothing_misses_nothing(two: Callable[..., list[Busy]], is_alone: bool) -> None:
    """Catches a bug where a loop with gaps was taken to wait in them: it used something at every look."""
    one, *others = two(400_000) if is_alone else two(400_000, 0)

    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        one.go_on(0.1, stands=False)
        for other in others:
            other.go_on(0.8)
        time.sleep(0.002)

    assert one.kept().violations == 0


def test_usage_and_metrics_show_it_where_something_is_guaranteed(agent: Any) -> None:
    with_one, without = agent.claim(share="1/2", guarantee="1/4"), agent.claim(share="1/4")

    (device,) = agent.user(with_one).usage()["devices"]
    assert device["guaranteed"] == {"least": 0.25, "violations": 0, "in_a_row": 0, "raised": False}
    assert "guaranteed" not in agent.user(without).usage()["devices"][0]
    metrics = agent.metrics()
    for name, value in (("guarantee_ratio", 0.25), ("guarantee_violations_total", 0), ("raised", 0)):
        rows = re.findall(rf'^jupyter_vgpu_claim_{name}{{claim="(\w+)".*}} (\S+)$', metrics, re.MULTILINE)
        assert [(claim, float(figure)) for claim, figure in rows] == [(with_one.claim["claim"], value)]


def test_the_magic_shows_it_where_something_is_guaranteed(agent: Any) -> None:
    users = [agent.user(agent.claim(share="1/2", guarantee="1/8")), agent.user(agent.claim(share="1/4"))]

    views = [SliceView(user.slice(), user.usage()) for user in users]

    for shown in (repr, lambda view: view._repr_mimebundle_()["text/html"]):
        assert ["12.5% of each second, never missed" in shown(view) for view in views] == [True, False]
        assert ["guarantee" in shown(view).lower() for view in views] == [True, False]


def test_it_is_kept_over_a_restart_of_the_agent(own_agent: Any) -> None:
    granted = own_agent.claim(share="1/2", guarantee="1/4")

    own_agent.end()
    own_agent.start()

    assert own_agent.hub.get_claim(granted.claim["claim"]) == granted.claim
    assert own_agent.user(granted).usage()["devices"][0]["guaranteed"]["least"] == 0.25


def test_a_part_of_a_slice_has_as_much_of_the_guarantee_as_of_the_share_and_gives_it_back(agent: Any) -> None:
    granted = agent.claim(share="1/2", memory="40GiB", guarantee="1/4")
    user = agent.user(granted)
    least = lambda client: client.usage()["devices"][0]["guaranteed"]["least"]  # noqa: E731

    part = user.create_subslice("one.ipynb", 10 * GIB)

    assert least(UserClient(user.api, part.secret, SECONDS)) == pytest.approx(0.0625, abs=1e-6)
    assert least(user) == pytest.approx(0.25, abs=1e-6)
    rows = re.findall(r"^jupyter_vgpu_claim_guarantee_ratio{.*} (\S+)$", agent.metrics(), re.MULTILINE)
    assert sorted(map(float, rows)) == pytest.approx([0.0625, 0.1875], abs=1e-6)
    user.release_subslice(part.subslice["claim"])
    assert least(user) == 0.25


def test_where_the_driver_shares_out_time_nothing_is_held_against_it(agent_with: Callable[..., Any]) -> None:
    with agent_with("--time", "driver") as agent:
        granted = agent.claim(share="1/2", guarantee="1/4")

        assert granted.claim["devices"][0]["guarantee"] == 0.25
        assert "guaranteed" not in agent.user(granted).usage()["devices"][0]
