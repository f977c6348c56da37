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
from typing import Annotated, Literal

from pydantic import Field

from jupyter_vgpu.amounts import check_name, parse_ceiling, parse_guarantee, parse_memory
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import MAX_DEVICES, PRIORITIES, Memory, Priority, Profile
from jupyter_vgpu.reading import Entry, by, read
from jupyter_vgpu.units import MIB, PPM, parse_fraction, to_ppm

BACKENDS = ("auto", "intercept", "whole")
MEMORY_BLOCK_BYTES = 256 * MIB

BUILT_IN_PROFILES: Mapping[str, Mapping[str, object]] = {
    "1/8 GPU": {"share": "1/8"},
    "1/4 GPU": {"share": "1/4"},
    "1/2 GPU": {"share": "1/2"},
    "whole GPU": {"backend": "whole"},
}

_WHOLE = Fraction(1)
_WHOLE_ALLOWED = 'only 1 is, since backend is "whole"; use "auto" for a part'


def parse_names(value: object, key: str) -> tuple[str, ...]:
    """Return a list of names, at least one.

    Raises:
        BadValueError: It is something else.
    """
    if isinstance(value, (list, tuple)) and value and all(isinstance(name, str) and name for name in value):
        return tuple(value)
    raise BadValueError(key, value, 'a list with at least one name is, as ["course-a"]')


class ProfileEntry(Entry):
    """A profile as it is written."""

    share: Annotated[Fraction | None, by(parse_fraction)] = None
    memory: Annotated[Memory | None, by(parse_memory)] = None
    ceiling: Annotated[Fraction | None, by(parse_fraction)] = None
    guarantee: Annotated[Fraction | None, by(parse_fraction)] = None
    devices: int = Field(1, ge=1, le=MAX_DEVICES, description=f"a whole number of devices from 1 to {MAX_DEVICES} is")
    backend: Literal["auto", "intercept", "whole"] = Field("auto", description=f"one of {', '.join(BACKENDS)} is")
    description: str = Field("", description="a text is")
    default: bool = Field(False, description="true or false is")
    cores: int = Field(
        0, ge=1, le=100 * MAX_DEVICES, description=f"a whole number from 1 to {100 * MAX_DEVICES} is: hundredths"
    )
    memory_blocks: int = Field(0, ge=1, le=1 << 20, description="a whole number from 1 to 1048576 is: blocks of 256MiB")
    policy: Literal["default", "force", "disable"] = Field("default", description="one of default, force, disable is")
    priority: Priority = Field("normal", description=f"one of {', '.join(PRIORITIES)} is")
    max_hours: float | None = Field(
        None, gt=0, le=100_000, description="a number of hours above 0 and at most 100000 is, as 4 or 0.5"
    )
    allowed_groups: Annotated[tuple[str, ...] | None, by(parse_names)] = None
    order: int = Field(0, ge=-1000, le=1000, description="a whole number from -1000 to 1000 is")
    gpu: bool = Field(True, description="true or false is; false = a server without a GPU")


PROFILE_KEYS = tuple(ProfileEntry.model_fields)
_ABOUT_NO_GPU = frozenset(("gpu", "description", "default", "allowed_groups", "order"))


def parse_profile(name: str, entry: object, key: str) -> Profile:
    """Return the profile that `entry` describes.

    Args:
        name: The profile's name.
        entry: A mapping with keys of `PROFILE_KEYS`. A share alone gives the same fraction of the memory; memory
            alone gives a share of the same part, worked out on the device; neither is for `backend: whole` only, and
            for `gpu: false`.
        key: Where the entry stands, for messages.

    Raises:
        BadValueError: Naming the key, the value and what is allowed.
    """
    written = read(ProfileEntry, entry, key)
    assert isinstance(entry, Mapping)
    if not written.gpu:
        for other in entry:
            if other not in _ABOUT_NO_GPU:
                raise BadValueError(f"{key}.{other}", entry[other], "none is where gpu is false")
    share, memory, devices = _amounts(written, entry, key)
    return Profile(
        name=check_name(name, f"{key} (name)"),
        share_ppm=to_ppm(share) if share is not None else 0,
        ceiling_ppm=_ceiling(written, entry, share, key),
        memory=memory,
        devices=devices,
        backend=written.backend,
        description=written.description,
        is_default=written.default,
        priority=written.priority,
        max_hours=written.max_hours,
        allowed_groups=written.allowed_groups,
        order=written.order,
        guarantee_ppm=0
        if written.guarantee is None
        else parse_guarantee(entry["guarantee"], share, f"{key}.guarantee"),
    )


def _amounts(written: ProfileEntry, entry: Mapping[str, object], key: str) -> tuple[Fraction | None, Memory, int]:
    """Return share, memory and number of devices, whichever way they are written.

    From 100 hundredths on only whole cards can be had. source: gpu-manager, README, "vcuda-core", "vcuda-memory"
    """
    for unit, names in (("cores", ("share", "devices")), ("memory_blocks", ("memory",))):
        for name in names:
            if unit in entry and name in entry:
                raise BadValueError(f"{key}.{name}", entry[name], f"either {unit} or {name} is")
    if not written.gpu:
        return None, Memory(fraction=_WHOLE), 0
    share, memory, devices = written.share, written.memory, written.devices
    if cores := written.cores:
        if cores > 100 and (cores % 100 or "memory_blocks" in entry or "memory" in entry):
            raise BadValueError(
                f"{key}.cores", cores, "up to 100 is, or whole cards without an amount of memory: 200, 300, …"
            )
        share, devices = Fraction(min(cores, 100), 100), max(1, cores // 100)
    if written.memory_blocks:
        memory = Memory(size_bytes=written.memory_blocks * MEMORY_BLOCK_BYTES)
    if written.backend == "whole":
        # An entry that asks for less must not be called whole.
        if share not in (None, _WHOLE):
            raise BadValueError(f"{key}.share", entry.get("share", written.cores), _WHOLE_ALLOWED)
        if memory not in (None, Memory(fraction=_WHOLE)):
            raise BadValueError(f"{key}.memory", entry.get("memory", written.memory_blocks), _WHOLE_ALLOWED)
        share = _WHOLE
    if share is None and memory is None:
        raise BadValueError(
            key, dict(entry), '"share", "memory" or both must be given unless backend is "whole" or gpu is false'
        )
    return share, memory or Memory(fraction=share), devices


def _ceiling(written: ProfileEntry, entry: Mapping[str, object], share: Fraction | None, key: str) -> int:
    if written.policy == "default":
        return PPM if written.ceiling is None else parse_ceiling(entry["ceiling"], share, f"{key}.ceiling")
    if written.policy == "disable":
        if written.ceiling not in (None, _WHOLE):
            raise BadValueError(f"{key}.ceiling", entry["ceiling"], 'only 1 is with policy "disable"')
        return PPM
    if written.ceiling is not None:
        raise BadValueError(f"{key}.ceiling", entry["ceiling"], 'none is with policy "force": it is the share')
    if share is None:
        raise BadValueError(f"{key}.policy", "force", '"force" is only with a share, which then is the most there is')
    return to_ppm(share)


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
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_each_once)
    except (OSError, ValueError) as error:
        raise BadValueError("--config", str(path), f"a readable JSON file with profiles is ({error})") from error
    if not isinstance(content, dict) or set(content) != {"profiles"}:
        raise BadValueError("--config", str(path), 'a JSON object with the one key "profiles" is')
    return parse_profiles(content["profiles"])


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON; of what stands there twice, only the last would count otherwise."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} stands there twice")
    return found


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
        overrides[name] = GroupOverride(parse_names(entry["groups"], f"{here}.groups"), changes)
        parse_profiles(overridden(profiles, [overrides[name]]), f"{here}.profiles")
    return overrides


@dataclass(frozen=True)
class GroupOverride:
    """What is different for members of some groups; see `parse_group_overrides`."""

    groups: tuple[str, ...]
    profiles: Mapping[str, Mapping[str, object]]


class IsolatedEntry(Entry):
    """Who is isolated, as it is written."""

    groups: Annotated[tuple[str, ...], by(parse_names)] = ()
    users: Annotated[tuple[str, ...], by(parse_names)] = ()


@dataclass(frozen=True)
class Isolated:
    """Who shares a device with nobody else.

    Attributes:
        groups: Groups whose members share devices with members of the same group only.
        users: Users who share devices with nobody.
    """

    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def group_of(self, user: str, groups: Collection[str]) -> str:
        """Return the isolation group of a user who is in `groups`; the first named counts, empty = none."""
        if user in self.users:
            return f"user {user}"
        return next((f"group {group}" for group in self.groups if group in groups), "")


def parse_isolated(value: object, key: str) -> Isolated:
    """Return who is isolated.

    Args:
        value: `{"groups": [GROUP…], "users": [USER…]}`, each optional.
        key: Name of the setting, for messages.

    Raises:
        BadValueError: Naming the key, the value and what is allowed.
    """
    written = read(IsolatedEntry, value, key)
    return Isolated(written.groups, written.users)


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
