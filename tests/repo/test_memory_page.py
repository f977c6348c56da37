"""docs/memory.md says of every way to get device memory what the memory matrix found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MEMORY = ROOT / "benchmarks" / "memory"
SOURCES = ROOT / "native" / "src"
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("memory-*.json"))
PRINTED = sorted((ROOT / "benchmarks" / "results").glob("memory-*.txt"))

# What is intercepted because memory goes by it, though it is no way to take or give any.
# Contexts beside OpenGL's and VDPAU's need a display.
NO_WAY = {
    "cuDevicePrimaryCtxRetain",
    "cuDeviceSetMemPool",
    "cuMemSetMemPool",
    "cuGLCtxCreate",
    "cuGLCtxCreate_v2",
    "cuVDPAUCtxCreate",
    "cuVDPAUCtxCreate_v2",
}


@pytest.fixture(scope="module")
def ways() -> list[dict[str, Any]]:
    """Return the ways that the matrix goes."""
    listing = subprocess.run(
        [sys.executable, MEMORY / "walk.py", "--list"], capture_output=True, text=True, check=True, timeout=240
    )
    return [json.loads(line) for line in listing.stdout.splitlines()]


def intercepted_for_memory() -> set[str]:
    """Return the symbols of every section of entrypoints.def that is headed by "memory"."""
    sections = re.split(r"^// --- ", (SOURCES / "entrypoints.def").read_text(), flags=re.MULTILINE)
    return {
        symbol
        for section in sections
        if section.startswith("memory")
        for symbol in re.findall(r"^CU\((\w+)", section, re.MULTILINE)
    }


def charged_elsewhere() -> set[str]:
    """Return what is listed as harmless because its memory is charged to somebody else or is overhead."""
    listed = re.findall(r'^HARMLESS\((\w+), "(.*)"\)', (SOURCES / "unhandled.def").read_text(), re.MULTILINE)
    return {name for name, why in listed if "is charged for" in why}


def without_version(symbol: str) -> str:
    return re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", symbol)


def test_every_function_intercepted_for_memory_is_in_a_way(ways: list[dict[str, Any]]) -> None:
    gone_by = {function for way in ways for function in way["functions"]}

    assert intercepted_for_memory() - gone_by - NO_WAY == set(), "add a way to benchmarks/memory"


def test_every_way_to_open_anothers_memory_is_in_a_way(ways: list[dict[str, Any]]) -> None:
    gone_by = {without_version(function) for way in ways for function in way["functions"]}
    needs_another_api = {"cuExternalMemoryGetMappedMipmappedArray"}

    assert charged_elsewhere() - gone_by - needs_another_api == set(), "add a way to benchmarks/memory"


def test_there_are_40_ways_and_no_two_of_one_name(ways: list[dict[str, Any]]) -> None:
    names = [(way["family"], way["name"]) for way in ways]

    assert len(names) >= 40
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_results_are_of_all_ways_and_everything_held(path: Path, ways: list[dict[str, Any]]) -> None:
    found = json.loads(path.read_text())["ways"]

    named = {(way["family"], way["name"], tuple(way["functions"])) for way in found}
    assert named == {(way["family"], way["name"], tuple(way["functions"])) for way in ways}, "run make memory-matrix"
    assert [
        way["name"] for way in found if way["gone"] and not (way["limited"] and way["counted"] and way["freed"])
    ] == []


@pytest.mark.parametrize("path", PRINTED, ids=lambda path: path.stem)
def test_what_was_printed_on_a_gpu_is_on_the_page_to_the_last_path(path: Path) -> None:
    head, *_, last = path.read_text().splitlines()

    page = (ROOT / "docs" / "memory.md").read_text()
    assert f"\n{head.split(':')[0]}: {last}.\n" in page, "a way that was renamed is renamed in what was printed too"


def test_the_page_is_current() -> None:
    done = subprocess.run([sys.executable, MEMORY / "table.py", "--check"], check=False, timeout=240)

    assert done.returncode == 0, "run make memory-matrix, or benchmarks/memory/table.py"


def test_no_cell_of_the_table_is_empty() -> None:
    rows = [line for line in (ROOT / "docs" / "memory.md").read_text().splitlines() if line.startswith("| ")]
    of_ways = [row for row in rows if "`cu" in row]

    assert len(of_ways) >= 40
    assert [row for row in of_ways if any(not cell.strip() for cell in row.strip("|").split("|"))] == []
