"""Amounts and names as somebody writes them, each checked by itself.

Apart from `config`, whose models cost a tenth of a second to load: `jupyter vgpu run` is given a few amounts and needs
no more than these.
"""

from __future__ import annotations

from fractions import Fraction

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Memory
from jupyter_vgpu.units import MIB, parse_bytes, parse_fraction, to_ppm


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


def parse_guarantee(value: object, share: Fraction | None, key: str) -> int:
    """Return the guarantee that `value` names, in parts per million.

    Args:
        value: A fraction, as in `parse_fraction`.
        share: The share it may not be above; `None` = not known before placement.
        key: Name of the setting, for the message.

    Raises:
        BadValueError: It is no fraction, or above the share.
    """
    guarantee = parse_fraction(value, key)
    if share is not None and guarantee > share:
        raise BadValueError(key, value, f"at most the share ({share}) is: what is guaranteed must have been promised")
    return to_ppm(guarantee)
