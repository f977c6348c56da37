"""`jupyter vgpu run`: the command's own result, and nothing left of the slice."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.native import INTERCEPT_LIBRARY

SIMULATED = ("run", "--simulate", "a100-80")
QUARTER = (*SIMULATED, "--share", "1/4")
Vgpu = Callable[..., "subprocess.CompletedProcess[str]"]
Started = Callable[..., "subprocess.Popen[str]"]

# Prints this process's environment, and the memory the driver tells it.
LOOK = """
import ctypes, json, os
cuda = ctypes.CDLL("libcuda.so.1")
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(json.dumps({"total": total.value, "free": free.value, "env": dict(os.environ)}))
"""


def look(vgpu: Vgpu, *options: str) -> dict[str, Any]:
    done = vgpu(*SIMULATED, *options, "--", sys.executable, "-c", LOOK)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def lines_until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(process.communicate()[1])


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_what_a_plain_run_has_no_use_for_is_not_loaded() -> None:
    command = (sys.executable, "-X", "importtime", "-m", "jupyter_vgpu.cli", *QUARTER, "--ceiling", "1/2", "--", "true")
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)

    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert done.returncode == 0, done.stderr
    assert "jupyter_vgpu" in loaded
    assert loaded & {"pydantic", "tornado", "sqlalchemy", "traitlets", "jupyter_server", "IPython"} == set()


def test_the_driver_tells_the_slice_as_all_there_is(vgpu: Vgpu) -> None:
    seen = look(vgpu, "--share", "1/4", "--memory", "10GiB")

    assert seen["total"] == 10 << 30


def test_share_alone_gives_the_same_part_of_the_memory(vgpu: Vgpu) -> None:
    total = 81152 << 20

    assert look(vgpu, "--share", "25%")["total"] == total // 4


def test_no_limit_stands_in_the_environment(vgpu: Vgpu) -> None:
    seen = look(vgpu, "--share", "1/4", "--memory", "10GiB", "--ceiling", "1/2")

    ours = {name for name in seen["env"] if name.startswith("JUPYTER_VGPU_")} - {"JUPYTER_VGPU_TEST_RUN"}
    assert ours == {"JUPYTER_VGPU_SOCKET", "JUPYTER_VGPU_SECRET", "JUPYTER_VGPU_API", "JUPYTER_VGPU_SIM"}


def test_what_was_preloaded_stays_so(vgpu: Vgpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/theirs")

    seen = look(vgpu, "--share", "1/4")

    assert seen["env"]["LD_LIBRARY_PATH"].split(":")[1:] == ["/opt/theirs"]
    assert seen["env"]["LD_PRELOAD"].split(":")[0] == str(INTERCEPT_LIBRARY)


@pytest.mark.parametrize("code", [0, 1, 3, 77, 255])
def test_the_exit_code_is_the_commands(vgpu: Vgpu, temporary: Path, code: int) -> None:
    done = vgpu(*QUARTER, "--", "sh", "-c", f"exit {code}")

    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_command_ended_by_a_signal_gives_128_and_its_number(vgpu: Vgpu, temporary: Path, number: int) -> None:
    done = vgpu(*QUARTER, "--", "sh", "-c", f"kill -{int(number)} $$")

    assert done.returncode == 128 + number
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        pytest.param("no-such-command-anywhere", 127, "no such command", id="none of that name"),
        pytest.param("/no/such/file", 127, "no such command", id="no such file"),
        pytest.param("/etc/passwd", 126, "Permission denied", id="not executable"),
    ],
)
def test_a_command_that_cannot_start_is_said_as_a_shell_does(
    vgpu: Vgpu, temporary: Path, command: str, code: int, message: str
) -> None:
    done = vgpu(*QUARTER, "--", command)

    assert done.returncode == code
    assert done.stderr == f"jupyter vgpu run: {command}: {message}\n"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(started: Started, temporary: Path, number: int) -> None:
    script = f"trap 'echo got; exit 5' {int(number)}; echo ready; while :; do sleep 0.05; done"
    process = started(*QUARTER, "--", "sh", "-c", script)
    lines_until(process, "ready")

    process.send_signal(number)
    out, _ = process.communicate(timeout=120)

    assert "got" in out
    assert process.returncode == 5
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_does_not_handle_a_signal_ends_with_it(started: Started, temporary: Path, number: int) -> None:
    process = started(*QUARTER, "--", "sh", "-c", "echo ready; exec sleep 600")
    lines_until(process, "ready")

    process.send_signal(number)
    process.communicate(timeout=120)

    assert process.returncode == 128 + number
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("after_seconds", [0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4])
def test_a_signal_at_any_moment_leaves_nothing(started: Started, temporary: Path, after_seconds: float) -> None:
    process = started(*QUARTER, "--", "sleep", "600")
    time.sleep(after_seconds)

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)

    assert process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert list(temporary.iterdir()) == []


def test_what_outlives_the_command_is_ended(vgpu: Vgpu, temporary: Path) -> None:
    done = vgpu(*QUARTER, "--", "sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!; sleep 0.2")

    assert done.returncode == 0
    assert not is_alive(int(done.stdout))
    assert "ended 1 process that outlived the command" in done.stderr
    assert list(temporary.iterdir()) == []


def test_what_ignores_the_polite_end_is_killed(vgpu: Vgpu) -> None:
    stubborn = "trap '' TERM; while :; do sleep 0.05; done"

    done = vgpu(*QUARTER, "--", "sh", "-c", f'sh -c "{stubborn}" >/dev/null 2>&1 & echo $!; sleep 0.2')

    assert not is_alive(int(done.stdout))


def test_what_a_killed_run_leaves_goes_with_the_next(started: Started, vgpu: Vgpu, temporary: Path) -> None:
    process = started(*QUARTER, "--", "sh", "-c", "echo ready; exec sleep 600")
    lines_until(process, "ready")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (left,) = temporary.iterdir()
    young = vgpu(*QUARTER, "--", "true").returncode, left.exists()
    os.utime(left, (time.time() - 60, time.time() - 60))

    old = vgpu(*QUARTER, "--", "true").returncode, left.exists()

    assert young == (0, True)
    assert old == (0, False)


def test_a_living_runs_directory_stays_however_old(started: Started, vgpu: Vgpu, temporary: Path) -> None:
    process = started(*QUARTER, "--", "sh", "-c", "echo ready; exec sleep 600")
    lines_until(process, "ready")
    (folder,) = temporary.iterdir()
    os.utime(folder, (time.time() - 3600, time.time() - 3600))

    vgpu(*QUARTER, "--", "true")

    assert (folder / "attach.sock").exists()


@pytest.mark.parametrize(("name", "part"), [("1/4 GPU", 4), ("1/4", 4), ("1/8 GPU", 8), ("whole GPU", 1)])
def test_profiles_by_name(vgpu: Vgpu, name: str, part: int) -> None:
    assert look(vgpu, "--profile", name)["total"] == (81152 // part) << 20


def test_profiles_of_ones_own(vgpu: Vgpu, tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"profiles": {"small": {"memory": "3GiB"}}}))

    assert look(vgpu, "--config", str(path), "--profile", "small")["total"] == 3 << 30


def test_with_an_agent_the_slice_is_the_agents(vgpu: Vgpu, system_agent: Path, temporary: Path) -> None:
    hub = HubClient(system_agent)
    command = [sys.executable, "-m", "jupyter_vgpu.cli", "claims", "--json"]

    done = vgpu("run", "--agent", str(system_agent), "--memory", "10GiB", "--", *command, "--agent", str(system_agent))

    (claim,) = json.loads(done.stdout)["claims"]
    assert claim["hub"] == "jupyter vgpu run"
    assert claim["devices"][0]["memory_bytes"] == 10 << 30
    assert hub.claims() == []
    assert list(temporary.iterdir()) == []


def test_an_agents_claim_goes_with_a_killed_run(started: Started, system_agent: Path) -> None:
    hub = HubClient(system_agent)
    process = started("run", "--agent", str(system_agent), "--share", "1/4", "--", "sh", "-c", "echo ready; sleep 600")
    lines_until(process, "ready")
    during = len(hub.claims())

    process.kill()

    deadline = time.monotonic() + 60
    while hub.claims() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert during == 1
    assert hub.claims() == []


def test_the_environment_names_an_agent_too(vgpu: Vgpu, system_agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_VGPU_AGENT", str(system_agent))

    done = vgpu("run", "--share", "1/4", "--", "sh", "-c", "echo $JUPYTER_VGPU_SOCKET")

    assert done.stdout.strip() == str(system_agent / "attach.sock")


def test_options_of_the_command_are_the_commands(vgpu: Vgpu) -> None:
    done = vgpu(*QUARTER, "--", "echo", "--help", "--", "--share", "7")

    assert done.stdout == "--help -- --share 7\n"


def test_two_dashes_behind_the_commands_name_are_the_commands(vgpu: Vgpu) -> None:
    done = vgpu(*QUARTER, "echo", "before", "--", "after")

    assert done.stdout == "before -- after\n"


def test_standard_input_is_the_commands(vgpu: Vgpu) -> None:
    assert vgpu(*QUARTER, "--", "cat", input="words").stdout == "words"


def test_jupyter_finds_the_command() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("jupyter")), "vgpu", "--version"],
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0


def test_ctrl_c_reaches_the_command_once(temporary: Path) -> None:
    """The terminal sends it to the command itself; passed on as well, it would come twice."""
    program = (
        "import signal, sys, time\n"
        "got = []\n"
        "signal.signal(signal.SIGINT, lambda *_: got.append(print('got', flush=True)))\n"
        "print('ready', flush=True)\n"
        "while not got: time.sleep(0.05)\n"
        # A second one would be on its way.
        "until = time.monotonic() + 0.5\n"
        "while time.monotonic() < until: time.sleep(0.05)\n"
        "print('end', flush=True)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(
            sys.executable, [sys.executable, "-m", "jupyter_vgpu.cli", *QUARTER, "--", sys.executable, "-c", program]
        )
    try:
        said = b""
        while b"ready" not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        while b"end" not in said:
            said += os.read(terminal, 1000)
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)

    assert said.count(b"got") == 1
    assert os.waitstatus_to_exitcode(status) == 0
    assert list(temporary.iterdir()) == []
