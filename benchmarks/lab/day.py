"""A day of a teaching lab in minutes: scripted users, a real hub with its real proxy, an agent with four boards.

    python benchmarks/lab/day.py [--users 200] [--seconds 150] [--kills 3] [--out DIR]

Users arrive over the compressed day, ask for a slice over REST, wait in the queue if they must, hold it for a while,
using the GPU, and leave. The hub is killed (SIGKILL) while they do and started again. All the while the agent is asked
who holds what. The last line says what was found; the exit status is 1 if a promise was broken:

    spawns N, over-committed 0, leaked 0, rules broken 0, added p95 N ms

`over-committed` counts looks at which a device had promised more memory or time than it has. `leaked` are claims that
are left when all have gone, at the agent or in the ledger. `rules broken` counts looks at which a user or a group held
more slices than their quota, claims made when GPU-hours were used up, and second slices given. `added` is what the hub
measures: the time that our code added to a start, without the wait for a slice that was taken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx
from people import Board, Person, scripts
from watch import Rules, Watch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from harness.hubs import Agent, Hub  # noqa: E402

OPENS, CLOSES = 8 * 60, 18 * 60  # the lab's hours, in minutes of the simulated day
_MOST_STARTS = 5
TIMES = re.compile(
    r"student-\d+ starts: ([\d.]+) ms added by us, ([\d.]+) ms late as the hub was busy, ([\d.]+) s waited"
)
DEFINITION = (
    "added: all time between a start's coming to us and its slice's being handed over (our steps, the answers of agent "
    "and ledger, our threads' own queues), less the wait for a slice to come free, and less the time for which a step "
    "of ours was ready to go on and the hub's event loop was at work for others (late)"
)


class Day:
    """One day: the hub, the agent, the people, and what was seen of them."""

    def __init__(self, hub: Any, agent: Any, wanted: argparse.Namespace, rules: Rules) -> None:
        """Prepare the day; nothing happens yet."""
        self.hub = hub
        self.agent = agent
        self.wanted = wanted
        self.tally: Counter[str] = Counter()
        self.watch = Watch(agent, rules)
        self.board = Board(hub.api)
        plan = scripts(wanted.users, wanted.seconds, rules.greedy, wanted.seed)
        self.people = [Person(script, hub.api, self.board, self.tally) for script in plan]
        self.began = 0.0
        self.kills = 0
        self.leaked = 0

    def live(self) -> bool:
        """Live the day, and return whether everybody has gone home before the limit."""
        self.watch.start()
        self.board.start()
        self.began = time.monotonic()
        lives = [threading.Thread(target=person.live, args=(self.began,), daemon=True) for person in self.people]
        for life in lives:
            life.start()
        kill_at = [self.wanted.seconds * (n + 1) / (self.wanted.kills + 1) for n in range(self.wanted.kills)]
        said_at = 0.0
        while any(life.is_alive() for life in lives):
            passed = time.monotonic() - self.began
            if passed > self.wanted.limit:
                self.say("NOT FINISHED: " + str(dict(Counter(person.state for person in self.people))))
                return False
            if self.watch.trouble is not None:
                raise self.watch.trouble
            if self.hub.process.poll() is not None:
                self.tally["hub ended by itself"] += 1
                self.say("the hub ended by itself, and is started again")
                self._start_again()
            if self.kills < len(kill_at) and passed >= kill_at[self.kills]:
                self._kill()
            if passed >= said_at:
                self._progress()
                said_at = passed + 10
            time.sleep(0.2)
        return True

    def _start_again(self) -> None:
        """Start the hub as a service manager would: on a machine that is very busy, JupyterHub gives up its start."""
        for _ in range(_MOST_STARTS):
            with contextlib.suppress(AssertionError):
                self.hub.start()
                return
            self.tally["starts of the hub that failed"] += 1
            self.hub.kill()
        raise RuntimeError(f"the hub does not start, see {self.hub.log}")

    def _kill(self) -> None:
        self.hub.kill()
        self._start_again()
        self.kills += 1
        self.say(f"the hub was killed and is back ({self.kills} of {self.wanted.kills})")

    def _progress(self) -> None:
        states = Counter(person.state for person in self.people)
        self.say(
            f"{self.tally['spawns']} spawns; {states['waits'] + states['asks']} wait, {states['works']} work, "
            f"{states['gone']} of {len(self.people)} gone; {self.watch.now_held} slices held, "
            f"over-committed {self.watch.over_committed}, rules broken {self.rules_broken}"
        )

    def say(self, what: str) -> None:
        """Print a line with the time of the simulated day."""
        minutes = OPENS + (CLOSES - OPENS) * (time.monotonic() - self.began) / self.wanted.seconds
        print(f"{int(minutes) // 60:02}:{int(minutes) % 60:02}  {what}", flush=True)

    @property
    def rules_broken(self) -> int:
        """How often a rule was seen broken."""
        return self.watch.broken.total() + self.tally["second slices given"]

    def end(self) -> None:
        """Wait until what the people gave back is released, and count what is not."""
        deadline = time.monotonic() + 60
        while (left := [*self.agent.claims(), *self.hub.ledger().open_entries()]) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.leaked = len(left)
        self.watch.ended.set()
        self.board.ended.set()
        self.watch.join()
        self.board.join()


def summary(day: Day, is_over: bool) -> dict[str, Any]:
    """Return what was found, as it is kept."""
    log = day.hub.log.read_text(errors="replace")
    times = TIMES.findall(log)
    added, late, waited = (sorted(float(time[part]) for time in times) for part in range(3))
    records = [json.loads(line) for line in (day.hub.folder / "records").read_text().splitlines()]
    sizes = {round(device["total_bytes"] * part) for device in day.agent.hub.devices() for part in (0.25, 0.5, 1)}
    return {
        "spawns": day.tally["spawns"],
        "over_committed": day.watch.over_committed,
        "leaked": day.leaked,
        "rules_broken": day.rules_broken,
        "broken": dict(day.watch.broken),
        "added_ms": _spread(added),
        "late_ms": _spread(late),
        "waited_seconds": _spread(waited),
        "starts_measured": len(added),
        "finished": is_over,
        "servers_lost": day.tally["servers lost"],
        "people": dict(day.tally),
        "hub_kills": day.kills,
        "waits_that_went_on_after_a_kill": log.count("waits on for a GPU, after a restart"),
        "looks": day.watch.looks,
        "looks_unanswered": day.watch.unanswered,
        "longest_between_looks_seconds": round(max(day.watch.pauses, default=0.0), 2),
        "most_slices_at_once": day.watch.most,
        "gpu_clients": len(records),
        "gpu_clients_that_failed": sum(bool(r.get("error") or r.get("failed_steps")) for r in records),
        "gpu_clients_that_saw_another_size": sum(
            not any(abs(r.get("total_bytes", 0) - size) <= 1 << 20 for size in sizes) for r in records
        ),
        "gpu_clients_that_got_more": sum(r.get("over_limit") != 2 for r in records),
        "seconds": round(time.monotonic() - day.began, 1),
        "users": day.wanted.users,
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "load": round(os.getloadavg()[1], 1),
        "cpus": os.cpu_count(),
        "machine": f"{os.cpu_count()} CPUs, load {os.getloadavg()[1]:.1f} over five minutes, Python "
        f"{platform.python_version()}",
    }


def _spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    return {f"p{p}": values[min(len(values) - 1, len(values) * p // 100)] for p in (50, 95, 99)} | {"most": values[-1]}


def lines(found: dict[str, Any]) -> list[str]:
    """Return the summary for people; the last line is the one that counts."""
    refusals = {k.removeprefix("refused: "): n for k, n in found["people"].items() if k.startswith("refused: ")}
    added, waited = found["added_ms"], found["waited_seconds"]
    return [
        f"{found['users']} users, {found['hub_kills']} kills of the hub, {found['seconds']} s; {found['machine']}",
        f"{found['looks']} looks at the agent, {found['longest_between_looks_seconds']} s between two at most; "
        f"most slices at once {found['most_slices_at_once']}",
        f"waited for a slice: {waited}; waits that went on after a kill {found['waits_that_went_on_after_a_kill']}, "
        f"servers lost {found['servers_lost']}, hub ended by itself {found['people'].get('hub ended by itself', 0)}",
        f"refused by rule: {refusals}",
        f"GPU clients {found['gpu_clients']}: failed {found['gpu_clients_that_failed']}, saw another size "
        f"{found['gpu_clients_that_saw_another_size']}, got more than their slice {found['gpu_clients_that_got_more']}",
        DEFINITION,
        f"added to a start, ms: {added}; late, ms: {found['late_ms']}; {found['starts_measured']} starts, with a load "
        f"of {found['load']} on {found['cpus']} CPUs",
        f"spawns {found['spawns']}, over-committed {found['over_committed']}, leaked {found['leaked']}, "
        f"rules broken {found['rules_broken']}, added p95 {added.get('p95', float('nan')):.0f} ms",
    ]


def is_good(found: dict[str, Any]) -> bool:
    """Return whether every promise was kept; times are no promise on a machine that others use too."""
    broken = ("over_committed", "leaked", "rules_broken", "servers_lost", "gpu_clients_that_failed")
    more = ("gpu_clients_that_saw_another_size", "gpu_clients_that_got_more")
    return bool(found["finished"] and found["spawns"] and not any(found[key] for key in (*broken, *more)))


def end_orphans(folder: Path) -> None:
    """End what is left of the hub: servers that a killed one had not written down yet are known to no other."""
    ours = (f"HOME={folder / 'homes'}/".encode(), f"HUB_TEST_FOLDER={folder}".encode())  # students, and hub and proxy
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and any(
                part.startswith(ours) for part in (entry / "environ").read_bytes().split(b"\0")
            ):
                os.kill(int(entry.name), signal.SIGKILL)


def forget(hub: Any, agent: Any) -> None:
    """Remove what hub and agent have written; LAB_KEEP in the environment keeps it."""
    if os.environ.get("LAB_KEEP"):
        print(f"kept: {hub.folder} {agent.folder}")
        return
    shutil.rmtree(hub.folder, ignore_errors=True)
    shutil.rmtree(agent.folder, ignore_errors=True)


def main() -> int:
    """Live one day and print what was found; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=150.0, help="length of the day's arrivals (default 150)")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which the day has failed")
    parser.add_argument("--boards", default="4xa100-80")
    parser.add_argument("--out", type=Path, help="folder that keeps the summary as JSON and text")
    wanted = parser.parse_args()
    rules = Rules(
        slices_each=1,
        seminar=frozenset(f"student-{n}" for n in range(0, wanted.users, 5)),
        seminar_slices=max(1, wanted.users // 25),
        greedy=frozenset(f"student-{n}" for n in range(3, wanted.users, 20)),
        greedy_hours=0.005,
    )
    agent = Agent(wanted.boards)
    hub = Hub(
        agent,
        LAB_USERS=str(wanted.users),
        LAB_SLICES_EACH=str(rules.slices_each),
        LAB_SEMINAR_SLICES=str(rules.seminar_slices),
        LAB_GREEDY_HOURS=str(rules.greedy_hours),
    )
    hub.config, hub.start_seconds = HERE / "hub_config.py", 600.0
    hub.api._transport = httpx.HTTPTransport(limits=httpx.Limits(max_connections=2 * wanted.users + 10))
    with contextlib.ExitStack() as stack:  # every step of tidying, whatever became of the one before
        stack.callback(forget, hub, agent)
        stack.callback(agent.stop)
        stack.callback(end_orphans, hub.folder)
        stack.callback(hub.stop)
        stack.callback(hub.revive)
        agent.start()
        hub.start()
        day = Day(hub, agent, wanted, rules)
        is_over = day.live()
        day.end()
        found = summary(day, is_over)
    print(*lines(found), sep="\n", flush=True)
    if wanted.out is not None:
        wanted.out.mkdir(parents=True, exist_ok=True)
        stem = wanted.out / f"lab-day-{found['at'][:10]}"
        stem.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        stem.with_suffix(".txt").write_text("\n".join(lines(found)) + "\n")
    return 0 if is_good(found) else 1


if __name__ == "__main__":
    sys.exit(main())
