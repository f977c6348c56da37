"""What quotas guarantee: as much of a slice's share as is left, never more than is given, whoever comes and goes."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.hub.holdings import asked_for, guaranteed, holding_of
from jupyter_vgpu.ledger import Entry
from jupyter_vgpu.model import Profile
from jupyter_vgpu.quota import Holding, Quota, Use, guarantee_of, use_of
from jupyter_vgpu.quotas import parse_quotas
from jupyter_vgpu.units import GIB, PPM

NOW = 1_795_000_000.0

parts_ppm = st.integers(1, PPM)
quotas_ppm = st.none() | st.integers(1, 4 * PPM)


def one(**entry: Any) -> Profile:
    (profile,) = parse_profiles({"it": entry})
    return profile


def device(total_gib: int) -> DeviceInfo:
    known: Any = {"total_bytes": total_gib * GIB}
    return known


def use(given_ppm: int | None, *held_ppm: int) -> Use:
    held = [Holding(GIB, 1.0, NOW - 1, None, ppm) for ppm in held_ppm]
    return use_of("your", Quota(guaranteed_ppm=given_ppm), held, NOW)


@given(st.integers(1, 4 * PPM), st.lists(st.tuples(parts_ppm, st.integers(1, 4), st.booleans()), max_size=30))
def test_what_is_guaranteed_at_once_is_never_more_than_the_quota_gives(
    given_ppm: int, starts: list[tuple[int, int, bool]]
) -> None:
    held: list[int] = []

    for share_ppm, devices, one_stops in starts:
        if one_stops and held:
            held.pop(0)
        before = sum(held)
        each = guarantee_of(share_ppm, devices, [use(given_ppm, *held)])
        held.append(each * devices)
        assert 0 <= each <= share_ppm
        assert sum(held) <= given_ppm
        # Nothing that could be given is kept back, but for what cannot be divided among its devices.
        assert each == share_ppm or given_ppm - before - each * devices < devices


@given(parts_ppm, st.lists(st.tuples(quotas_ppm, parts_ppm), max_size=4))
def test_of_several_quotas_the_one_counts_that_has_most_left(
    share_ppm: int, quotas: list[tuple[int | None, int]]
) -> None:
    uses = [use(given_ppm, held_ppm) for given_ppm, held_ppm in quotas]

    most = max((guarantee_of(share_ppm, 1, [each]) for each in uses), default=0)

    assert guarantee_of(share_ppm, 1, uses) == most


@given(st.integers(1, 80), st.lists(st.integers(1, 200), min_size=1, max_size=4), st.integers(1, 2 * PPM))
def test_no_device_of_those_there_are_makes_it_more_than_the_share(
    wanted_gib: int, totals_gib: list[int], given_ppm: int
) -> None:
    profile = one(memory=f"{wanted_gib}GiB")

    wished = guaranteed(profile, [device(total) for total in totals_gib], [use(given_ppm)])

    assert all(0 < wished.guarantee_ppm <= profile.share_on(total * GIB) for total in totals_gib)


@pytest.mark.parametrize(
    ("profile", "uses", "expected"),
    [
        pytest.param(one(share="1/4"), [], 0, id="without a quota nothing is"),
        pytest.param(one(share="1/4"), [use(None, 0)], 0, id="a quota that gives none gives none"),
        pytest.param(one(share="1/4"), [use(PPM)], 250_000, id="at most the share"),
        pytest.param(one(share="1/4"), [use(PPM, 900_000)], 100_000, id="what is left"),
        pytest.param(one(share="1/4"), [use(PPM, 250_000, PPM)], 0, id="nothing when nothing is left"),
        pytest.param(one(share="1/4", devices=2), [use(300_000)], 150_000, id="divided among its devices"),
        pytest.param(one(share="1/4", guarantee="1/8"), [use(PPM, PPM)], 125_000, id="what the profile says anyway"),
        pytest.param(one(share="1/4", guarantee="1/8"), [use(PPM)], 250_000, id="the quota's where that is more"),
        pytest.param(one(backend="whole"), [use(PPM // 2)], 500_000, id="half of a whole device"),
        pytest.param(one(gpu=False), [use(PPM)], 0, id="a server without a GPU has none"),
    ],
)
def test_a_new_slice_is_guaranteed(profile: Profile, uses: list[Use], expected: int) -> None:
    assert guaranteed(profile, [device(80)], uses).guarantee_ppm == expected


def test_the_ledger_remembers_what_was_guaranteed_and_older_entries_say_nothing() -> None:
    asked = asked_for(one(share="1/3", guarantee="1/4", devices=2), [device(80)])
    old = asked_for(one(share="1/3"), [device(80)])

    def remembered(devices: list[dict[str, Any]]) -> int:
        at = datetime.fromtimestamp(NOW, timezone.utc)
        entry = Entry(1, "c", "ada", "ada", "", "it", "here", "bound", at, at, None, "", (), tuple(devices))
        return holding_of(entry).guaranteed_ppm

    assert remembered(asked) == 500_000
    assert "guarantee" not in old[0]
    assert remembered(old) == 0


def test_of_several_groups_the_most_counts_and_none_gives_none() -> None:
    quotas = parse_quotas(
        {
            "everyone": {"slices": 1},
            "members": {
                "a": {"guaranteed_throughput": "1/4"},
                "b": {"guaranteed_throughput": 1.5},
                "c": {"slices": 2},
            },
            "groups": {"a": {"guaranteed_throughput": 2}},
            "users": {"ada": {}},
        }
    )

    assert quotas.of_user("bob", []).guaranteed_ppm is None
    assert quotas.of_user("bob", ["c"]).guaranteed_ppm is None
    assert quotas.of_user("bob", ["c", "a"]).guaranteed_ppm == 250_000
    assert quotas.of_user("bob", ["a", "b"]).guaranteed_ppm == 1_500_000
    assert quotas.of_user("ada", ["a", "b"]).guaranteed_ppm is None
    assert quotas.groups["a"].guaranteed_ppm == 2_000_000
    assert quotas.guarantee_something
    assert not parse_quotas({"everyone": {"slices": 1}}).guarantee_something


@pytest.mark.parametrize("value", [0, "0", -1, "2", "1,5", 100_001, 1e300, True, [1], "1/0", "quarter"])
def test_what_is_no_throughput_is_refused_with_what_would_be(value: Any) -> None:
    with pytest.raises(BadValueError) as refused:
        parse_quotas({"groups": {"a": {"guaranteed_throughput": value}}})

    assert str(refused.value) == (
        f"quotas.groups['a'].guaranteed_throughput: {value!r} is not allowed; a part of one GPU's time is, "
        'as "1/4" or "25%", or a number of GPUs up to 100000, as 2 or 1.5'
    )
