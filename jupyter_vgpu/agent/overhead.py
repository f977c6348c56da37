"""Device memory that no call shows: contexts, module code, local memory, what libraries get past us.

NVML says what a process has of a device, its usage page what it was granted; the difference is overhead. Both
move while they are read, so one difference says little: the figure moves only as far as the last two seconds'
differences all are above or below it. A process that holds still is believed sooner, as long as what it says is
no more than contexts and code may take; otherwise one that allocates and frees without a pause would be out of
memory now and then, by an unlucky pair of looks. Pure.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Looks that have to be above (below) the figure for it to rise (fall): two seconds at four looks a second.
LOOKS = 8
# Up to this, two looks at a process that holds still are enough.
SOON_BYTES = 1 << 30
# A process that NVML has listed and lists no more has no context any more, unless NVML is wrong for a moment.
ABSENCES = 3


@dataclass(frozen=True)
class Held:
    """What a process's page says it was granted of one device, a moment before NVML was asked and a moment after."""

    before_bytes: int
    after_bytes: int

    @property
    def most_bytes(self) -> int:
        """The larger of both, against which a difference is never too large."""
        return max(self.before_bytes, self.after_bytes)


class _Process:
    def __init__(self) -> None:
        self.figure_bytes = 0
        self._least: deque[int] = deque(maxlen=LOOKS)
        self._most: deque[float] = deque(maxlen=LOOKS)
        self._last: tuple[int, Held] | None = None
        self._absences = 0
        # Attached, and its page does not say yet what it held before: all it has counts here.
        self.is_moving = False

    def listed(self, used_bytes: int, held: Held) -> None:
        self._absences = 0
        beyond_bytes = max(0, used_bytes - held.most_bytes)
        is_steady = held.before_bytes == held.after_bytes
        holds_still = is_steady and self._last == (used_bytes, held)
        self._last = (used_bytes, held)
        self._least.append(beyond_bytes)
        # What was held when NVML looked may have been less than before and after: no sign of a fall.
        self._most.append(beyond_bytes if is_steady else math.inf)
        if holds_still and self.figure_bytes < beyond_bytes <= SOON_BYTES:
            self.figure_bytes = beyond_bytes
        elif len(self._least) == LOOKS:
            self.figure_bytes = int(min(max(self.figure_bytes, min(self._least)), max(self._most)))

    def unattached(self, used_bytes: int) -> None:
        self.figure_bytes = used_bytes

    def absent(self) -> None:
        self._absences += 1
        if self._absences >= ABSENCES:
            self.figure_bytes = 0
            self._last = None
            self._least.clear()
            self._most.clear()


class Overhead:
    """What one claim's processes have of one device beyond what was granted to them."""

    def __init__(self) -> None:
        """Start with nobody."""
        self._processes: dict[int, _Process] = {}

    def look(self, used: Mapping[int, int | None], held: Mapping[int, Held], strays: Iterable[int] = ()) -> None:
        """Take in one look.

        Args:
            used: What NVML says each process of the device has; `None` = it lists the process without a figure.
                Processes of others may be among them.
            held: What the claim's own processes were granted; one that is missing is gone.
            strays: Processes of the claim that have not attached: all they have was never granted.
        """
        strays = set(strays) - held.keys()
        self.keep(held.keys() | strays)
        for pid in held.keys() | strays:
            process = self._processes.setdefault(pid, _Process())
            if pid not in used:
                process.absent()
            elif (used_bytes := used[pid]) is not None:
                if pid in strays or process.is_moving:
                    process.unattached(used_bytes)
                else:
                    process.listed(used_bytes, held[pid])

    def keep(self, pids: Iterable[int]) -> None:
        """Forget every process but `pids`: what a dead one had is free."""
        kept = set(pids)
        self._processes = {pid: process for pid, process in self._processes.items() if pid in kept}

    def forget(self, pid: int) -> None:
        """Forget one process."""
        self._processes.pop(pid, None)

    def begin_move(self, pid: int) -> bool:
        """Go on charging a stray that has attached with all it has, and return whether it was one with anything."""
        process = self._processes.get(pid)
        if process is None or process.figure_bytes == 0:
            return False
        process.is_moving = True
        return True

    def is_moving(self, pid: int) -> bool:
        """Return whether `begin_move` was said of it, and not yet `end_move`."""
        process = self._processes.get(pid)
        return process is not None and process.is_moving

    def end_move(self, pid: int, held_bytes: int) -> None:
        """Charge a process, from now on, with what it has beyond `held_bytes`, which stand in its page."""
        process = self._processes.get(pid)
        if process is not None and process.is_moving:
            process.is_moving = False
            process.figure_bytes = max(0, process.figure_bytes - held_bytes)

    def of(self, pid: int) -> int:
        """Return the overhead of one process, in bytes."""
        process = self._processes.get(pid)
        return process.figure_bytes if process else 0

    @property
    def total_bytes(self) -> int:
        """The overhead of all, in bytes."""
        return sum(process.figure_bytes for process in self._processes.values())
