"""A usage page that cannot be true: what the tenant's library says against what NVML says.

Not proof of bad will, but no library of ours writes such a page by itself. Pure.

NVML and the page are not read in the same instant: a process that allocates and frees without a pause may have
nothing by its page just before and just after NVML saw it with a lot, also several times in a row. So NVML is held
against all that the page said in two seconds of looks, and not only in the look at hand: a page is wrong when nothing
that it said in all that time explains the least that NVML saw.
"""

from __future__ import annotations

from collections import deque

from jupyter_vgpu.agent.overhead import Held
from jupyter_vgpu.units import format_bytes

# A bare context takes 520 MiB (measured, H200), libraries' code and buffers some hundred MiB each.
MOST_UNACCOUNTED_BYTES = 2 << 30
# What a page says is held falls, and what NVML sees does not follow.
LEAST_FALL_BYTES = 512 << 20
# Two seconds at four looks a second. Of a process that is seen at random, with memory a third of the time (the worst),
# 4 looks in 27 are wrong; that eight in a row are, happens once in four million looks.
LOOKS = 8
# What cannot be whatever NVML says.
ABSURD_LOOKS = 2


class PageWatch:
    """One process's page, on one device, followed from look to look."""

    def __init__(self) -> None:
        """Start without a past."""
        self._launches = 0
        self._absurd_looks = 0
        self._used: deque[int] = deque(maxlen=LOOKS)
        self._held: deque[int] = deque(maxlen=LOOKS)
        self._was_beyond = False
        # The last look at which the page and NVML could both be right, and what has been seen since.
        self._true_used_bytes = 0
        self._true_held_bytes = 0
        self._least_used_bytes = 0
        self._most_held_bytes = 0
        self._fallen_looks = 0

    def look(
        self, used_bytes: int | None, held: Held, launches: int, written_bytes: int, total_bytes: int
    ) -> str | None:
        """Return what is wrong, in words, at the look that makes it certain; `None` otherwise.

        Args:
            used_bytes: What NVML says the process has; `None` = it says nothing.
            held: What the page says the process was granted, cut to the device's memory.
            launches: What the page says was launched.
            written_bytes: What the page says the process holds, as it stands there.
            total_bytes: The device's memory.
        """
        answers = [self._went_back(launches), self._is_absurd(written_bytes > total_bytes)]
        if used_bytes is not None:
            held_bytes = max(held.most_bytes, min(written_bytes, total_bytes))
            answers += [self._fell(used_bytes, held_bytes), self._is_beyond(used_bytes, held_bytes)]
        return next((answer for answer in answers if answer), None)

    def _went_back(self, launches: int) -> str:
        last, self._launches = self._launches, launches
        return f"its page counted {last} launches and now {launches}" if launches < last else ""

    def _is_absurd(self, is_so: bool) -> str:
        self._absurd_looks = self._absurd_looks + 1 if is_so else 0
        is_certain = self._absurd_looks == ABSURD_LOOKS
        return "its page says that it holds more memory than the device has" if is_certain else ""

    def _fell(self, used_bytes: int, held_bytes: int) -> str:
        if self._fallen_looks == 0:
            self._least_used_bytes, self._most_held_bytes = used_bytes, held_bytes
        self._least_used_bytes = min(self._least_used_bytes, used_bytes)
        self._most_held_bytes = max(self._most_held_bytes, held_bytes)
        fall_bytes = self._true_held_bytes - self._most_held_bytes
        if fall_bytes < LEAST_FALL_BYTES or self._least_used_bytes <= self._true_used_bytes - fall_bytes // 4:
            self._true_used_bytes, self._true_held_bytes = used_bytes, _on_device(held_bytes, used_bytes)
            self._fallen_looks = 0
            return ""
        self._fallen_looks += 1
        is_certain = self._fallen_looks == LOOKS
        return f"its page gives up {format_bytes(fall_bytes)} that the driver still holds" if is_certain else ""

    def _is_beyond(self, used_bytes: int, held_bytes: int) -> str:
        self._used.append(used_bytes)
        self._held.append(held_bytes)
        unaccounted_bytes = min(self._used) - max(self._held)
        was_beyond = self._was_beyond
        self._was_beyond = len(self._used) == LOOKS and unaccounted_bytes > MOST_UNACCOUNTED_BYTES
        if was_beyond or not self._was_beyond:
            return ""
        return f"it has {format_bytes(unaccounted_bytes)} of device memory that its page does not account for"


def _on_device(held_bytes: int, used_bytes: int) -> int:
    """Return how much of what was granted NVML surely saw: of managed memory, or while the driver works, not all."""
    return held_bytes if held_bytes <= used_bytes else max(0, used_bytes - MOST_UNACCOUNTED_BYTES)
