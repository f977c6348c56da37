"""What processes did on one device, added up, and how fast it grows. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_SECONDS = 1.0
NS = 1_000_000_000


@dataclass(frozen=True)
class Totals:
    """What was done on one device so far.

    Attributes:
        launches: Launches, graph launches included.
        busy_ns: GPU time had.
        waited_ns: Time with work in flight, less the GPU time it had.
        sm_ns: GPU time, times the part of the SMs that the launches could fill.
        gated_ns: Time that launches stood at a closed gate or at the bound of what may be in flight.
        throttled: Launches that did.
        ahead_ns: Of `busy_ns`, what was charged too much and is not taken off what is charged next yet; may fall.
    """

    launches: int = 0
    busy_ns: int = 0
    waited_ns: int = 0
    sm_ns: int = 0
    gated_ns: int = 0
    throttled: int = 0
    ahead_ns: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.launches + other.launches,
            self.busy_ns + other.busy_ns,
            self.waited_ns + other.waited_ns,
            self.sm_ns + other.sm_ns,
            self.gated_ns + other.gated_ns,
            self.throttled + other.throttled,
            self.ahead_ns + other.ahead_ns,
        )

    def __sub__(self, earlier: Totals) -> Totals:
        return Totals(
            self.launches - earlier.launches,
            self.busy_ns - earlier.busy_ns,
            self.waited_ns - earlier.waited_ns,
            self.sm_ns - earlier.sm_ns,
            self.gated_ns - earlier.gated_ns,
            self.throttled - earlier.throttled,
            self.ahead_ns - earlier.ahead_ns,
        )


@dataclass(frozen=True)
class Governed:
    """What the governor counted of one claim on one device so far.

    Attributes:
        windows: Windows that it was given.
        overruns: Windows for which others had to wait longer than its work should have taken.
        violations: Seconds in which it always wanted its promised share and did not have it.
        closed_ns: Time that its gate was closed.
        missed: Seconds in which it would have used what it is guaranteed, and had less.
    """

    windows: int = 0
    overruns: int = 0
    violations: int = 0
    closed_ns: int = 0
    missed: int = 0

    def __add__(self, other: Governed) -> Governed:
        return Governed(
            self.windows + other.windows,
            self.overruns + other.overruns,
            self.violations + other.violations,
            self.closed_ns + other.closed_ns,
            self.missed + other.missed,
        )


@dataclass(frozen=True)
class Rates:
    """How fast a device's totals grow.

    Attributes:
        launches_per_second: 0..10⁹.
        least_launches_per_second: The same in that part of the last second in which it was least.
        gpu_time_fraction: GPU time per time, 0..1.
        waiting_fraction: Time waited per time, over all processes together, 0..1.
        sm_usage: GPU time, times the part of the SMs that the launches could fill, per time, 0..1.
    """

    launches_per_second: float = 0.0
    least_launches_per_second: float = 0.0
    gpu_time_fraction: float = 0.0
    waiting_fraction: float = 0.0
    sm_usage: float = 0.0


class History:
    """The totals of the last second or so, device by device."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._samples: deque[tuple[float, Sequence[Totals]]] = deque()

    def add(self, now: float, totals: Sequence[Totals]) -> None:
        """Note the totals at `now` (monotonic seconds), one for each device, always in the same order."""
        self._samples.append((now, totals))
        while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW_SECONDS:
            self._samples.popleft()

    def hold(self, now: float) -> None:
        """Note that nothing has changed from the last totals until `now`, so that rates are of the window and no more.

        Nothing where there are no totals, or later ones.
        """
        last_at, totals = self._samples[-1] if self._samples else (now, ())
        for at in (now - WINDOW_SECONDS, now):
            if at > last_at:
                self.add(at, totals)

    @property
    def is_level(self) -> bool:
        """Whether nothing has grown for the whole window: every rate is 0, and stays 0 while nothing is added."""
        (then, first), (now, _) = (self._samples[0], self._samples[-1]) if self._samples else ((0.0, ()), (0.0, ()))
        return now - then >= WINDOW_SECONDS and all(totals == first for _, totals in self._samples)

    def rates(self, index: int) -> Rates:
        """Return how fast the totals of the device at `index` grew over the last second or so.

        All 0 until there are two samples. Totals come from tenants and may shrink: that is no growth.
        """
        if len(self._samples) < 2:
            return Rates()
        (then, first), (now, last) = self._samples[0], self._samples[-1]
        if now <= then:
            return Rates()
        before, after = first[index], last[index]
        seconds = now - then
        pairs = zip(self._samples, list(self._samples)[1:], strict=False)
        return Rates(
            launches_per_second=_rate(after.launches - before.launches, seconds),
            least_launches_per_second=min(
                _rate(later[index].launches - earlier[index].launches, end - begin)
                for (begin, earlier), (end, later) in pairs
            ),
            gpu_time_fraction=_fraction(_had_ns(before, after), seconds),
            waiting_fraction=_fraction(after.waited_ns - before.waited_ns, seconds),
            sm_usage=_fraction(_sm_ns(before, after), seconds),
        )


def _had_ns(before: Totals, after: Totals) -> int:
    """Return the GPU time had between two samples.

    While what was charged too much is taken off, nothing is charged, and the GPU is had all the same. Where it is given
    back at once it is of an earlier time: that says nothing of this one.
    """
    charged_ns = after.busy_ns - before.busy_ns
    return max(charged_ns, charged_ns + before.ahead_ns - after.ahead_ns)


def _sm_ns(before: Totals, after: Totals) -> float:
    """Return the same, times the part of the SMs; of what is not charged, the part is that of all so far."""
    free_ns = _had_ns(before, after) - (after.busy_ns - before.busy_ns)
    part = after.sm_ns / after.busy_ns if after.busy_ns > 0 else 0.0
    return after.sm_ns - before.sm_ns + free_ns * part


def _fraction(grown_ns: float, seconds: float) -> float:
    return min(1.0, max(0.0, grown_ns) / NS / seconds)


def _rate(launches: int, seconds: float) -> float:
    return min(float(NS), max(0, launches) / seconds) if seconds > 0 else 0.0
