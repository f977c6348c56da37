"""Quotas: what may still be claimed, what is used of a window, and when there is room again."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.quota import (
    Holding,
    Quota,
    QuotaError,
    Wish,
    check,
    format_moment,
    room_again_at,
    use_of,
    used_seconds,
)
from jupyter_vgpu.quotas import parse_quotas
from jupyter_vgpu.units import GIB

NOW = 1_795_000_000.0
HOUR = 3600.0
DAY = 24 * HOUR

moments = st.floats(NOW - 30 * DAY, NOW + 30 * DAY)  # ends before starts, starts after now: clocks jump
shares = st.floats(0.001, 4.0)
windows = st.floats(60.0, 40 * DAY)


@st.composite
def holding(draw: st.DrawFn) -> Holding:
    return Holding(draw(st.integers(1, 80 * GIB)), draw(shares), draw(moments), draw(st.none() | moments))


many = st.lists(holding(), max_size=12)


def held(share: float, hours_ago: float, hours: float | None = None) -> Holding:
    started_at = NOW - hours_ago * HOUR
    return Holding(10 * GIB, share, started_at, None if hours is None else started_at + hours * HOUR)


@given(many, windows)
def test_use_is_never_negative_nor_more_than_all_shares_over_the_whole_window(
    holdings: list[Holding], window: float
) -> None:
    used = used_seconds(holdings, window, NOW)

    assert 0 <= used <= sum(one.share for one in holdings) * window * (1 + 1e-9)


@given(many, windows, windows)
def test_a_longer_window_never_shows_less_use(holdings: list[Holding], one: float, other: float) -> None:
    shorter, longer = sorted((one, other))

    assert used_seconds(holdings, shorter, NOW) <= used_seconds(holdings, longer, NOW) + 1e-6


@given(many, holding(), windows)
def test_another_holding_never_shows_less_use(holdings: list[Holding], another: Holding, window: float) -> None:
    assert used_seconds(holdings, window, NOW) <= used_seconds([*holdings, another], window, NOW) + 1e-6


@given(many, windows, st.floats(-400 * DAY, 400 * DAY))
def test_use_does_not_depend_on_when_the_era_began(holdings: list[Holding], window: float, offset: float) -> None:
    moved = [
        Holding(
            one.memory_bytes,
            one.share,
            one.started_at + offset,
            None if one.ended_at is None else one.ended_at + offset,
        )
        for one in holdings
    ]

    assert used_seconds(moved, window, NOW + offset) == pytest.approx(used_seconds(holdings, window, NOW), abs=0.01)


@given(many, windows, st.floats(1.0, 100 * DAY))
@example([Holding(1, 1.0, NOW - HOUR, None)], DAY, HOUR)
def test_there_is_room_again_at_the_moment_that_is_named_and_not_before(
    holdings: list[Holding], window: float, limit: float
) -> None:
    again = room_again_at(holdings, limit, window, NOW)

    ended = [
        Holding(one.memory_bytes, one.share, one.started_at, min(NOW if one.ended_at is None else one.ended_at, NOW))
        for one in holdings
    ]
    assert NOW <= again <= NOW + window + 1
    assert used_seconds(ended, window, again + 0.01) <= limit + 0.01
    if again > NOW + 0.01:
        assert used_seconds(ended, window, again - 0.01) >= limit - 0.2


@given(many, st.floats(0.0, 100.0), st.floats(-5 * DAY, 5 * DAY))
def test_a_clock_that_jumps_never_makes_use_grow_faster_than_what_is_held(
    holdings: list[Holding], window_days: float, jump: float
) -> None:
    window = window_days * DAY + 60
    before, after = (used_seconds(holdings, window, moment) for moment in (NOW, NOW + jump))

    assert after - before <= sum(one.share for one in holdings) * abs(jump) * (1 + 1e-9) + 1e-3


@given(
    st.floats(1, 4e9), st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"])
)
@example(datetime(2026, 10, 25, 1, 30, tzinfo=timezone.utc).timestamp(), "Europe/Berlin")  # 02:30 for the second time
def test_a_moment_for_people_names_the_same_moment_in_every_time_zone(moment: float, zone: str) -> None:
    shown = format_moment(moment, ZoneInfo(zone))

    found = re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d) UTC(?:([+-])(\d\d):(\d\d))?", shown)
    assert found
    assert found.groups()[1:] != ("+", "00", "00")
    offset = timedelta(hours=int(found[3] or 0), minutes=int(found[4] or 0)) * (-1 if found[2] == "-" else 1)
    read = datetime.strptime(found[1], "%Y-%m-%d %H:%M").replace(tzinfo=timezone(offset)).timestamp()
    assert -1e-6 <= read - moment <= 60


@given(many, st.floats(0.01, 500), shares, st.integers(1, GIB))
def test_whoever_is_let_in_was_below_every_limit_and_whoever_is_not_was_not(
    holdings: list[Holding], hours: float, share: float, memory: int
) -> None:
    quota = Quota(slices=3, memory_bytes=100 * GIB, gpu_hours=hours)
    use = use_of("your", quota, holdings, NOW)
    is_within = use.slices < 3 and use.memory_bytes + memory <= 100 * GIB and use.gpu_hours < hours

    try:
        check(Wish(memory, share), "your", quota, holdings, NOW)
        was_let_in = True
    except QuotaError:
        was_let_in = False

    assert was_let_in == is_within


@given(many)
def test_no_quota_refuses_nothing(holdings: list[Holding]) -> None:
    check(Wish(80 * GIB, 4.0, priority=2), "your", Quota(), holdings, NOW)


def test_hours_are_share_times_time_within_the_window() -> None:
    holdings = [held(0.25, 4, 4), held(1.0, 7 * 24 + 1, 2), held(0.5, 2)]

    assert used_seconds(holdings, 7 * DAY, NOW) == pytest.approx((1 + 1 + 1) * HOUR)


@pytest.mark.parametrize(
    ("wish", "quota", "holdings", "message"),
    [
        pytest.param(
            Wish(GIB, 0.25), Quota(slices=1), [held(0.25, 1)],
            "your quota is 1 slice at once, and 1 is held now: stop a server, then start this one", id="slices",
        ),
        pytest.param(
            Wish(20 * GIB, 0.25), Quota(memory_bytes=25 * GIB), [held(0.25, 1)],
            "your quota is 25.0 GiB of GPU memory at once; 10.0 GiB are held now and this slice has 20.0 GiB: "
            "choose a profile of at most 15.0 GiB, or stop a server first", id="memory",
        ),
        pytest.param(
            Wish(GIB, 0.25), Quota(gpu_hours=2, window_seconds=DAY), [held(1.0, 4, 3)],
            "your quota is 2 GPU-hours in 24 hours, and 3 GPU-hours are used: there is room again from ", id="hours",
        ),
        pytest.param(
            Wish(GIB, 0.25), Quota(gpu_hours=0), [],
            "your quota is 0 GPU-hours in 7 days, and 0 GPU-hours are used: an administrator may raise it", id="none",
        ),
        pytest.param(
            Wish(GIB, 0.25, priority=2), Quota(priority=1), [],
            "your quota allows no priority above 'normal', and this profile has 'high': choose another profile",
            id="priority",
        ),
    ],
)  # fmt: skip
def test_a_refusal_names_the_limit_the_use_and_what_would_work(
    wish: Wish, quota: Quota, holdings: list[Holding], message: str
) -> None:
    with pytest.raises(QuotaError) as refused:
        check(wish, "your", quota, holdings, NOW, timezone.utc)

    assert str(refused.value).startswith(message)


def test_the_reset_time_in_the_message_is_when_the_oldest_hour_leaves_the_window() -> None:
    with pytest.raises(QuotaError) as refused:
        check(Wish(GIB, 0.25), "your", Quota(gpu_hours=2, window_seconds=DAY), [held(1.0, 4, 3)], NOW, timezone.utc)

    assert str(refused.value).endswith(format_moment(NOW - 4 * HOUR + DAY + HOUR, timezone.utc))


def test_of_several_groups_the_most_generous_counts_and_a_users_own_before_all() -> None:
    quotas = parse_quotas(
        {
            "everyone": {"slices": 1},
            "members": {"a": {"slices": 2, "gpu_hours": 10, "window_days": 1}, "b": {"slices": 3, "gpu_hours": 20}},
            "users": {"ada": {}},
        }
    )

    assert quotas.of_user("bob", []).slices == 1
    assert quotas.of_user("bob", ["a", "b", "c"]) == Quota(slices=3, gpu_hours=10, window_seconds=DAY)
    assert quotas.of_user("ada", ["a"]) == Quota()
    assert quotas.longest_window_seconds == 7 * DAY


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "quotas: [] is not allowed; a mapping with some of everyone, members, groups, users is"),
        ({"user": {}}, "quotas.user: {} is not allowed; only the keys everyone, members, groups, users are"),
        ({"everyone": None}, "quotas.everyone: None is not allowed"),
        ({"everyone": {"hours": 1}}, "quotas.everyone.hours: 1 is not allowed; only the keys slices,"),
        ({"everyone": {"slices": -1}}, "quotas.everyone.slices: -1 is not allowed"),
        ({"everyone": {"slices": None}}, "quotas.everyone.slices: None is not allowed"),
        ({"everyone": {"slices": True}}, "quotas.everyone.slices: True is not allowed"),
        ({"everyone": {"slices": 1.5}}, "quotas.everyone.slices: 1.5 is not allowed"),
        ({"everyone": {"gpu_hours": math.nan}}, "quotas.everyone.gpu_hours: nan is not allowed"),
        ({"everyone": {"gpu_hours": math.inf}}, "quotas.everyone.gpu_hours: inf is not allowed"),
        ({"everyone": {"gpu_hours": "20"}}, "quotas.everyone.gpu_hours: '20' is not allowed"),
        ({"everyone": {"gpu_hours": 1, "window_days": 0}}, "quotas.everyone.window_days: 0 is not allowed"),
        ({"everyone": {"window_days": 7}}, "quotas.everyone.window_days: 7 is not allowed; it is with gpu_hours only"),
        ({"users": {"ada": {"memory": "8GiBB"}}}, "quotas.users['ada'].memory: '8GiBB' is not allowed"),
        ({"members": {"": {}}}, "quotas.members: '' is not allowed"),
        (
            {"groups": {"a": {"priority": "urgent"}}},
            "quotas.groups['a'].priority: 'urgent' is not allowed; one of low,",
        ),
    ],
)
def test_what_is_not_understood_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(BadValueError) as refused:
        parse_quotas(value)

    assert str(refused.value).startswith(message)
