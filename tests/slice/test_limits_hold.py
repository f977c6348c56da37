"""A tenant cannot change its limit. Simulated board; tests that must hold with the agent's own UID too."""

from __future__ import annotations

import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.native import LIB_DIR

IS_LIMITED = "start(); say(refused(cu.cuMemAlloc(11 * GIB))); say(ok(cu.cuMemGetInfo())[1] <= 10 * GIB)"
HAS_NO_DEVICE = "say(cu.cuInit(0)[0] == cu.CUresult.CUDA_ERROR_NO_DEVICE)"


def _names_the_library_reads() -> set[str]:
    """Return every JUPYTER_VGPU_* name in the shipped library."""
    content = (LIB_DIR / "libjupyter_vgpu.so").read_bytes()
    return {text.decode() for text in content.split(b"\0") if text.startswith(b"JUPYTER_VGPU_") and text.isascii()}


def test_the_library_reads_two_variables_and_no_others() -> None:
    """A variable more is a way round more: it needs tests here first."""
    assert _names_the_library_reads() == {"JUPYTER_VGPU_SOCKET", "JUPYTER_VGPU_SECRET"}


@pytest.mark.parametrize(
    "name",
    ["LIMIT", "MEMORY", "MEMORY_LIMIT", "SHARE", "CEILING", "POLICY", "DISABLE", "CORE_UTILIZATION_POLICY", "DEBUG"],
)
def test_a_variable_that_sounds_like_a_limit_changes_nothing(ten_gib: Any, name: str) -> None:
    """Catches a bug where a variable in the user's own environment switched the limiter off (CASES 3)."""
    for value in ("0", "99999999999999", "off"):
        assert ten_gib.says(IS_LIMITED, **{f"JUPYTER_VGPU_{name}": value}) == ["True", "True"]


@pytest.mark.parametrize(
    "changes",
    [
        {"JUPYTER_VGPU_SOCKET": None},
        {"JUPYTER_VGPU_SECRET": None},
        {"JUPYTER_VGPU_SOCKET": ""},
        {"JUPYTER_VGPU_SECRET": ""},
        {"JUPYTER_VGPU_SOCKET": "/nonexistent/attach.sock"},
        {"JUPYTER_VGPU_SOCKET": "/dev/null"},
        {"JUPYTER_VGPU_SOCKET": "/" + "long" * 100},
        {"JUPYTER_VGPU_SECRET": "0" * 64},
        {"JUPYTER_VGPU_SECRET": "Z" * 64},
        pytest.param({"JUPYTER_VGPU_SECRET": secrets.token_hex(32)}, id="another secret"),
        {"JUPYTER_VGPU_SECRET": "abc"},
    ],
    ids=str,
)
def test_without_a_valid_claim_there_is_no_device_and_one_line_says_why(
    ten_gib: Any, changes: dict[str, str | None]
) -> None:
    done = ten_gib.run(HAS_NO_DEVICE, **changes)

    assert done.stdout.splitlines() == ["True"]
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("jupyter_vgpu: no GPU for this process: ")


def test_nvml_shows_no_device_without_a_claim(ten_gib: Any) -> None:
    done = ten_gib.run(
        "import pynvml; pynvml.nvmlInit(); say(pynvml.nvmlDeviceGetCount())", JUPYTER_VGPU_SECRET="0" * 64
    )

    assert done.stdout.splitlines() == ["0"]
    assert "no GPU for this process" in done.stderr


def test_an_agent_of_the_tenants_own_is_not_believed_where_root_has_one(ten_gib: Any) -> None:
    """Catches a bug where the user pointed the library at another file or limit by environment (CASES 2)."""
    if os.getuid() != 0:
        pytest.skip("needs root: the false agent runs as another user")
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in Path(sys.executable).parents):
        pytest.skip("needs an environment that other users may enter, which one below a closed /root is not")
    # In a mount namespace of its own this test's agent is "root's": its socket lies where a system agent's would.
    script = f"""
        mount -t tmpfs none /run && mkdir -p -m 755 /run/jupyter-vgpu && : > /run/jupyter-vgpu/attach.sock
        mkdir -m 777 /run/tenant
        exec {sys.executable} {Path(__file__).parent / "false_agent.py"} /run/tenant
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script],
        env=ten_gib.environment(LD_PRELOAD=None, FALSE_PRELOAD=ten_gib.granted.edits.preload[0]),
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr
    assert "believed False" in done.stdout
    assert "this machine's node agent is root's" in done.stderr


def test_a_released_claim_grants_nothing_more(claim: Callable[..., Any]) -> None:
    held = claim(10 << 30)
    program = held.start("""
        start()
        ok(cu.cuMemAlloc(GIB)); say('held')
        sys.stdin.readline()
        say(refused(cu.cuMemAlloc(GIB)))
    """)
    assert program.stdout.readline() == "held\n"

    held.release()
    said = program.communicate("\n")[0]

    assert said == "True\n"
    assert "no GPU for this process" in held.run(HAS_NO_DEVICE).stderr


def test_the_pages_in_a_tenants_process_cannot_be_made_writable(ten_gib: Any) -> None:
    """The tenant looks for the control page among its own mappings and descriptors and tries what there is."""
    said = ten_gib.says("""
        import ctypes, mmap
        start()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        maps = [line.split() for line in open("/proc/self/maps") if "jvgpu-control" in line]
        say(len(maps))
        begin, end = (int(part, 16) for part in maps[0][0].split("-"))
        say(maps[0][1].startswith("r--"))
        say(libc.mprotect(begin, end - begin, mmap.PROT_READ | mmap.PROT_WRITE) != 0)
        # No descriptor is left open; as root the mapping's file can still be opened by its path.
        say([fd for fd in os.listdir("/proc/self/fd") if "jvgpu" in os.path.realpath(f"/proc/self/fd/{fd}")])
        try:
            file = os.open(f"/proc/self/map_files/{maps[0][0]}", os.O_RDWR)
            mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            say("mapped writable")
        except (PermissionError, FileNotFoundError) as error:
            say("refused")
        try:
            with open("/proc/self/mem", "r+b", buffering=0) as memory:
                memory.seek(begin)
                memory.write(b"\\xff" * 8)
                say("written")
        except OSError:
            say("refused")
        say(refused(cu.cuMemAlloc(11 * GIB)))
    """)

    assert said == ["1", "True", "True", "[]", "refused", "refused", "True"]
