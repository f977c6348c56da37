"""Every intercepted function is met by each way in which a program finds a function: all versions, all twins."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

NATIVE = Path(__file__).parents[2] / "native"
PER_THREAD = 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

SETUP = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
ours = ctypes.CDLL(os.environ["LD_PRELOAD"].split(":")[0])
everybody = ctypes.CDLL(None)
dlvsym = everybody.dlvsym
dlvsym.restype, dlvsym.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)

def address(library, symbol):
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value if hasattr(library, symbol) else None

def ask(name, version, flags, which):
    pointer, status = ctypes.c_void_p(), ctypes.c_int(-1)
    arguments = name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags)
    if which == 1:
        cuda.cuGetProcAddress(*arguments)
    else:
        cuda.cuGetProcAddress_v2(*arguments, ctypes.byref(status))
    return pointer.value
"""


def intercepted() -> list[str]:
    """Return every symbol of the driver's that the library answers for."""
    return re.findall(r"^CU\((\w+)", (NATIVE / "src" / "entrypoints.def").read_text(), re.MULTILINE)


def rows_of_the_driver() -> dict[str, tuple[str, int, bool]]:
    """Return name, version and whether it is a per-thread twin, of each symbol of the simulated driver."""
    text = "".join((NATIVE / "sim" / name).read_text() for name in ("driver.def", "unsupported.def"))
    found = re.findall(r"SIM_(ENTRY|TWIN)\((\w+), (\w+), (\d+)\)", text)
    return {symbol: (name, int(version), kind == "TWIN") for kind, name, symbol, version in found}


@pytest.fixture
def hooks(ten_gib: Any) -> Any:
    """Return a function that evaluates an expression for each symbol and returns those for which it is false."""

    def where_not(expression: str, rows: list[Any]) -> Any:
        said = ten_gib.says(SETUP + f"rows = {rows!r}\nsay(json.dumps([row for row in rows if not ({expression})]))\n")
        return said[-1]

    return where_not


def in_the_driver() -> list[str]:
    return [symbol for symbol in intercepted() if symbol in rows_of_the_driver()]


def test_most_of_what_is_intercepted_is_in_the_simulated_driver() -> None:
    assert len(in_the_driver()) > 100


def test_a_handle_of_the_driver_leads_to_the_hook(hooks: Any) -> None:
    assert hooks("address(cuda, row) == address(ours, row) is not None", in_the_driver()) == "[]"


def test_the_global_scope_leads_to_the_hook(hooks: Any) -> None:
    """A program that was linked against the driver, or looks a name up in RTLD_DEFAULT."""
    assert hooks("address(everybody, row) == address(ours, row)", in_the_driver()) == "[]"


def test_a_versioned_look_up_leads_to_the_hook_where_the_driver_has_that_version(hooks: Any) -> None:
    """The simulated driver's symbols have one version; where there is none, nothing is found, as without us."""
    expression = 'dlvsym(cuda._handle, row.encode(), b"no such version") in (None, address(ours, row))'

    assert hooks(expression, in_the_driver()) == "[]"


@pytest.mark.parametrize("version", [1, 2])
def test_the_drivers_own_look_up_leads_to_the_hook(hooks: Any, version: int) -> None:
    rows = rows_of_the_driver()
    asked = [(symbol, *rows[symbol]) for symbol in in_the_driver()]
    expression = f"ask(row[1], row[2], {PER_THREAD} if row[3] else 0, {version}) == address(ours, row[0])"

    assert hooks(expression, asked) == "[]"


def test_for_every_version_and_default_stream_the_hook_stands_for_what_the_driver_would_give(ten_gib: Any) -> None:
    """As `cudaGetDriverEntryPoint` asks: a plain name, the runtime's own version, the program's default stream."""
    rows = rows_of_the_driver()
    names = sorted({rows[symbol][0] for symbol in in_the_driver()})
    versions = sorted({version for _name, version, _is_twin in rows.values()})
    # A symbol of ours has its own address; where it has none that is ours, the driver's.
    given = (
        SETUP
        + f"""
names, versions, symbols = {names!r}, {versions!r}, {sorted(rows)!r}
known = {{address(cuda, symbol): symbol for symbol in symbols}}
say(json.dumps([known.get(ask(name, version, flags, which), "nothing")
                for name in names for version in versions for flags in (0, 1, 2) for which in (1, 2)]))
say(sum(pointer == address(ours, symbol) for pointer, symbol in known.items()))
"""
    )
    without_us = given.replace('ours = ctypes.CDLL(os.environ["LD_PRELOAD"].split(":")[0])', "ours = cuda")

    with_hooks, count = ten_gib.says(given)
    by_the_driver, _count = ten_gib.says(without_us, LD_PRELOAD=None)

    assert int(count) == len(in_the_driver())
    assert with_hooks == by_the_driver
    assert {*json.loads(with_hooks)} >= {*in_the_driver()}


def test_what_the_driver_has_not_is_not_there_by_any_way(hooks: Any) -> None:
    """Catches a bug of ours where nothing was found and no error told, by which Python 3.11 crashed (CASES 19)."""
    missing = [symbol for symbol in intercepted() if symbol not in rows_of_the_driver()]

    assert missing, "the simulated driver is older than the newest header"
    assert hooks("address(cuda, row) is None and address(everybody, row) is None", missing) == "[]"
