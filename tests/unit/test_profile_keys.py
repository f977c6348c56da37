"""What a profile may say besides share and memory, and who may use it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from jupyter_vgpu.config import (
    PROFILE_KEYS,
    overridden,
    parse_group_overrides,
    parse_isolated,
    parse_profiles,
    profiles_for,
)
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Memory, Profile
from jupyter_vgpu.quotas import QUOTA_KEYS, parse_quotas
from jupyter_vgpu.units import GIB, PPM


def one(**entry: Any) -> Profile:
    (profile,) = parse_profiles({"it": entry})
    return profile


def test_hundredths_of_a_card_and_blocks_are_share_and_memory() -> None:
    profile = one(cores=25, memory_blocks=32)

    assert (profile.share_ppm, profile.memory, profile.devices) == (250_000, Memory(size_bytes=8 * GIB), 1)


def test_two_hundred_hundredths_are_two_whole_cards() -> None:
    profile = one(cores=200)

    assert (profile.share_ppm, profile.memory, profile.devices) == (1_000_000, Memory(fraction=Fraction(1)), 2)


def test_policy_force_makes_the_share_the_most_there_is() -> None:
    assert one(share="1/4", policy="force").ceiling_ppm == 250_000
    assert one(share="1/4", policy="default").ceiling_ppm == 1_000_000


def test_policy_disable_limits_no_time_and_memory_all_the_same() -> None:
    assert one(share="1/4", policy="disable").ceiling_ppm == PPM
    assert one(share="1/4", policy="disable").memory.of(4 << 30) == 1 << 30


def test_a_server_without_a_gpu_has_no_device() -> None:
    assert (one(gpu=False).devices, one(gpu=False).share_ppm) == (0, 0)


def test_profiles_are_shown_in_their_order_and_the_first_shown_is_the_default() -> None:
    profiles = parse_profiles({"a": {"share": 1, "order": 2}, "b": {"share": 1}, "c": {"share": 1, "order": -1}})

    assert [profile.name for profile in profiles] == ["c", "b", "a"]
    assert [profile.is_default for profile in profiles] == [True, False, False]


def test_who_is_not_in_the_group_is_not_offered_the_profile_and_gets_another_default() -> None:
    profiles = parse_profiles({"big": {"share": 1, "allowed_groups": ["staff"]}, "small": {"share": "1/4"}})

    assert [(p.name, p.is_default) for p in profiles_for(profiles, [])] == [("small", True)]
    assert [(p.name, p.is_default) for p in profiles_for(profiles, ["staff"])] == [("big", True), ("small", False)]


def test_overrides_change_and_add_profiles_in_the_order_of_their_names() -> None:
    written: dict[str, Any] = {"1/4": {"share": "1/4", "max_hours": 2, "default": True}}
    overrides = parse_group_overrides(
        {
            "02": {"groups": ["b"], "profiles": {"1/4": {"max_hours": 8}}},
            "01": {
                "groups": ["a"],
                "profiles": {"1/4": {"max_hours": 4}, "all": {"backend": "whole", "default": True}},
            },
        },
        written,
        "overrides",
    )

    assert list(overrides) == ["01", "02"]
    profiles = parse_profiles(overridden(written, list(overrides.values())))
    assert [(p.name, p.max_hours, p.is_default) for p in profiles] == [("1/4", 8.0, False), ("all", None, True)]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"cores": 0}, "profiles['it'].cores: 0 is not allowed; a whole number from 1 to 1600 is"),
        ({"cores": 150}, "profiles['it'].cores: 150 is not allowed; up to 100 is, or whole cards"),
        ({"cores": 200, "memory_blocks": 4}, "profiles['it'].cores: 200 is not allowed"),
        ({"cores": True}, "profiles['it'].cores: True is not allowed"),
        ({"cores": 25, "share": "1/4"}, "profiles['it'].share: '1/4' is not allowed; either cores or share is"),
        ({"cores": 25, "devices": 2}, "profiles['it'].devices: 2 is not allowed; either cores or devices is"),
        ({"memory_blocks": 1.5}, "profiles['it'].memory_blocks: 1.5 is not allowed"),
        ({"memory_blocks": 1, "memory": "1GiB"}, "profiles['it'].memory: '1GiB' is not allowed; either memory_blocks"),
        (
            {"share": 1, "policy": "off"},
            "profiles['it'].policy: 'off' is not allowed; one of default, force, disable is",
        ),
        (
            {"share": "1/4", "policy": "disable", "ceiling": "1/2"},
            "profiles['it'].ceiling: '1/2' is not allowed; only 1",
        ),
        ({"gpu": "no"}, "profiles['it'].gpu: 'no' is not allowed; true or false is"),
        ({"gpu": False, "memory": "1GiB"}, "profiles['it'].memory: '1GiB' is not allowed; none is where gpu is false"),
        ({"gpu": True}, "profiles['it']: {'gpu': True} is not allowed"),
        ({"share": "1/4", "policy": "force", "ceiling": 1}, "profiles['it'].ceiling: 1 is not allowed; none is with"),
        ({"memory": "1GiB", "policy": "force"}, "profiles['it'].policy: 'force' is not allowed"),
        ({"share": 1, "priority": 3}, "profiles['it'].priority: 3 is not allowed; one of low, normal, high is"),
        ({"share": 1, "max_hours": 0}, "profiles['it'].max_hours: 0 is not allowed"),
        ({"share": 1, "max_hours": None}, "profiles['it'].max_hours: None is not allowed"),
        ({"share": 1, "max_hours": float("nan")}, "profiles['it'].max_hours: nan is not allowed"),
        ({"share": 1, "allowed_groups": []}, "profiles['it'].allowed_groups: [] is not allowed"),
        ({"share": 1, "allowed_groups": "staff"}, "profiles['it'].allowed_groups: 'staff' is not allowed"),
        ({"share": 1, "order": "first"}, "profiles['it'].order: 'first' is not allowed"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValueError) as refused:
        one(**entry)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "o: [] is not allowed"),
        ({"x": {"groups": ["a"]}}, "o['x']: {'groups': ['a']} is not allowed"),
        ({"x": {"groups": "a", "profiles": {}}}, "o['x'].groups: 'a' is not allowed"),
        ({"x": {"groups": ["a"], "profiles": {"p": 1}}}, "o['x'].profiles: {'p': 1} is not allowed"),
        ({"x": {"groups": ["a"], "profiles": {"p": {"share": 2}}}}, "o['x'].profiles['p'].share: 2 is not allowed"),
    ],
)
def test_an_override_that_is_not_understood_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(BadValueError) as refused:
        parse_group_overrides(value, {"p": {"share": 1}}, "o")

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("user", "groups", "expected"),
    [
        ("bob", ["exam", "course"], "group exam"),
        ("bob", ["course"], ""),
        ("bob", ["firm", "exam"], "group exam"),
        ("ada", ["exam"], "user ada"),
        ("exam", [], ""),
    ],
)
def test_a_users_isolation_is_their_own_or_that_of_the_first_group_named(
    user: str, groups: list[str], expected: str
) -> None:
    isolated = parse_isolated({"groups": ["exam", "firm"], "users": ["ada"]}, "isolated")

    assert isolated.group_of(user, groups) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["exam"], "isolated: ['exam'] is not allowed; a mapping with some of groups, users is"),
        ({"group": ["exam"]}, "isolated.group: ['exam'] is not allowed; only the keys groups, users are"),
        ({"groups": "exam"}, "isolated.groups: 'exam' is not allowed; a list with at least one name is"),
        ({"users": []}, "isolated.users: [] is not allowed; a list with at least one name is"),
        ({"users": None}, "isolated.users: None is not allowed; a list with at least one name is"),
    ],
)
def test_what_is_no_isolation_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(BadValueError) as refused:
        parse_isolated(value, "isolated")

    assert str(refused.value).startswith(message)


NONSENSE = [None, {}, object(), 10**400, -1, float("nan"), float("-inf"), "\n", "unlimited", [None]]
SENSE = {("description", "\n"), ("description", "unlimited"), ("order", -1)}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(key, value, id=f"{key}: {type(value).__name__} {str(value)[:9].strip()}")
        for key in PROFILE_KEYS
        for value in NONSENSE
        if not any((key, value) == (fine, text) for fine, text in SENSE)
    ],
)
def test_no_key_of_a_profile_takes_nonsense_for_no_limit(key: str, value: Any) -> None:
    with pytest.raises(BadValueError) as refused:
        parse_profiles({"it": {"share": "1/4", key: value}})

    assert str(refused.value).startswith(f"profiles['it'].{key}: ")


@pytest.mark.parametrize("key", QUOTA_KEYS)
@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: type(value).__name__ + str(value)[:9].strip())
def test_no_key_of_a_quota_takes_nonsense_for_no_limit(key: str, value: Any) -> None:
    with pytest.raises(BadValueError) as refused:
        parse_quotas({"everyone": {"gpu_hours": 1, key: value}})

    assert str(refused.value).startswith(f"quotas.everyone.{key}: ")
