"""A usage page that cannot be true: what the tenant's library says against what NVML says.

Not proof of bad will, but no library of ours writes such a page by itself. Pure.
"""

from __future__ import annotations

from jupyter_vgpu.agent.overhead import Held
from jupyter_vgpu.units import format_bytes

# A bare context takes 520 MiB (measured, H200), libraries' code and buffers some hundred MiB each.
MOST_UNACCOUNTED_BYTES = 2 << 30
# What a page says is held falls, and what NVML sees does not follow.
LEAST_FALL_BYTES = 512 << 20
# NVML and the page are not read in the same instant.
LOOKS = 2


class PageWatch:
    """One process's page, on one device, followed from look to look."""

    def __init__(self) -> None:
        """Start without a past."""
        self._used_bytes = 0
        self._held_bytes = 0
        self._launches = 0
        self._looks = {"fell": 0, "beyond": 0, "absurd": 0}

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
        answers = [
            self._went_back(launches),
            self._saw("absurd", written_bytes > total_bytes)
            and "its page says that it holds more memory than the device has",
        ]
        if used_bytes is not None:
            fell = self._fell(used_bytes, held)
            answers.append(
                self._saw("fell", fell)
                and f"its page gives up {format_bytes(self._held_bytes - held.most_bytes)} that the driver still holds"
            )
            unaccounted = used_bytes - held.most_bytes
            answers.append(
                self._saw("beyond", unaccounted > MOST_UNACCOUNTED_BYTES)
                and f"it has {format_bytes(max(0, unaccounted))} of device memory that its page does not account for"
            )
            if not fell:
                self._used_bytes, self._held_bytes = used_bytes, held.most_bytes
        return next((answer for answer in answers if answer), None)

    def _saw(self, what: str, is_so: bool) -> bool:
        """Return whether `what` has been so for exactly as many looks as make it certain."""
        self._looks[what] = self._looks[what] + 1 if is_so else 0
        return self._looks[what] == LOOKS

    def _went_back(self, launches: int) -> str:
        last, self._launches = self._launches, launches
        return f"its page counted {last} launches and now {launches}" if launches < last else ""

    def _fell(self, used_bytes: int, held: Held) -> bool:
        fall = self._held_bytes - held.most_bytes
        return fall >= LEAST_FALL_BYTES and used_bytes > self._used_bytes - fall // 4
