"""Fractions and sizes: the right value, or a refusal that says what is allowed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.units import format_bytes, format_ppm, parse_bytes, parse_fraction, to_ppm

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("1/4", Fraction(1, 4), id="a ratio"),
        pytest.param(" 1 / 3 ", Fraction(1, 3), id="a ratio with spaces"),
        pytest.param("25%", Fraction(1, 4), id="per cent"),
        pytest.param("12.5 %", Fraction(1, 8), id="part of a per cent"),
        pytest.param("0.25", Fraction(1, 4), id="a decimal as text"),
        pytest.param(0.1, Fraction(1, 10), id="a float is the decimal it prints as"),
        pytest.param(1, Fraction(1), id="the whole as a number"),
        pytest.param("100%", Fraction(1), id="the whole as per cent"),
        pytest.param("1/1000000", Fraction(1, 1_000_000), id="the finest"),
        pytest.param(Fraction(2, 3), Fraction(2, 3), id="a Fraction"),
    ],
)
def test_a_fraction_is_read_as_it_is_written(text: object, value: Fraction) -> None:
    assert parse_fraction(text, "share") == value


@pytest.mark.parametrize(
    "text",
    [
        *(0, 0.0, -0.0, -0.25, 1.5, 2, float("nan"), float("inf"), float("-inf"), 1e-9, True, False, None, b"1/4", [1]),
        *("", " ", "0", "0/4", "1/0", "5/4", "-1/4", "150%", "0%", "nan", "inf", "1e-9", "0,5", "1/4 GPU", "0x1"),
        *("1/4/2", "%", "25 percent", "٢/٤", "1/1000001", "1_0%"),
    ],
)
def test_what_is_no_part_of_a_device_is_refused(text: object) -> None:
    with pytest.raises(BadValueError) as refusal:
        parse_fraction(text, "profiles['a'].share")

    assert str(refusal.value).startswith(f"profiles['a'].share: {text!r} is not allowed; ")
    assert '"1/4", "25%" or 0.25' in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("10GiB", 10 * GIB, id="GiB are binary"),
        pytest.param("8GB", 8 * 10**9, id="GB are decimal"),
        pytest.param("8 GiB", 8 * GIB, id="a space before the unit"),
        pytest.param("512MiB", 512 << 20, id="MiB"),
        pytest.param("1.5GiB", 3 * GIB // 2, id="a part of a unit"),
        pytest.param("0.1KiB", 102, id="part of a byte is dropped"),
        pytest.param((256 << 20) - 1, (256 << 20) - 1, id="bytes, one below a block"),
        pytest.param(1, 1, id="one byte"),
    ],
)
def test_a_size_is_read_as_it_is_written(text: object, value: int) -> None:
    assert parse_bytes(text, "memory") == value


@pytest.mark.parametrize(
    "text",
    [
        *(0, -1, 1 << 61, 8.0, True, None, float("nan"), b"8GiB"),
        *("", "8", "8GiBB", "8 g", "8gib", "8Gi", "0x10", "0x10GiB", "abc", "-8GiB", "0GiB", "8,5GiB", "1e3GiB"),
        *("GiB", "8GiB 8GiB", "٨GiB", "9999999TiB", "nanGiB"),
    ],
)
def test_what_is_no_size_is_refused(text: object) -> None:
    """Catches bugs where "8GiB" was read as 8 bytes, "abc" as unlimited, "-1" as 16 EiB (CASES 5)."""
    with pytest.raises(BadValueError) as refusal:
        parse_bytes(text, "memory")

    assert str(refusal.value).startswith(f"memory: {text!r} is not allowed; ")
    assert '"10GiB"' in str(refusal.value)


def test_parts_of_a_whole_never_exceed_it() -> None:
    third = to_ppm(Fraction(1, 3))

    assert third == 333_333
    assert 3 * third <= 1_000_000


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1 << 20, "1.0 MiB"),
        (10 * GIB, "10.0 GiB"),
        (5 << 40, "5.0 TiB"),
        (-GIB, "-1.0 GiB"),
    ],
)
def test_bytes_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("ppm", "text"),
    [(250_000, "1/4"), (333_333, "1/3"), (1_000_000, "1"), (120_000, "12 %"), (1, "0.0001 %"), (0, "0 %")],
)
def test_shares_for_people(ppm: int, text: str) -> None:
    assert format_ppm(ppm) == text
