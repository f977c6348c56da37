"""NVML shows a slice, names no one else's processes and changes nothing: NVIDIA's header is walked."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"

# What a name has in it if the function shows memory, processes, load, how many devices there are and in which order,
# hands out handles, or changes anything.
WORDS = re.compile(
    "Memory|Mem[A-Z]|Fb[A-Z]|Process|Pids?|Account|Util|Sample|Gpm|Count|Handle|Index|Devices|Gpus|GpuSet|Sessions|"
    "Instance|BAR1|Limits|Set[A-Z]|Reset|Clear|Create|Destroy|Modify|Remove|Freeze|Lock[A-Z]|Activate|Update|Force|"
    "Setup|Write|Discover|Register"
)
# Of those, what changes something of a device or of the machine.
CHANGES = re.compile(
    "^nvml(Device|System|GpuInstance|ComputeInstance|VgpuInstance|Unit|Gpm)?(PowerSmoothing|WorkloadPowerProfile)?"
    "(Set|Reset|Clear|Create|Destroy|Modify|Remove|Freeze|Lock|Activate|Update|Force|Setup|ReadWrite|Discover)[A-Z]"
)


def rows(kind: str, name: str) -> set[str]:
    """Return the first column of a table of the native sources."""
    return set(re.findall(rf"^{kind}\((\w+)", (NATIVE / "src" / name).read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def header() -> Path:
    files = metadata.files("nvidia-nvml-dev") or []
    found = next((file for file in files if file.name == "nvml.h"), None)
    assert found is not None, "nvml.h is missing: pip install nvidia-nvml-dev (it is in the test extra)"
    return Path(str(found.locate()))


@pytest.fixture(scope="module")
def declared(header: Path) -> set[str]:
    """Return every function that nvml.h declares, old versions included."""
    return set(re.findall(r"DECLDIR (nvml\w+)\s*\(", header.read_text()))


def is_listed(name: str) -> bool:
    stems = tuple(rows("HARMLESS_LIKE", "unhandled_nvml.def"))
    return name in rows("HARMLESS", "unhandled_nvml.def") | rows("OPEN", "unhandled_nvml.def") or name.startswith(stems)


def test_every_function_that_shows_or_changes_something_is_handled_or_listed_with_a_reason(declared: set[str]) -> None:
    handled = rows("NVML", "entrypoints.def") | rows("SETS", "nvml_settings.def")

    unnoticed = {name for name in declared if WORDS.search(name)} - handled

    assert {name for name in unnoticed if not is_listed(name)} == set()
    assert len(declared) > 400, "the header is read whole"


def test_every_function_that_changes_a_device_is_refused(declared: set[str]) -> None:
    own_thread = {"nvmlDeviceSetCpuAffinity", "nvmlDeviceClearCpuAffinity"}

    assert {name for name in declared if CHANGES.search(name)} - own_thread - rows("SETS", "nvml_settings.def") == set()


def test_every_version_of_a_handled_function_is_handled(declared: set[str]) -> None:
    handled = rows("NVML", "entrypoints.def") | rows("SETS", "nvml_settings.def")
    stems = {re.sub(r"_v\d+$", "", name) for name in handled}

    assert {name for name in declared if re.sub(r"_v\d+$", "", name) in stems} - handled == set()


def test_nothing_is_both_handled_and_listed() -> None:
    handled = rows("NVML", "entrypoints.def") | rows("SETS", "nvml_settings.def")

    assert {name for name in handled if is_listed(name)} == set()


def test_our_declarations_of_its_structures_are_nvidias(header: Path) -> None:
    compiled = subprocess.run(
        ["cc", "-std=gnu11", "-fsyntax-only", f"-isystem{header.parent}", NATIVE / "tests" / "abi_check_nvml.c"],
        capture_output=True,
        text=True,
    )

    assert compiled.returncode == 0, compiled.stderr
