"""Profiles as an admin writes them, checked before anything starts.

Everything that is not understood is refused with the key, the value and what is
allowed, so that a typo is never "no limit".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import MAX_DEVICES, PRIORITIES, Memory, Profile
from jupyter_vgpu.units import MIB, parse_bytes, parse_fraction, to_ppm

BACKENDS = ("auto", "intercept", "whole")
POLICIES = ("default", "force")
PROFILE_KEYS = (
    "share",
    "memory",
    "ceiling",
    "devices",
    "backend",
    "description",
    "default",
    "cores",
    "memory_blocks",
    "policy",
    "priority",
    "max_hours",
    "allowed_groups",
    "order",
)
MEMORY_BLOCK_BYTES = 256 * MIB

BUILT_IN_PROFILES: Mapping[str, Mapping[str, object]] = {
    "1/8 GPU": {"share": "1/8"},
    "1/4 GPU": {"share": "1/4"},
    "1/2 GPU": {"share": "1/2"},
    "whole GPU": {"backend": "whole"},
}

_WHOLE = Fraction(1)
_WHOLE_ALLOWED = 'only 1 is, since backend is "whole"; use "auto" for a part'


def parse_memory(value: object, key: str) -> Memory:
    """Return the memory that `value` names.

    Args:
        value: A fraction of the device (`"1/4"`, `"25%"`, `0.25`, `1`) or a size (`"10GiB"`, bytes as an `int`).
        key: Name of the setting, for the message.

    Raises:
        BadValueError: It is neither, or below 1 MiB.
    """
    is_size = isinstance(value, int) and not isinstance(value, bool) and value > 1
    if not is_size and (not isinstance(value, str) or not any(letter.isalpha() for letter in value)):
        try:
            return Memory(fraction=parse_fraction(value, key))
        except BadValueError:
            pass  # say what both kinds look like
    else:
        try:
            size_bytes = parse_bytes(value, key)
        except BadValueError:
            size_bytes = 0
        if size_bytes >= MIB:
            return Memory(size_bytes=size_bytes)
    raise BadValueError(
        key, value, 'a size of at least 1MiB with its unit is, as "10GiB" or "512MiB", or a fraction, as "1/4" or "25%"'
    )


def _parse_devices(value: object, key: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_DEVICES:
        return value
    raise BadValueError(key, value, f"a whole number of devices from 1 to {MAX_DEVICES} is")


def parse_backend(value: object, key: str) -> str:
    """Return `value` if it is the name of a backend, or `"auto"`.

    Raises:
        BadValueError: It is not.
    """
    if isinstance(value, str) and value in BACKENDS:
        return value
    raise BadValueError(key, value, f"one of {', '.join(BACKENDS)} is")


def check_name(value: object, key: str, longest: int = 100) -> str:
    """Return `value` if it is a name: 1..`longest` printable characters, no space at either end.

    Raises:
        BadValueError: It is not.
    """
    if isinstance(value, str) and 0 < len(value) <= longest and value.isprintable() and value == value.strip():
        return value
    raise BadValueError(key, value, f"a printable text of 1 to {longest} characters is")


def parse_ceiling(value: object, share: Fraction | None, key: str) -> int:
    """Return the ceiling that `value` names, in parts per million.

    Args:
        value: A fraction, as in `parse_fraction`.
        share: The share it may not be below; `None` = not known before placement.
        key: Name of the setting, for the message.

    Raises:
        BadValueError: It is no fraction, or below the share.
    """
    ceiling = parse_fraction(value, key)
    if share is not None and ceiling < share:
        raise BadValueError(key, value, f"at least the share ({share}) is: a ceiling is the most a slice may use")
    return to_ppm(ceiling)


def parse_profile(name: str, entry: object, key: str) -> Profile:
    """Return the profile that `entry` describes.

    Args:
        name: The profile's name.
        entry: A mapping with keys of `PROFILE_KEYS`. A share alone gives the same fraction of the memory; memory
            alone gives a share of the same part, worked out on the device; neither is for `backend: whole` only.
        key: Where the entry stands, for messages.

    Raises:
        BadValueError: Naming the key, the value and what is allowed.
    """
    if not isinstance(entry, Mapping):
        raise BadValueError(key, entry, f"a mapping with some of {', '.join(PROFILE_KEYS)} is")
    for unknown in entry:
        if unknown not in PROFILE_KEYS:
            raise BadValueError(f"{key}.{unknown}", entry[unknown], f"only the keys {', '.join(PROFILE_KEYS)} are")
    entry = _in_parts(entry, key)
    backend = parse_backend(entry.get("backend", "auto"), f"{key}.backend")
    share = parse_fraction(entry["share"], f"{key}.share") if "share" in entry else None
    memory = parse_memory(entry["memory"], f"{key}.memory") if "memory" in entry else None
    if backend == "whole":
        share, memory = _check_whole(entry, share, memory, key)
    elif share is None and memory is None:
        raise BadValueError(key, dict(entry), '"share", "memory" or both must be given unless backend is "whole"')
    if memory is None:
        memory = Memory(fraction=share)
    description = entry.get("description", "")
    if not isinstance(description, str):
        raise BadValueError(f"{key}.description", description, "a text is")
    is_default = entry.get("default", False)
    if not isinstance(is_default, bool):
        raise BadValueError(f"{key}.default", is_default, "true or false is")
    return Profile(
        name=check_name(name, f"{key} (name)"),
        share_ppm=to_ppm(share) if share is not None else 0,
        ceiling_ppm=_ceiling(entry, share, key),
        memory=memory,
        devices=_parse_devices(entry.get("devices", 1), f"{key}.devices"),
        backend=backend,
        description=description,
        is_default=is_default,
        priority=_one_of(entry, "priority", PRIORITIES, "normal", key),
        max_hours=_max_hours(entry, key),
        allowed_groups=_groups(entry["allowed_groups"], f"{key}.allowed_groups") if "allowed_groups" in entry else None,
        order=_whole_number(entry.get("order", 0), f"{key}.order", -1000, 1000),
    )


def _in_parts(entry: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return `entry` with hundredths of a card and 256 MiB blocks written as share, devices and memory.

    From 100 hundredths on only whole cards can be had. source: gpu-manager, README, "vcuda-core", "vcuda-memory"
    """
    parts = dict(entry)
    for unit, names in (("cores", ("share", "devices")), ("memory_blocks", ("memory",))):
        for name in names:
            if unit in entry and name in entry:
                raise BadValueError(f"{key}.{name}", entry[name], f"either {unit} or {name} is")
    if "cores" in entry:
        cores = _whole_number(parts.pop("cores"), f"{key}.cores", 1, 100 * MAX_DEVICES)
        if cores > 100 and (cores % 100 or "memory_blocks" in entry or "memory" in entry):
            raise BadValueError(
                f"{key}.cores", cores, "up to 100 is, or whole cards without an amount of memory: 200, 300, …"
            )
        parts["share"], parts["devices"] = Fraction(min(cores, 100), 100), max(1, cores // 100)
    if "memory_blocks" in entry:
        blocks = _whole_number(parts.pop("memory_blocks"), f"{key}.memory_blocks", 1, 1 << 20)
        parts["memory"] = blocks * MEMORY_BLOCK_BYTES
    return parts


def _ceiling(entry: Mapping[str, object], share: Fraction | None, key: str) -> int:
    if _one_of(entry, "policy", POLICIES, "default", key) == "default":
        return parse_ceiling(entry.get("ceiling", 1), share, f"{key}.ceiling")
    if "ceiling" in entry:
        raise BadValueError(f"{key}.ceiling", entry["ceiling"], 'none is with policy "force": it is the share')
    if share is None:
        raise BadValueError(f"{key}.policy", "force", '"force" is only with a share, which then is the most there is')
    return to_ppm(share)


def _one_of(entry: Mapping[str, object], name: str, allowed: tuple[str, ...], default: str, key: str) -> str:
    value = entry.get(name, default)
    if isinstance(value, str) and value in allowed:
        return value
    raise BadValueError(f"{key}.{name}", value, f"one of {', '.join(allowed)} is")


def _whole_number(value: object, key: str, least: int, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise BadValueError(key, value, f"a whole number from {least} to {most} is")


def _max_hours(entry: Mapping[str, object], key: str) -> float | None:
    if "max_hours" not in entry:
        return None
    value = entry["max_hours"]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 100_000:
        return float(value)
    raise BadValueError(f"{key}.max_hours", value, "a number of hours above 0 and at most 100000 is, as 4 or 0.5")


def _groups(value: object, key: str) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and value and all(isinstance(name, str) and name for name in value):
        return tuple(value)
    raise BadValueError(key, value, 'a list with at least one name of a group is, as ["course-a"]')


def _check_whole(
    entry: Mapping[str, object], share: Fraction | None, memory: Memory | None, key: str
) -> tuple[Fraction, Memory]:
    """Return share and memory of a whole device; refuse an entry that asks for less and calls it whole."""
    if share not in (None, _WHOLE):
        raise BadValueError(f"{key}.share", entry["share"], _WHOLE_ALLOWED)
    if memory not in (None, Memory(fraction=_WHOLE)):
        raise BadValueError(f"{key}.memory", entry["memory"], _WHOLE_ALLOWED)
    return _WHOLE, Memory(fraction=_WHOLE)


def parse_profiles(mapping: object, key: str = "profiles") -> list[Profile]:
    """Return the profiles of `mapping`, in its order, exactly one of them the default.

    Args:
        mapping: Name → entry, see `parse_profile`.
        key: Name of the setting, for messages.

    Raises:
        BadValueError: An entry is wrong, there is none, or two are the default.
    """
    if not isinstance(mapping, Mapping) or not mapping:
        raise BadValueError(key, mapping, 'a mapping with at least one profile is, as {"1/4 GPU": {"share": "1/4"}}')
    profiles = [parse_profile(name, entry, f"{key}[{name!r}]") for name, entry in mapping.items()]
    profiles.sort(key=lambda profile: profile.order)
    defaults = [profile.name for profile in profiles if profile.is_default]
    if len(defaults) > 1:
        raise BadValueError(f"{key}[{defaults[1]!r}].default", True, f"only one default is, and {defaults[0]!r} is one")
    if not defaults:
        profiles[0] = replace(profiles[0], is_default=True)
    return profiles


def load_profiles(path: Path) -> list[Profile]:
    """Return the profiles of a JSON file `{"profiles": {NAME: {…}}}`.

    Raises:
        BadValueError: The file cannot be read, is not JSON, or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadValueError("config", str(path), f"a readable JSON file with profiles is ({error})") from error
    if not isinstance(content, dict) or set(content) != {"profiles"}:
        raise BadValueError("config", str(path), 'a JSON object with the one key "profiles" is')
    return parse_profiles(content["profiles"])


def parse_group_overrides(value: object, profiles: Mapping[str, object], key: str) -> dict[str, GroupOverride]:
    """Return what is different for some groups, by name, in the names' order, which is the order of application.

    Args:
        value: `{NAME: {"groups": [GROUP…], "profiles": {PROFILE: {…}}}}`; a profile's keys replace those of the profile
            of the same name, a new name is a profile more.
        profiles: The profiles that everyone has, as written.
        key: Name of the setting, for messages.

    Raises:
        BadValueError: An entry is wrong, or the profiles are with it.
    """
    if not isinstance(value, Mapping):
        raise BadValueError(key, value, 'a mapping is, as {"01-course": {"groups": ["a"], "profiles": {…}}}')
    overrides = {}
    for name in sorted(value, key=str):
        entry, here = value[name], f"{key}[{name!r}]"
        if not isinstance(entry, Mapping) or set(entry) != {"groups", "profiles"}:
            raise BadValueError(here, entry, 'a mapping with the keys "groups" and "profiles" is')
        changes = entry["profiles"]
        if not isinstance(changes, Mapping) or not all(isinstance(change, Mapping) for change in changes.values()):
            raise BadValueError(f"{here}.profiles", changes, "a mapping from profiles to mappings is")
        overrides[name] = GroupOverride(_groups(entry["groups"], f"{here}.groups"), changes)
        parse_profiles(overridden(profiles, [overrides[name]]), f"{here}.profiles")
    return overrides


@dataclass(frozen=True)
class GroupOverride:
    """What is different for members of some groups; see `parse_group_overrides`."""

    groups: tuple[str, ...]
    profiles: Mapping[str, Mapping[str, object]]


def overridden(profiles: Mapping[str, object], overrides: Sequence[GroupOverride]) -> dict[str, object]:
    """Return `profiles`, as written, with `overrides` applied in order.

    One profile that an override makes the default is the only one.
    """
    merged: dict[str, object] = dict(profiles)
    for override in overrides:
        if any(change.get("default") is True for change in override.profiles.values()):
            merged = {
                name: {k: v for k, v in entry.items() if k != "default"} if isinstance(entry, Mapping) else entry
                for name, entry in merged.items()
            }
        for name, change in override.profiles.items():
            old = merged.get(name, {})
            merged[name] = {**(old if isinstance(old, Mapping) else {}), **change}
    return merged


def profiles_for(profiles: Sequence[Profile], groups: Collection[str]) -> list[Profile]:
    """Return those of `profiles` that a member of `groups` may use, one of them the default unless there is none."""
    mine = [p for p in profiles if p.allowed_groups is None or any(group in groups for group in p.allowed_groups)]
    if mine and not any(profile.is_default for profile in mine):
        mine[0] = replace(mine[0], is_default=True)
    return mine
