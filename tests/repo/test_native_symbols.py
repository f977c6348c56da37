"""What the built libraries ask of the machine and of the process they are loaded into.

Catches bugs where a newer driver or glibc no longer had private symbols that others' libraries asked for (CASES 30).
"""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

LIB = Path(__file__).parents[2] / "jupyter_vgpu" / "lib"
LIBRARIES = ["libjupyter_vgpu.so", "libjupyter_vgpu_agent.so"]
# The first glibc of the 64-bit ARM port is 2.17 as well.
GLIBC_FLOOR = (2, 17)
# A guest never ends its host, nor hangs it (STYLE.md, habit 4).
ENDS = {"exit", "_exit", "_Exit", "quick_exit", "abort", "kill", "tgkill", "raise", "pthread_kill", "__assert_fail"}
MEDDLES = {"signal", "sigaction", "umask", "system", "popen", "sleep"}


def undefined_symbols(library: str) -> set[tuple[str, str]]:
    """Return (name, version) of each symbol that the library takes from elsewhere; version may be empty."""
    table = subprocess.run(["objdump", "-T", LIB / library], capture_output=True, text=True, check=True).stdout
    found = set()
    for line in table.splitlines():
        if "*UND*" in line:
            match = re.search(r"\*UND\*\s+[0-9a-f]+\s+(?:\(?([\w.]+)\)?\s+)?(\S+)$", line)
            assert match, f"objdump wrote a line this test does not understand: {line}"
            found.add((match[2], match[1] or ""))
    assert found, f"{library} takes nothing from anywhere: that cannot be right"
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_needs_no_glibc_above_the_floor(library: str) -> None:
    too_new = {
        f"{name}@{version}"
        for name, version in undefined_symbols(library)
        if (match := re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version))
        and (int(match[1]), int(match[2])) > GLIBC_FLOOR
    }

    assert too_new == set(), f"{library} would not load on glibc {GLIBC_FLOOR} ({platform.machine()})"


@pytest.mark.parametrize("library", LIBRARIES)
def test_takes_nothing_private_from_glibc(library: str) -> None:
    private = {name for name, version in undefined_symbols(library) if version == "GLIBC_PRIVATE"}

    assert private == set()


def test_the_interception_library_loads_whole_where_there_is_no_driver() -> None:
    """Every symbol is bound at once; the loader goes on without a preloaded library, but says so."""
    environment = {"LD_PRELOAD": str(LIB / LIBRARIES[0]), "LD_BIND_NOW": "1", "LD_LIBRARY_PATH": ""}
    done = subprocess.run(["true"], env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_interception_library_cannot_end_or_meddle_with_its_process() -> None:
    names = {name for name, _version in undefined_symbols("libjupyter_vgpu.so")}

    assert names & (ENDS | MEDDLES) == set()


@pytest.mark.parametrize("library", LIBRARIES)
def test_needs_no_library_but_libc(library: str) -> None:
    header = subprocess.run(["objdump", "-p", LIB / library], capture_output=True, text=True, check=True).stdout

    needed = set(re.findall(r"NEEDED\s+(\S+)", header))

    libc = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert needed <= libc
