"""Go ways to get device memory, in this process, and say of each what the slice made of it.

usage: walk.py GROUP [GROUP ...]     (inside a slice; prints a line of JSON for each way)
       walk.py --list                (prints the ways, goes none)

A way is *limited* when it is refused with exactly CUDA_ERROR_OUT_OF_MEMORY where less is left than it takes, and
nothing is charged after that; *counted* when the agent's figure grows by what it takes, once; *freed* when the figure
is what it was, after all is given back. Of what no call shows, the figure is overhead, which the agent reads from
NVML: it is waited for, and limited means that the next call is refused once the slice has passed its limit.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

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
# NVML's figure is read twice a second.
SETTLE_SECONDS = 1.5
# What a driver may take beyond what was asked for: a pool grows in steps of 32 MiB, an array has padding.
MOST_MORE_BYTES = 34 * MIB
# A context of its own is at least this; the smallest that was seen had 100 MiB.
CONTEXT_LEAST_BYTES = 16 * MIB
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
        beyond_bytes: On a real GPU: by how much more NVML's figure grew than what was charged, a moment later. What a
            driver sets up once for a kind of memory is in it, so it is no verdict.
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
        self.device_name = device["name"]

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


class Walker:
    """Goes ways one after the other, each from the same start."""

    def __init__(self) -> None:
        self.slice = Slice()
        self.driver = Driver()
        # A context's own memory is known a moment after it was made; what is measured must not grow by it.
        until(lambda: self.slice.overhead_bytes() > 0)

    def go(self, way: Way) -> Outcome:
        """Return what came of one way."""
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
        except DriverError as error:
            if error.code in way.declines:
                return _not_gone(outcome, f"this driver declines: {error}")
            outcome.note = f"{outcome.note} {error}".strip()
        except RuntimeError as error:
            outcome.note = f"{outcome.note} {error}".strip()
        return outcome

    # --- charged by the call ---------------------------------------------------------------------------

    def _go_by_charge(self, way: Way, outcome: Outcome) -> None:
        size = way.size_bytes or 0
        before = self.slice.granted_bytes()
        overhead = self.slice.overhead_bytes()
        taken = way.take(self.driver, size)
        outcome.charged_bytes = self.slice.granted_bytes() - before
        if not self.slice.is_simulated:
            time.sleep(SETTLE_SECONDS)
            outcome.beyond_bytes = self.slice.overhead_bytes() - overhead
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

    def _go_by_overhead(self, way: Way, outcome: Outcome) -> None:
        size = way.size_bytes or CONTEXT_LEAST_BYTES
        before = self.slice.overhead_bytes()
        taken = way.take(self.driver, size)
        outcome.counted = until(lambda: self.slice.overhead_bytes() >= before + size)
        outcome.charged_bytes = self.slice.overhead_bytes() - before
        way.give(self.driver, taken)
        outcome.freed = until(lambda: self.slice.overhead_bytes() <= before + KEPT_BYTES)
        if not outcome.freed:
            outcome.note += f"{self.slice.overhead_bytes() - before} bytes are still charged; "
        with self._filled(size // 2):
            taken = way.take(self.driver, size)
            until(lambda: self.slice.overhead_bytes() >= before + size)
            try:
                way.give(self.driver, way.take(self.driver, size))
                outcome.note += "passed the limit twice; "
            except DriverError as error:
                outcome.limited = error.code == OUT_OF_MEMORY
            way.give(self.driver, taken)
        until(lambda: self.slice.overhead_bytes() <= before + KEPT_BYTES)

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


def walk(groups: list[str]) -> Iterator[Outcome]:
    """Yield the outcome of every way of some groups."""
    walker = Walker()
    for group in groups:
        for way in GROUPS[group]:
            yield walker.go(way)


def main() -> None:
    """Print a line for each way."""
    if sys.argv[1:] == ["--list"]:
        outcomes: Iterator[Outcome] = (
            Outcome(way.family, way.name, way.functions, way.kind) for ways in GROUPS.values() for way in ways
        )
    else:
        outcomes = walk(sys.argv[1:])
    for each in outcomes:
        print(json.dumps(asdict(each)), flush=True)


if __name__ == "__main__":
    main()
