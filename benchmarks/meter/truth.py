"""What is true of a run: how long its work takes alone, measured before it and after it, and the clocks meanwhile."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

LOOK_SECONDS = 0.02

Span = Literal["before", "during", "after"]


@dataclass(frozen=True)
class Alone:
    """How long a unit of one tenant's work takes alone, in the process that did the run.

    Attributes:
        before_ns: Measured when everybody had learned, right before the run.
        after_ns: Measured right after it.
    """

    before_ns: float
    after_ns: float

    @property
    def mean_ns(self) -> float:
        """What known work is counted with."""
        return (self.before_ns + self.after_ns) / 2

    @property
    def spread(self) -> float:
        """How far the two are apart, as a part of their mean: how sure the truth itself is."""
        return abs(self.after_ns - self.before_ns) / self.mean_ns

    def known_seconds(self, units: float) -> float:
        """Return the GPU time of so many units."""
        return units * self.mean_ns / 1e9

    def waited_seconds(self, units: float, waited_ns: float) -> float:
        """Return how long so many units were waited for beyond their GPU time.

        Args:
            units: Finished in the run.
            waited_ns: Beyond what they take by `before_ns`, all together.
        """
        return (waited_ns - units * (self.mean_ns - self.before_ns)) / 1e9


class Clocks:
    """The SM clock by time, read every 20 ms while the context lasts; nothing where there is no NVML."""

    def __init__(self, nvml: Any | None) -> None:
        """Take the `pynvml` module, initialised; `None` = there is none to ask."""
        self._nvml = nvml
        self._seen: list[tuple[float, int]] = []
        self._spans: dict[Span, tuple[float, float]] = {}
        self._over = threading.Event()

    @contextmanager
    def read(self) -> Iterator[None]:
        """Read them for as long as the context lasts."""
        reader = threading.Thread(target=self._read, name="clocks", daemon=True)
        reader.start()
        try:
            yield
        finally:
            self._over.set()
            reader.join()

    @contextmanager
    def span(self, name: Span) -> Iterator[None]:
        """Note that what the context does is `name`."""
        begun = time.monotonic()
        yield
        self._spans[name] = (begun, time.monotonic())

    def medians_mhz(self) -> dict[Span, float]:
        """Return the clock in the middle of each span that any reading fell in."""
        return medians(self._seen, self._spans)

    def _read(self) -> None:
        if self._nvml is None:
            return
        device = self._nvml.nvmlDeviceGetHandleByIndex(0)
        while not self._over.wait(LOOK_SECONDS):
            try:
                mhz = self._nvml.nvmlDeviceGetClockInfo(device, self._nvml.NVML_CLOCK_SM)
            except self._nvml.NVMLError:
                continue
            self._seen.append((time.monotonic(), int(mhz)))


def medians(seen: Sequence[tuple[float, int]], spans: dict[Span, tuple[float, float]]) -> dict[Span, float]:
    """Return the median of what was seen in each span; a span in which nothing was is left out.

    Args:
        seen: When (seconds) and what.
        spans: From when to when, by name.
    """
    found = {name: [what for when, what in seen if begin <= when <= end] for name, (begin, end) in spans.items()}
    return {name: float(statistics.median(values)) for name, values in found.items() if values}
