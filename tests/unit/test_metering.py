"""A meter that says too little is found, and no honest one is accused, whatever NVML says."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from jupyter_vgpu.agent.metering import SHORT_LOOKS, WINDOW_LOOKS, Metered, MeterWatch, slow_meter
from jupyter_vgpu.nvml import DeviceUse

ALWAYS = DeviceUse(1.0)  # a device that is switched between tenants is active all the time
GPM = DeviceUse(1.0, 0.87)  # measured, H200, two busy tenants: the SMs had work for 87 % (FACTS.md)


def tenants(*figures: tuple[float, float | None]) -> list[Metered]:
    """Return tenants a, b, … by (metered, NVML's part)."""
    return [Metered("abcdefgh"[place], fraction, nvml) for place, (fraction, nvml) in enumerate(figures)]


@pytest.mark.parametrize(
    ("metered", "use"),
    [
        pytest.param(tenants((0.48, 0.99), (0.48, 0.97)), ALWAYS, id="NVML says 99 and 97 for 48 and 48 (FACTS.md)"),
        pytest.param(tenants((0.45, 0.55), (0.45, 0.34)), ALWAYS, id="NVML says 55 and 34 for two halves (FACTS.md)"),
        pytest.param(tenants((0.45, 0.44), (0.45, 0.42)), GPM, id="NVML says 44 and 42 for two halves (FACTS.md)"),
        pytest.param(tenants((0.226, 0.9), *[(0.226, 0.1)] * 3), ALWAYS, id="four always busy, NVML names one"),
        pytest.param(tenants((0.45, 0.99), (0.45, 0.0)), ALWAYS, id="NVML gives all to one"),
        pytest.param(tenants((0.88, 1.0)), DeviceUse(1.0, 0.86), id="gpt alone, gaps counted as running"),
        pytest.param(tenants((0.5, 1.0)), DeviceUse(1.0, 0.45), id="short launches with gaps between, by SM counters"),
        pytest.param(tenants((0.6, 1.0)), DeviceUse(1.0, 0.07), id="launches on few SMs"),
        pytest.param(tenants((0.02, 0.1)), DeviceUse(0.1), id="too little to tell"),
        pytest.param(tenants((0.0, 0.0), (0.9, 1.0)), ALWAYS, id="one that idles beside one that does not"),
        pytest.param([], DeviceUse(0.9), id="nobody of ours is there"),
        pytest.param([Metered("a", 0.0, 1.0, launches_per_second=0)], ALWAYS, id="one long launch, not over yet"),
        pytest.param([Metered("a", 0.0, 1.0, launches_per_second=8)], ALWAYS, id="long launches, none over yet"),
        pytest.param(
            [Metered("a", 0.0, 0.5, launches_per_second=0), Metered("b", 0.45, 0.5)],
            ALWAYS,
            id="one long launch beside others",
        ),
        pytest.param(tenants((0.2, None), (0.2, None)), ALWAYS, id="NVML was not asked yet"),
    ],
)
def test_the_honest_are_not_accused(metered: Sequence[Metered], use: DeviceUse) -> None:
    assert slow_meter(metered, use) is None


@pytest.mark.parametrize(
    ("metered", "use"),
    [
        pytest.param(tenants((0.0, None)), ALWAYS, id="alone, nothing"),
        pytest.param(tenants((0.5, None)), ALWAYS, id="alone, halved"),
        pytest.param(tenants((0.5, 1.0)), DeviceUse(1.0, 0.97), id="alone, halved, by SM counters"),
        pytest.param(tenants((0.225, 0.5), (0.45, 0.5)), ALWAYS, id="halved"),
        pytest.param(tenants((0.225, 0.5), (0.45, 0.5)), GPM, id="halved, by SM counters"),
        pytest.param(tenants((0.0, 0.5), (0.45, 0.5)), ALWAYS, id="nothing"),
        pytest.param(tenants((0.24, 0.97), (0.48, 0.99)), ALWAYS, id="halved, while NVML doubles both"),
        pytest.param(tenants((0.225, 0.42), (0.45, 0.44)), ALWAYS, id="halved, while NVML says 42 and 44"),
        pytest.param(tenants((0.0, 0.34), (0.45, 0.55)), ALWAYS, id="nothing, while NVML says 34 and 55"),
        pytest.param(tenants((0.0, 0.48), (0.45, 0.99)), ALWAYS, id="nothing, while NVML doubles the other"),
        pytest.param(tenants((0.0, 0.25), *[(0.226, 0.25)] * 3), ALWAYS, id="nothing, one of four"),
        pytest.param(
            [*tenants((0.0, 0.5)), Metered("b", 0.4, 0.4, launches_per_second=0)], ALWAYS, id="beside one that ended"
        ),
        pytest.param(tenants((0.2, 0.9), (0.0, 0.0)), DeviceUse(0.9), id="beside one that idles"),
        pytest.param(
            [Metered("a", 0.0, None, launches_per_second=0, has_launched=False)],
            ALWAYS,
            id="a page that counts nothing",
        ),
    ],
)
def test_a_meter_that_says_too_little_is_found(metered: Sequence[Metered], use: DeviceUse) -> None:
    assert slow_meter(metered, use) == "a"


def test_where_nobody_stands_out_nobody_is_accused() -> None:
    """Two that both halve, and one that NVML favours: something is wrong, and no figure says with whom."""
    assert slow_meter(tenants((0.225, 0.5), (0.225, 0.5)), ALWAYS) is None
    assert slow_meter(tenants((0.45, 0.99), (0.225, 0.48)), ALWAYS) is None
    assert slow_meter(tenants((0.225, 0.34), (0.45, 0.55)), ALWAYS) is None


def test_an_honest_tenant_beside_a_liar_is_not_accused_in_its_place() -> None:
    """One of several says half of what it had, or nothing; NVML is off by up to 1.6 between any two (FACTS.md)."""
    dice = random.Random(4)
    accused = found = 0
    for _ in range(20_000):
        count = dice.randint(2, 8)
        wants = [dice.uniform(0.2, 1) for _ in range(count)]
        true = [0.905 * want / sum(wants) * min(1.0, sum(wants)) for want in wants]
        said = [part * dice.uniform(0.95, 1.05) for part in true]
        said[0] *= dice.choice((0, 0.5))
        metered = tenants(*[(part, had * dice.uniform(0.78, 1.25)) for part, had in zip(said, true, strict=True)])
        claim_id = slow_meter(metered, DeviceUse(min(1.0, sum(true) / 0.905)))
        accused += claim_id not in ("a", None)
        found += claim_id == "a"

    assert accused == 0
    assert found > 5000


def test_honest_tenants_are_never_accused_by_nvmls_mistakes() -> None:
    """True parts, meters within 5 % of them, NVML off by up to a factor of two either way, device figures by 5 %."""
    dice = random.Random(3)
    accused = 0
    for _ in range(20_000):
        count = dice.randint(1, 8)
        wants = [dice.random() for _ in range(count)]
        true = [0.905 * want / sum(wants) * min(1.0, sum(wants)) for want in wants]
        metered = tenants(
            *[(part * dice.uniform(0.95, 1.05), min(1.0, part * 2 ** dice.uniform(-1, 1))) for part in true]
        )
        use = DeviceUse(min(1.0, sum(true) / 0.905 * dice.uniform(0.95, 1.0)))
        accused += slow_meter(metered, use) is not None

    assert accused == 0


def looks(watch: MeterWatch, metered: Sequence[Metered], use: DeviceUse, count: int) -> list[str]:
    return [claim for _ in range(count) if (claim := watch.look(metered, use)) is not None]


def test_it_is_said_once_and_not_before_several_looks() -> None:
    watch = MeterWatch()
    slow = tenants((0.0, None))

    early = looks(watch, slow, ALWAYS, WINDOW_LOOKS + SHORT_LOOKS - 2)
    certain = looks(watch, slow, ALWAYS, 20)

    assert (early, certain) == ([], ["a"])


def test_it_is_said_again_after_it_was_right_in_between() -> None:
    watch = MeterWatch()
    slow, right = tenants((0.0, None)), tenants((0.9, None))

    said = looks(watch, slow, ALWAYS, 20) + looks(watch, right, ALWAYS, 20) + looks(watch, slow, ALWAYS, 20)

    assert said == ["a", "a"]


def test_a_moments_shortfall_is_nothing() -> None:
    """A function is launched for the first time: its time is charged when the first sample is back."""
    watch = MeterWatch()
    right, late = tenants((0.9, None)), tenants((0.3, None))

    said = []
    for _ in range(20):
        said += looks(watch, right, ALWAYS, 4) + looks(watch, late, ALWAYS, SHORT_LOOKS - 1)

    assert said == []


def test_nvml_is_asked_about_processes_only_on_suspicion() -> None:
    watch = MeterWatch()
    looks(watch, tenants((0.9, None)), ALWAYS, 10)
    calm = watch.is_suspicious

    looks(watch, tenants((0.1, None), (0.1, None)), ALWAYS, 1)

    assert (calm, watch.is_suspicious) == (False, True)


def test_beside_one_that_nobody_meters_nothing_is_said() -> None:
    watch = MeterWatch()
    slow = tenants((0.0, None))
    looks(watch, slow, ALWAYS, WINDOW_LOOKS + SHORT_LOOKS - 2)

    watch.skip()

    assert looks(watch, slow, ALWAYS, 2 * WINDOW_LOOKS + SHORT_LOOKS - 2) == []
    assert looks(watch, slow, ALWAYS, 1) == ["a"]


def test_what_one_did_that_is_gone_is_not_blamed_on_the_next() -> None:
    """Its claim was released a moment ago; what NVML says is still of it."""
    watch = MeterWatch()
    both = tenants((0.1, None), (0.8, None))
    looks(watch, both, ALWAYS, 10)

    said = looks(watch, both[:1], ALWAYS, WINDOW_LOOKS) + looks(watch, both[:1], DeviceUse(0.1), 10)

    assert said == []
