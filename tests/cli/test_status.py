"""`jupyter vgpu status` inside a slice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

Vgpu = Callable[..., subprocess.CompletedProcess[str]]
QUARTER = ("run", "--simulate", "a100-80", "--share", "1/4")

# Uses the device through the library and, by a child, without it; shows the status once the agent knows of both.
USES_AND_DROPS = """
import ctypes, os, subprocess, sys, time
from jupyter_vgpu.client import UserClient
CONTEXT = (
    "import ctypes; cuda, context = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p();"
    "assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0"
)
exec(CONTEXT)
dropped = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
child = subprocess.Popen([sys.executable, "-c", CONTEXT + "; input()"], env=dropped, stdin=subprocess.PIPE)
me = UserClient.from_environment()
deadline = time.monotonic() + 120
while not me.events() or me.usage()["devices"][0]["memory_overhead_bytes"] != 2 * 450 << 20:
    assert time.monotonic() < deadline
    time.sleep(0.05)
subprocess.run([sys.executable, "-m", "jupyter_vgpu.cli", "status"], check=True)
child.communicate()
"""


def test_status_inside_a_slice_shows_the_slice(vgpu: Vgpu) -> None:
    done = vgpu(*QUARTER, "--memory", "10GiB", "--", sys.executable, "-m", "jupyter_vgpu.cli", "status", "--json")

    shown = json.loads(done.stdout)
    assert shown["slice"]["devices"][0]["memory_limit_bytes"] == 10 << 30
    assert shown["usage"]["claim"] == shown["slice"]["claim"]


def test_status_shows_what_is_guaranteed_and_how_it_was_kept(vgpu: Vgpu) -> None:
    done = vgpu(*QUARTER, "--guarantee", "1/5", "--", sys.executable, "-m", "jupyter_vgpu.cli", "status")

    assert re.search(r"^guarantee +20% of each second, never missed$", done.stdout, re.M), done.stdout + done.stderr


def test_status_shows_overhead_gpu_time_waits_and_what_was_noticed(vgpu: Vgpu) -> None:
    done = vgpu(*QUARTER, "--memory", "10GiB", "--", sys.executable, "-c", USES_AND_DROPS)

    assert done.returncode == 0, done.stderr
    assert re.search(r"^slice        share 1/4, memory 10GiB of \S+ \(bound\)$", done.stdout, re.M)
    assert "intercept (cooperative, audited" in done.stdout
    assert "900.0 MiB of 10.0 GiB, 900.0 MiB of it contexts and code" in done.stdout
    assert re.search(r"^GPU time   0\.0 s, 0% of the last second \(share 25%, ceiling 100%\)$", done.stdout, re.M)
    assert re.search(r"^waited     0\.0 s, 0% of the last second$", done.stdout, re.M)
    assert re.search(r"^held back  0 launches, for 0\.0 s$", done.stdout, re.M)
    assert re.search(r"^windows    0 given, 0 overrun; below the share for 0 s$", done.stdout, re.M)
    assert re.search(r"^\d+  python\S* .*  0 +0$", done.stdout, re.M), "a process's launches, and those held back"
    assert re.search(r"^\d\d:\d\d:\d\d  bypass  process \d+ \(python.*without the library", done.stdout, re.M)
