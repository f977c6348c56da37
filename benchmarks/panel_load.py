"""What open panels cost the Jupyter server: its CPU time, and how long its answers take meanwhile.

Starts a Jupyter server in a quarter of a simulated board, opens event streams as panels do, asks `jupyter-vgpu/usage`
and `api/status` now and then, and prints one JSON object:

    python benchmarks/panel_load.py --panels 50 --seconds 60 --keep

The server's CPU time is that of its process (not of agent and clients), as a part of one core, with the panels open
less that without any. CPU time is worth more or less with what else the machine does (caches, hyperthreads), so what
a panel costs is given in requests of Jupyter Server's own `api/status` as well, and in wake-ups, which are the same
on any machine. The server has a core to itself; agent, readers and who asks share the others. Where this user may,
all of them run before the machine's other work (`sched_fifo`), or a busy neighbour would be measured. Without panels
the same is asked first: what that takes is the machine's, not the panels'.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

ASK_EVERY_SECONDS = 0.1
RESULTS = Path(__file__).parent / "results"


def put_first() -> bool:
    """Run this process, and what it starts, before the machine's other work; return whether that is allowed here."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except (AttributeError, PermissionError):
        return False
    return True


def share_out_cores(server: psutil.Process) -> bool:
    """Give the server a core of its own, every other process of this benchmark the rest; return whether it could be."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return False
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        if process.pid != server.pid:
            with suppress(psutil.NoSuchProcess):  # a server starts some that end at once
                process.cpu_affinity(cores[1:])
    server.cpu_affinity(cores[:1])
    for thread in server.threads():
        os.sched_setaffinity(thread.id, cores[:1])
    return True


@contextmanager
def jupyter_server(folder: Path) -> Iterator[tuple[str, dict[str, str], psutil.Process]]:
    """Run a Jupyter server in a slice; yield its URL, the headers it wants and its process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    token = secrets.token_hex(16)
    root = Path(__file__).parents[1]
    command = [
        *(sys.executable, "-m", "jupyter_vgpu.cli", "run", "--simulate", "a100-80", "--share", "1/4", "--"),
        *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port", str(port)),
        *("--ServerApp.port_retries=0", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"),
    ]
    environment = {**os.environ, "HOME": str(folder), "JUPYTER_CONFIG_PATH": str(root / "jupyter-config")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{url}api", timeout=5)
                break
            except httpx.TransportError:
                if time.monotonic() > deadline or process.poll() is not None:
                    sys.exit((folder / "log").read_text(errors="replace"))
                time.sleep(0.1)
        [server] = [child for child in psutil.Process(process.pid).children() if "jupyter_server" in child.cmdline()]
        yield url, {"Authorization": f"token {token}"}, server
    finally:
        process.terminate()
        process.wait(30)


READER = """
import sys, threading
import httpx

url, token, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = [0] * count

def read(number):
    with httpx.stream("GET", url, headers={"Authorization": token}, timeout=30) as stream:
        for piece in stream.iter_raw():
            seen[number] += piece.count(b"data: ")

for number in range(count):
    threading.Thread(target=read, args=(number,), daemon=True).start()
print("open", flush=True)
for line in sys.stdin:
    print(sum(seen), flush=True)
"""


class Panels:
    """Open event streams, read by a process of their own: what they cost there is not the server's."""

    def __init__(self, url: str, headers: dict[str, str], count: int) -> None:
        """Open them."""
        command = [sys.executable, "-c", READER, f"{url}jupyter-vgpu/live", headers["Authorization"], str(count)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def events(self) -> int:
        """Return how many events came so far, on all streams together."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._line())

    def close(self) -> None:
        """Hang up."""
        self._process.kill()
        self._process.communicate()


def cpu_seconds(server: psutil.Process) -> float:
    """Return the CPU time of all threads of the server, as the scheduler has it: finer than clock ticks."""
    tasks = Path(f"/proc/{server.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def wake_ups(server: psutil.Process) -> int:
    """Return how often the threads of the server have gone to sleep so far, to be woken up again."""
    tasks = Path(f"/proc/{server.pid}/task").glob("*/status")
    return sum(int(task.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for task in tasks)


def watch(server: psutil.Process, seconds: float) -> tuple[float, float]:
    """Return the server's CPU time as a part of a core, and its wake-ups a second, over `seconds`."""
    before, woken, started = cpu_seconds(server), wake_ups(server), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - started
    return (cpu_seconds(server) - before) / elapsed, (wake_ups(server) - woken) / elapsed


def answers(url: str, headers: dict[str, str], path: str, seconds: float) -> dict[str, float]:
    """Return how long answers to `GET path` take, in milliseconds, asked now and then over `seconds`."""
    times = []
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=30)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        connection.request("GET", where.path + path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        times.append((time.perf_counter() - started) * 1e3)
        if answer.status != 200:
            sys.exit(f"GET {path}: status {answer.status}")
        time.sleep(ASK_EVERY_SECONDS)
    connection.close()
    times.sort()
    return {
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(times[min(len(times) - 1, int(len(times) * 0.99))], 2),
        "most_ms": round(times[-1], 2),
        "requests": len(times),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures and the conditions they were taken under."""
    is_first = put_first()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, jupyter_server(Path(name)) as (url, headers, server):
        has_own_core = share_out_cores(server)
        time.sleep(3)
        idle, idle_woken = watch(server, options.seconds)
        before, started = cpu_seconds(server), time.monotonic()
        quiet = answers(url, headers, "api/status", options.seconds)
        asking = cpu_seconds(server) - before - idle * (time.monotonic() - started)
        one_answer_seconds = asking / quiet["requests"]
        one = Panels(url, headers, 1)
        time.sleep(3)
        with_one, one_woken = watch(server, options.seconds)
        one.close()
        many = Panels(url, headers, options.panels)
        time.sleep(5)
        started, events = time.monotonic(), many.events()
        with_many, many_woken = watch(server, options.seconds)
        per_second = (many.events() - events) / options.panels / (time.monotonic() - started)
        usage = answers(url, headers, "jupyter-vgpu/usage", options.seconds)
        status = answers(url, headers, "api/status", options.seconds)
        many.close()
    return {
        "date": date.today().isoformat(),
        "panels": options.panels,
        "seconds": options.seconds,
        "conditions": {
            "cores": os.cpu_count(),
            "server_has_a_core_to_itself": has_own_core,
            "sched_fifo": is_first,
            "load_1min_before": round(load_before, 2),
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
        "events_per_panel_per_second": round(per_second, 3),
        "server_cpu_percent_of_a_core": {
            "nobody": round(100 * idle, 3),
            "one_panel": round(100 * (with_one - idle), 3),
            "all_panels": round(100 * (with_many - idle), 3),
        },
        "server_wake_ups_per_second": {
            "nobody": round(idle_woken, 2),
            "one_panel": round(one_woken, 2),
            "all_panels": round(many_woken, 2),
        },
        "server_cpu_ms_per_status_request": round(1e3 * one_answer_seconds, 3),
        "one_panel_costs_as_many_status_requests_a_second": round((with_one - idle) / one_answer_seconds, 2),
        "status_without_panels": quiet,
        "usage_with_all_panels": usage,
        "status_with_all_panels": status,
    }


def main() -> None:
    """Measure, print, and keep if that is wished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panels", type=int, default=50, help="how many are open at once (50)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each part is watched (30)")
    parser.add_argument("--keep", action="store_true", help="also write it to benchmarks/results/panel-load-DATE.json")
    options = parser.parse_args()
    text = json.dumps(measure(options), indent=2)
    print(text)
    if options.keep:
        (RESULTS / f"panel-load-{date.today().isoformat()}.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
