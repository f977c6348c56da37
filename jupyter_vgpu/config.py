"""Profiles as an admin writes them, checked before anything starts.

Everything that is not understood is refused with the key, the value and what is
allowed, so that a typo is never "no limit".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import MAX_DEVICES, Memory, Profile
from jupyter_vgpu.units import MIB, parse_bytes, parse_fraction, to_ppm

BACKENDS = ("auto", "intercept", "whole")
PROFILE_KEYS = ("share", "memory", "ceiling", "devices", "backend", "description", "default")

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
        ceiling_ppm=parse_ceiling(entry.get("ceiling", 1), share, f"{key}.ceiling"),
        memory=memory,
        devices=_parse_devices(entry.get("devices", 1), f"{key}.devices"),
        backend=backend,
        description=description,
        is_default=is_default,
    )


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
