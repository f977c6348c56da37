"""Go ways to get device memory, in this process, and say of each what the slice made of it.

usage: walk.py GROUP [FIRST]     (inside a slice; prints a line of JSON for each way, from number FIRST, 0 if left out)
       walk.py --alone GROUP N   (goes one way by the driver alone, once; prints what it answered, or nothing)
       walk.py --list [GROUP]    (prints the ways, goes none)

A way is *limited* when it is refused with exactly CUDA_ERROR_OUT_OF_MEMORY where less is left than it takes, and
nothing is charged after that; *counted* when the agent's figure grows by what it takes, once; *freed* when the figure
is what it was, after all is given back. Of what no call shows, the figure is overhead, which the agent reads from
NVML: it must grow by what NVML shows outside the slice, and limited means that the next call is refused once the slice
has passed its limit. NVML's figure is the device's: nobody else may use the device meanwhile.

A way that fails is gone once more by the driver alone, outside the slice: if it fails there with the same answer, the
driver does not have the way, and the slice has nothing to do with that.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import outside
from contexts import CONTEXTS
from driver import MIB, OUT_OF_MEMORY, Driver, DriverError, NotInDriverError
from graphs import GRAPHS
from mapped import MAPPED
from plain import PLAIN, free
from shared import SHARED
from ways import Way, Ways

from jupyter_vgpu.client import UserClient

GROUPS: dict[str, Ways] = {
    "plain": PLAIN,
    "mapped": MAPPED,
    "graphs": GRAPHS,
    "contexts": CONTEXTS,
    "shared": SHARED,
}
WAIT_SECONDS = 30.0
# How often the agent reads NVML's figure.
LOOK_SECONDS = 0.5
# One way, on a machine that has much else to do; a process in which one takes longer is ended (by SIGALRM).
WAY_SECONDS = 240
# What a driver may take beyond what was asked for: a pool grows in steps of 32 MiB, an array has padding.
MOST_MORE_BYTES = 34 * MIB
# By how much the agent's figure for the slice may differ from NVML's for the device: what is no process's.
APART_BYTES = 16 * MIB
BLOCK_BYTES = 2 * MIB
# What a driver may keep for the next of its kind.
KEPT_BYTES = 32 * MIB


@dataclass
class Outcome:
    """What came of one way.

    Attributes:
        gone: Whether the driver has the way; else `note` says why it was not gone.
        limited, counted, freed: What held, `False` when the way was not gone.
        charged_bytes: By how much the agent's figure grew.
        beyond_bytes: By how much more NVML's figure outside the slice grew than what was charged. What a driver sets up
            once for a kind of memory is in it, so it is no verdict.
        note: What did not hold, and how it showed.
    """

    family: str
    name: str
    functions: tuple[str, ...]
    kind: str
    gone: bool = True
    limited: bool = False
    counted: bool = False
    freed: bool = False
    charged_bytes: int = 0
    beyond_bytes: int = 0
    note: str = ""


class Slice:
    """The agent's figures of this slice's first device."""

    def __init__(self) -> None:
        self._client = UserClient.from_environment()
        device = self._client.slice()["devices"][0]
        self.is_simulated = device["simulated"]
        self.uuid = device["uuid"]

    def granted_bytes(self) -> int:
        """Return what all processes were granted by calls."""
        return sum(process["devices"][0]["memory_bytes"] for process in self._client.usage()["processes"])

    def overhead_bytes(self) -> int:
        """Return what no call shows."""
        return self._client.usage()["devices"][0]["memory_overhead_bytes"]


def until(holds: Callable[[], bool]) -> bool:
    """Return whether it came to hold."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def alone(group: str, index: int) -> str:
    """Return what the driver answers outside the slice to who goes a way that failed in it; "" when it succeeds."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--alone", group, str(index)],
        env=outside.environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=WAY_SECONDS,
        check=False,
    )
    return done.stdout.strip()


class Walker:
    """Goes ways one after the other, each from the same start."""

    def __init__(self) -> None:
        self.slice = Slice()
        self.outside = outside.Outside(self.slice.uuid)
        self.driver = Driver()
        # A context's own memory is known a moment after it was made; what is measured must not grow by it.
        until(lambda: self.slice.overhead_bytes() > 0)

    def go(self, group: str, index: int) -> Outcome:
        """Return what came of one way."""
        way = GROUPS[group].all[index]
        outcome = Outcome(way.family, way.name, way.functions, way.kind)
        missing = [symbol for symbol in way.functions if not self.driver.has(symbol)]
        if missing:
            return _not_gone(outcome, f"not in this driver: {', '.join(missing)}")
        if way.simulated_only and not self.slice.is_simulated:
            return _not_gone(outcome, "not gone on a real GPU")
        try:
            if way.kind == "overhead":
                self._go_by_overhead(way, outcome)
            else:
                self._go_by_charge(way, outcome)
        except NotInDriverError as error:
            return _not_gone(outcome, f"not in this driver: {error}")
        except (DriverError, RuntimeError) as error:
            answer = alone(group, index)
            if answer == str(error):
                return _not_gone(outcome, f"this driver declines: {error}")
            outcome.note = f"{outcome.note} {error}; outside the slice: {answer or 'succeeds'}".strip()
        return outcome

    # --- charged by the call ---------------------------------------------------------------------------

    def _go_by_charge(self, way: Way, outcome: Outcome) -> None:
        size = way.size_bytes or 0
        before = self.slice.granted_bytes()
        outside_before = self.outside.used_bytes()
        taken = way.take(self.driver, size)
        outcome.charged_bytes = self.slice.granted_bytes() - before
        outcome.beyond_bytes = self.outside.used_bytes() - outside_before - outcome.charged_bytes
        expected = 0 if way.kind == "none" else size
        most = 0 if way.kind == "none" else size + MOST_MORE_BYTES
        outcome.counted = expected <= outcome.charged_bytes <= most
        way.give(self.driver, taken)
        left = self.slice.granted_bytes() - before
        outcome.freed = left == 0
        if not outcome.freed:
            outcome.note += f"{left} bytes are still charged; "
        outcome.limited = way.kind == "none" or self._is_refused(way, size, outcome)

    def _is_refused(self, way: Way, size: int, outcome: Outcome) -> bool:
        """Return whether the way is refused where half of what it takes is left, and nothing is charged for it."""
        if outcome.beyond_bytes > APART_BYTES:
            # It makes a context of its own: what that took is charged until the agent's next look, and then it is free.
            _settled(self.slice.overhead_bytes)
        with self._filled(size // 2):
            full = self.slice.granted_bytes()
            try:
                way.give(self.driver, way.take(self.driver, size))
            except DriverError as error:
                code = error.code
            else:
                outcome.note += "passed the limit; "
                return False
            leaked = self.slice.granted_bytes() - full
        if code != OUT_OF_MEMORY or leaked:
            outcome.note += f"refused with {code}, {leaked} bytes charged after that; "
        return code == OUT_OF_MEMORY and leaked == 0

    # --- overhead ----------------------------------------------------------------------------------------

    def _apart_bytes(self) -> int:
        """Return what the device has in use and the slice has not, the agent's last look at NVML taken as it is."""
        return self.outside.used_bytes() - self.slice.overhead_bytes() - self.slice.granted_bytes()

    def _go_by_overhead(self, way: Way, outcome: Outcome) -> None:
        size = way.size_bytes or BLOCK_BYTES
        apart = _settled(self._apart_bytes)
        before, outside_before = self.slice.overhead_bytes(), self.outside.used_bytes()
        taken = way.take(self.driver, size)
        cost = self.outside.used_bytes() - outside_before

        def is_in_step() -> bool:
            return abs(self._apart_bytes() - apart) <= min(APART_BYTES, cost // 4)

        outcome.counted = cost >= size and until(is_in_step)
        outcome.charged_bytes = self.slice.overhead_bytes() - before
        outcome.beyond_bytes = cost - outcome.charged_bytes
        if not outcome.counted:
            outcome.note += f"NVML shows {cost} bytes more, the agent {outcome.charged_bytes}; "
        way.give(self.driver, taken)
        kept = min(KEPT_BYTES, cost // 2)
        outcome.freed = until(lambda: is_in_step() and self.slice.overhead_bytes() <= before + kept)
        if not outcome.freed:
            outcome.note += f"{self.slice.overhead_bytes() - before} bytes are still charged; "
        with self._filled(cost // 2):
            # All is granted but half of what one takes: the first passes the limit, the next is refused.
            taken = way.take(self.driver, size)
            until(is_in_step)
            try:
                way.give(self.driver, way.take(self.driver, size))
                outcome.note += "passed the limit twice; "
            except DriverError as error:
                outcome.limited = error.code == OUT_OF_MEMORY
            way.give(self.driver, taken)
        until(is_in_step)

    # --- all but a little is taken --------------------------------------------------------------------------

    def _filled(self, left_bytes: int) -> _Filled:
        return _Filled(self.driver, left_bytes)


class _Filled:
    """A context in which at most `left_bytes` of the slice's memory are left."""

    def __init__(self, driver: Driver, left_bytes: int) -> None:
        self._driver = driver
        self._left_bytes = left_bytes
        self._filling = 0

    def __enter__(self) -> None:
        free_bytes = self._driver.out("cuMemGetInfo_v2", 0)
        size = (free_bytes - self._left_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES
        self._filling = self._driver.out("cuMemAlloc_v2", size)

    def __exit__(self, *_: object) -> None:
        free(self._driver, self._filling)


def _not_gone(outcome: Outcome, why: str) -> Outcome:
    outcome.gone = False
    outcome.note = why
    return outcome


def _settled(figure: Callable[[], int]) -> int:
    """Return a figure once it has been the same over two of the agent's looks at NVML, which looks twice a second."""
    deadline = time.monotonic() + WAIT_SECONDS
    last, since = figure(), time.monotonic()
    while time.monotonic() - since < 2 * LOOK_SECONDS and time.monotonic() < deadline:
        time.sleep(0.05)
        now = figure()
        if now != last:
            last, since = now, time.monotonic()
    return last


def walk(group: str, first: int) -> Iterator[Outcome]:
    """Yield the outcome of every way of a group, from its `first`; say on the standard error which is gone now."""
    walker = Walker()
    ways = GROUPS[group].all
    try:
        for index in range(first, len(ways)):
            print(f"{group} {index + 1} of {len(ways)}: {ways[index].name}", file=sys.stderr, flush=True)
            signal.alarm(WAY_SECONDS)
            yield walker.go(group, index)
    finally:
        signal.alarm(0)
        walker.outside.end()


def go_alone(group: str, index: int) -> None:
    """Go one way once, by the driver alone, and print what went wrong."""
    way = GROUPS[group].all[index]
    try:
        driver = Driver()
        way.give(driver, way.take(driver, way.size_bytes or 0))
    except (DriverError, NotInDriverError, RuntimeError) as error:
        print(error)


def main() -> None:
    """Print a line for each way."""
    if sys.argv[1] == "--alone":
        go_alone(sys.argv[2], int(sys.argv[3]))
        return
    if sys.argv[1] == "--list":
        outcomes: Iterator[Outcome] = (
            Outcome(way.family, way.name, way.functions, way.kind)
            for group in sys.argv[2:] or GROUPS
            for way in GROUPS[group]
        )
    else:
        outcomes = walk(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 0)
    for each in outcomes:
        print(json.dumps(asdict(each)), flush=True)


if __name__ == "__main__":
    main()
