"""Fractions and sizes as people write them, and back.

A text that could be read in two ways is refused with what is allowed: a typo
is never "no limit".
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from jupyter_vgpu.errors import BadValueError

MIB = 1 << 20
GIB = 1 << 30
PPM = 1_000_000
LARGEST_BYTES = 1 << 60

_FRACTION_ALLOWED = 'a part of a device above 0 and at most 1 is, as "1/4", "25%" or 0.25 (no finer than one millionth)'
_BYTES_ALLOWED = 'a positive size with its unit is, as "10GiB", "512MiB" or "8GB", or a whole number of bytes'

_RATIO = re.compile(r"([0-9]{1,9})\s*/\s*([0-9]{1,9})")
_DECIMAL = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,12})?)\s*(%?)")
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,12})?)\s*([A-Za-z]+)")
_UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": 1 << 40,
}


def _fraction_of_text(text: str) -> Fraction | None:
    text = text.strip()
    if ratio := _RATIO.fullmatch(text):
        numerator, denominator = int(ratio[1]), int(ratio[2])
        return Fraction(numerator, denominator) if denominator else None
    if decimal := _DECIMAL.fullmatch(text):
        return Fraction(decimal[1]) / (100 if decimal[2] else 1)
    return None


def parse_fraction(text: object, key: str) -> Fraction:
    """Return the part of a device that `text` names, in (0, 1].

    Args:
        text: `"1/4"`, `"25%"`, `"0.25"`, `0.25` or `1`; a float stands for the decimal it prints as.
        key: Name of the setting, for the message.

    Raises:
        BadValueError: Anything else, also what is finer than one millionth.
    """
    value: Fraction | None = None
    if isinstance(text, bool):
        pass
    elif isinstance(text, str):
        value = _fraction_of_text(text)
    elif isinstance(text, (int, Fraction)):
        value = Fraction(text)
    elif isinstance(text, float) and math.isfinite(text):
        value = Fraction(Decimal(repr(text)))
    if value is None or not 0 < value <= 1 or to_ppm(value) == 0:
        raise BadValueError(key, text, _FRACTION_ALLOWED)
    return value


def parse_bytes(text: object, key: str) -> int:
    """Return the size that `text` names, in bytes, in [1, 2**60]; part of a byte is dropped.

    Args:
        text: `"10GiB"`, `"8GB"`, `"8 GiB"`, `"1.5GiB"`, or a number of bytes as an `int`.
        key: Name of the setting, for the message.

    Raises:
        BadValueError: Anything else; a text without a unit too, since "8" could mean anything.
    """
    size: int | None = None
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    elif isinstance(text, str) and (match := _SIZE.fullmatch(text.strip())) and match[2] in _UNITS:
        size = math.floor(Fraction(match[1]) * _UNITS[match[2]])
    if size is None or not 0 < size <= LARGEST_BYTES:
        raise BadValueError(key, text, _BYTES_ALLOWED)
    return size


def format_bytes(n: int) -> str:
    """Return `n` bytes for people, with one digit after the point: `"10.0 GiB"`."""
    if abs(n) < 1 << 10:
        return f"{n} B"
    for unit in ("KiB", "MiB", "GiB"):
        if abs(n) < _UNITS[unit] << 10:
            return f"{n / _UNITS[unit]:.1f} {unit}"
    return f"{n / _UNITS['TiB']:.1f} TiB"


def to_ppm(part: Fraction) -> int:
    """Return `part` in parts per million, rounded down so that parts of one whole never exceed it."""
    return math.floor(part * PPM)


def format_ppm(ppm: int) -> str:
    """Return parts per million for people: `"1/4"` for a simple fraction, else `"33.3 %"`."""
    near = Fraction(ppm, PPM).limit_denominator(16)
    if near and to_ppm(near) == ppm:
        return str(near)
    return f"{ppm / 10_000:.3g} %"
