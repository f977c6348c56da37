"""A day of a teaching lab in minutes: many scripted users, a real hub with its real proxy, an agent with four boards.

    python benchmarks/lab/day.py [--users 200] [--seconds 150] [--kills 3]

Users arrive over the compressed day, ask for a slice over REST, wait in the queue if they must, hold it for a while and
leave. The hub is killed (SIGKILL) while they do and started again; whoever was being served asks again. All the while
the agent is asked who holds what. The last line says what was found; the exit status is 1 if a promise was broken:

    spawns N, over-committed 0, leaked 0, rules broken 0, added p95 N ms

`over-committed` counts looks at which a device had promised more memory or time than it has, `leaked` the claims that
are left when all have gone, `rules broken` the looks at which a user held more than the quota (one slice each), and
`added` is the time between asking the agent for a free slice and having it written down, as the ledger knows it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
ODDS = {"1/4 GPU": 75, "1/2 GPU": 20, "whole GPU": 5}


def _parts() -> Any:
    """Return the hub and agent that the tests of the hub use."""
    spec = importlib.util.spec_from_file_location("hub_conftest", ROOT / "tests" / "hub" / "conftest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hub_conftest"] = module
    spec.loader.exec_module(module)
    return module


class Watch(threading.Thread):
    """Asks the agent again and again who holds what."""

    def __init__(self, agent: Any) -> None:
        """Watch `agent` until `ended` is set."""
        super().__init__(daemon=True)
        self.agent = agent
        self.ended = threading.Event()
        self.looks = self.over_committed = self.rules_broken = self.most = 0

    def run(self) -> None:
        """Look ten times a second."""
        while not self.ended.wait(0.1):
            claims = self.agent.claims()
            totals = {device["uuid"]: device["total_bytes"] for device in self.agent.client.devices()}
            memory: Counter[str] = Counter()
            share: Counter[str] = Counter()
            for claim in claims:
                for part in claim["devices"]:
                    memory[part["uuid"]] += part["memory_bytes"]
                    share[part["uuid"]] += round(part["share"] * 1e6)
            self.looks += 1
            self.most = max(self.most, len(claims))
            self.over_committed += any(memory[u] > totals[u] or share[u] > 1_000_000 for u in totals)
            held = Counter(claim["tenant"].partition("/")[0] for claim in claims)
            self.rules_broken += any(count > 1 for count in held.values())


class Day:
    """The users and what became of them."""

    def __init__(self, hub: Any, users: int, seconds: float, seed: int = 1) -> None:
        """Script `users` users over `seconds` of arrivals."""
        self.hub = hub
        chance = random.Random(seed)
        self.scripts = [
            (
                f"quick-{n}",
                chance.uniform(0, seconds),
                chance.choices(list(ODDS), list(ODDS.values()))[0],
                chance.uniform(2, 12),
            )
            for n in range(users)
        ]
        self.started = time.monotonic()
        self.spawns = 0
        self.gave_up: list[str] = []
        self.second_slices = 0

    def live(self, script: tuple[str, float, str, float]) -> None:
        """Be one user: come, ask until served, try for a second slice, work, go."""
        user, arrives, profile, works = script
        time.sleep(max(0.0, self.started + arrives - time.monotonic()))
        deadline = time.monotonic() + 300
        while not self._is_ready(user):
            if time.monotonic() > deadline:
                self.gave_up.append(user)
                return
            if self._is_gone(user):
                self._try("POST", user, profile)
            time.sleep(3.0)  # more often, 200 of them keep the hub busy with questions
        self.spawns += 1
        answer = self._try("POST", user, profile, "second")
        self.second_slices += answer is not None and answer.status_code in (201, 202)
        time.sleep(works)
        while time.monotonic() < deadline + 60:
            answer = self._try("DELETE", user)
            if (answer is not None and answer.status_code in (204, 404)) or self._is_gone(user):
                return
            time.sleep(3.0)

    def _try(self, method: str, user: str, profile: str = "", server: str = "") -> httpx.Response | None:
        """Ask the hub; `None` while it is down."""
        path = f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"
        try:
            if method == "POST":
                self.hub.api.post(f"/users/{user}")  # 409 when there already
                return self.hub.api.post(path, json={"vgpu_profile": profile})
            return self.hub.api.request(method, path)
        except httpx.TransportError:
            return None

    def _is_ready(self, user: str) -> bool:
        try:
            return bool(self.hub.is_ready(user))
        except (httpx.TransportError, json.JSONDecodeError):
            return False

    def _is_gone(self, user: str) -> bool:
        try:
            answer = self.hub.api.get(f"/users/{user}")
            if answer.status_code == 404 and answer.headers.get("content-type", "").startswith("application/json"):
                return True  # not even the user is there yet
            return answer.status_code == 200 and "" not in answer.json()["servers"]
        except (httpx.TransportError, json.JSONDecodeError):
            return False


def main() -> int:
    """Live one day and print what was found; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--kills", type=int, default=3)
    wanted = parser.parse_args()
    parts = _parts()
    settings = {"queue_timeout_seconds": 240.0, "queue_length": 200, "quotas": {"everyone": {"slices": 1}}}
    agent = parts.Agent(os.environ.get("LAB_BOARDS", "4xa100-80"))
    hub = agent.hub(HUB_TEST_SETTINGS=json.dumps(settings))
    hub.api._transport = httpx.HTTPTransport(limits=httpx.Limits(max_connections=400))
    try:
        agent.start()
        hub.start()
        watch = Watch(agent)
        watch.start()
        day = Day(hub, wanted.users, wanted.seconds)
        with ThreadPoolExecutor(wanted.users) as people:
            lives = [people.submit(day.live, script) for script in day.scripts]
            for number in range(wanted.kills):
                time.sleep(wanted.seconds / (wanted.kills + 1))
                hub.kill()
                hub.start()
                print(f"hub killed and started again ({number + 1} of {wanted.kills})", flush=True)
            for life in lives:
                life.result()
        hub.stop_all()
        deadline = time.monotonic() + 15
        while agent.claims() and time.monotonic() < deadline:
            time.sleep(0.2)
        watch.ended.set()
        watch.join()
        return report(hub, day, watch, leaked=len(agent.claims()))
    finally:
        hub.revive()
        hub.stop()
        end_orphans(hub.folder)
        agent.stop()
        shutil.rmtree(hub.folder)
        shutil.rmtree(agent.folder)


def end_orphans(folder: Path) -> None:
    """End servers that a killed hub had started and not yet written down: no hub knows them, ours or JupyterHub's."""
    home = f"HOME={folder / 'homes'}/".encode()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and any(
                part.startswith(home) for part in (entry / "environ").read_bytes().split(b"\0")
            ):
                os.kill(int(entry.name), signal.SIGKILL)


def report(hub: Any, day: Day, watch: Watch, leaked: int) -> int:
    """Print what was found and return the exit status."""
    entries = [entry for script in day.scripts for entry in hub.ledger().history(script[0])]
    added = sorted((e.bound_at - e.requested_at).total_seconds() for e in entries if e.bound_at is not None)
    p95 = 1000 * added[min(len(added) - 1, int(0.95 * len(added)))] if added else float("nan")
    left = len(hub.ledger().open_entries())
    rules_broken = watch.rules_broken + day.second_slices
    print(f"{watch.looks} looks at the agent, at most {watch.most} slices at once, gave up: {len(day.gave_up)}")
    print(
        f"spawns {day.spawns}, over-committed {watch.over_committed}, leaked {leaked + left}, "
        f"rules broken {rules_broken}, added p95 {p95:.0f} ms"
    )
    is_good = not (watch.over_committed or leaked or left or rules_broken or day.gave_up) and day.spawns
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
