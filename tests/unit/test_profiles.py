"""Profiles as an admin writes them: a typo is never "no limit"."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.config import BUILT_IN_PROFILES, load_profiles, parse_profiles
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Memory

GIB = 1 << 30


def test_share_alone_gives_the_same_part_of_the_memory() -> None:
    (profile,) = parse_profiles({"quarter": {"share": "1/4"}})

    assert profile.share_ppm == 250_000
    assert profile.memory == Memory(fraction=Fraction(1, 4))


def test_memory_alone_leaves_the_share_to_the_device() -> None:
    (profile,) = parse_profiles({"ten": {"memory": "10GiB"}})

    assert profile.share_ppm == 0
    assert profile.share_on(40 * GIB) == 250_000
    assert profile.share_on(80 * GIB) == 125_000


def test_a_share_of_all_does_not_lift_the_memory_limit() -> None:
    """CASES 4: share 100 % switched the memory limit off."""
    (profile,) = parse_profiles({"fast": {"share": 1, "memory": "4GiB"}})

    assert profile.memory.of(80 * GIB) == 4 * GIB


def test_the_ceiling_is_soft_unless_said() -> None:
    soft, hard = parse_profiles({"soft": {"share": "1/4"}, "hard": {"share": "1/4", "ceiling": "25%"}})

    assert (soft.ceiling_ppm, hard.ceiling_ppm) == (1_000_000, 250_000)


def test_a_whole_device_needs_no_amounts() -> None:
    (profile,) = parse_profiles({"all": {"backend": "whole", "devices": 2}})

    assert (profile.share_ppm, profile.memory, profile.devices) == (1_000_000, Memory(fraction=Fraction(1)), 2)


def test_the_first_is_the_default_when_none_says_so() -> None:
    profiles = parse_profiles({"a": {"share": "1/4"}, "b": {"share": "1/2"}})

    assert [profile.is_default for profile in profiles] == [True, False]


def test_the_one_that_says_so_is_the_default() -> None:
    profiles = parse_profiles({"a": {"share": "1/4"}, "b": {"share": "1/2", "default": True}})

    assert [profile.is_default for profile in profiles] == [False, True]


def test_the_built_in_profiles_are_allowed() -> None:
    assert [profile.name for profile in parse_profiles(BUILT_IN_PROFILES)] == list(BUILT_IN_PROFILES)


@pytest.mark.parametrize(
    ("entry", "key", "allowed"),
    [
        pytest.param({"share": 0}, "profiles['p'].share", "above 0", id="share 0"),
        pytest.param({"share": 1.5}, "profiles['p'].share", "at most 1", id="share above 1"),
        pytest.param({"share": float("nan")}, "profiles['p'].share", "above 0", id="share NaN"),
        pytest.param({"share": True}, "profiles['p'].share", "above 0", id="share yes"),
        pytest.param({"share": "1e-9"}, "profiles['p'].share", "one millionth", id="share too fine"),
        pytest.param({"share": None}, "profiles['p'].share", "above 0", id="share nothing"),
        pytest.param({"memory": "8GiBB"}, "profiles['p'].memory", "10GiB", id="unit with a typo"),
        pytest.param({"memory": "8"}, "profiles['p'].memory", "10GiB", id="size without a unit"),
        pytest.param({"memory": 8}, "profiles['p'].memory", "10GiB", id="8 bytes"),
        pytest.param({"memory": "1023KiB"}, "profiles['p'].memory", "1MiB", id="below 1 MiB"),
        pytest.param({"memory": "0x10"}, "profiles['p'].memory", "10GiB", id="hexadecimal"),
        pytest.param({"memory": ""}, "profiles['p'].memory", "10GiB", id="empty"),
        pytest.param({"memory": "-1GiB"}, "profiles['p'].memory", "10GiB", id="negative"),
        pytest.param({"memory": -1}, "profiles['p'].memory", "10GiB", id="minus one"),
        pytest.param({"memory": True}, "profiles['p'].memory", "10GiB", id="memory yes"),
        pytest.param({"memory": "150%"}, "profiles['p'].memory", "10GiB", id="more than there is"),
        pytest.param({"memory": "unlimited"}, "profiles['p'].memory", "10GiB", id="unlimited"),
        pytest.param({"share": "1/4", "ceiling": "1/8"}, "profiles['p'].ceiling", "1/4", id="ceiling below share"),
        pytest.param({"share": "1/4", "ceiling": 0}, "profiles['p'].ceiling", "above 0", id="ceiling 0"),
        pytest.param({"share": "1/4", "devices": 0}, "profiles['p'].devices", "1 to 16", id="no device"),
        pytest.param({"share": "1/4", "devices": "2"}, "profiles['p'].devices", "1 to 16", id="devices as text"),
        pytest.param({"share": "1/4", "devices": True}, "profiles['p'].devices", "1 to 16", id="devices yes"),
        pytest.param({"share": "1/4", "backend": "mps"}, "profiles['p'].backend", "intercept", id="unknown backend"),
        pytest.param({"share": "1/4", "backend": "whole"}, "profiles['p'].share", "auto", id="a part called whole"),
        pytest.param({"memory": "4GiB", "backend": "whole"}, "profiles['p'].memory", "auto", id="some called whole"),
        pytest.param(
            {"share": "1/4", "default": "yes"}, "profiles['p'].default", "true or false", id="default as text"
        ),
        pytest.param({"share": "1/4", "description": 5}, "profiles['p'].description", "a text", id="description 5"),
        pytest.param({"share": "1/4", "memroy": "1GiB"}, "profiles['p'].memroy", "memory", id="a key with a typo"),
        pytest.param({}, "profiles['p']", '"share", "memory"', id="neither share nor memory"),
        pytest.param("1/4", "profiles['p']", "a mapping", id="no mapping"),
    ],
)
def test_a_bad_profile_is_refused_with_key_value_and_what_is_allowed(entry: Any, key: str, allowed: str) -> None:
    with pytest.raises(BadValueError) as refusal:
        parse_profiles({"good": {"share": "1/4"}, "p": entry})

    assert str(refusal.value).startswith(f"{key}: ")
    assert allowed in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["", " a", "a\nb", "x" * 101, 5])
def test_a_name_that_cannot_stand_on_a_page_is_refused(name: Any) -> None:
    with pytest.raises(BadValueError, match="printable text"):
        parse_profiles({name: {"share": "1/4"}})


@pytest.mark.parametrize("mapping", [{}, None, [], "1/4 GPU"])
def test_no_profile_at_all_is_refused(mapping: Any) -> None:
    with pytest.raises(BadValueError, match="at least one profile"):
        parse_profiles(mapping)


def test_two_defaults_are_refused_by_name() -> None:
    with pytest.raises(BadValueError, match=r"profiles\['b'\].default: True is not allowed; only one.*'a' is one"):
        parse_profiles({"a": {"share": 1, "default": True}, "b": {"share": 1, "default": True}})


def test_profiles_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"profiles": {"mine": {"memory": "2GiB"}}}))

    assert [profile.name for profile in load_profiles(path)] == ["mine"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"profile": {}}', '{"profiles": {}, "more": 1}'])
def test_a_file_without_profiles_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(content)

    with pytest.raises(BadValueError, match=r"profiles.json"):
        load_profiles(path)


@pytest.mark.parametrize(
    "content",
    ['{"profiles": {"a": {"share": "1/4"}, "a": {"share": 1}}}', '{"profiles": {"a": {"share": "1/4", "share": 1}}}'],
    ids=["two profiles of one name", "a key twice"],
)
def test_of_what_stands_in_a_file_twice_neither_counts(tmp_path: Path, content: str) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(content)

    with pytest.raises(BadValueError, match=r"--config: .*profiles.json.* stands there twice"):
        load_profiles(path)


def test_memory_of_a_device_is_rounded_down_to_a_mebibyte() -> None:
    assert Memory(fraction=Fraction(1, 3)).of(10 * (1 << 20)) == 3 << 20
    assert Memory(size_bytes=(5 << 20) - 1).of(1 << 40) == 4 << 20


@pytest.mark.parametrize("amounts", [{}, {"fraction": Fraction(1), "size_bytes": 1 << 30}, {"size_bytes": 1}])
def test_memory_is_either_a_fraction_or_a_size(amounts: dict[str, Any]) -> None:
    with pytest.raises(BadValueError):
        Memory(**amounts)
