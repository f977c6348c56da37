"""One claim while it is bound: its pages, its processes, and what they use."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_vgpu.backends import Enforcement
from jupyter_vgpu.model import Claim, Device, Grant
from jupyter_vgpu.pages import Reading, Slot, TenantPages

_RATE_SECONDS = 1.0


@dataclass(frozen=True)
class Process:
    """An attached process.

    Attributes:
        pid: Of the host.
        pidfd: Readable once it is dead; the agent's to close.
        slot: Its place in the usage page.
        attached_at: Unix seconds.
    """

    pid: int
    pidfd: int
    slot: Slot
    attached_at: float


@dataclass(frozen=True)
class Verification:
    """What the backend saw, and when (Unix seconds)."""

    enforcement: Enforcement
    at: float


class Tenant:
    """The pages of one claim and who is attached to them."""

    def __init__(self, claim: Claim, devices: Mapping[str, Device]) -> None:
        """Make the pages and write the limits.

        Args:
            claim: What was granted.
            devices: The node's devices by UUID. A granted device that is gone keeps its limits in the page.

        Raises:
            NativeLibraryError: No pages can be made.
        """
        self.claim = claim
        self.processes: dict[int, Process] = {}
        self.verification: Verification | None = None
        self._devices = devices
        self._past_launches = [0] * len(claim.grants)
        self._samples: deque[tuple[float, list[int]]] = deque()
        self.pages = TenantPages(len(claim.grants))
        for index, grant in enumerate(claim.grants):
            self.pages.set_device(index, grant.uuid, grant.memory_bytes, grant.share_ppm, grant.ceiling_ppm)

    def attach(self, pid: int, pidfd: int, now: float) -> Process | None:
        """Return the attached process, `None` when all slots are taken.

        The caller has detached an earlier life of the same process (before exec).
        """
        slot = self.pages.take_slot(pid)
        if slot is None:
            return None
        process = Process(pid, pidfd, slot, now)
        self.processes[pid] = process
        self.verification = None
        return process

    def detach(self, pid: int) -> Process | None:
        """Return the process, forgotten and its slot cleared; its launches stay counted."""
        process = self.processes.pop(pid, None)
        if process is not None:
            for index in range(len(self.claim.grants)):
                self._past_launches[index] += self.reading(process, index).launches
            self.pages.clear_slot(process.slot)
        return process

    def reading(self, process: Process, index: int) -> Reading:
        """Return what a process uses of the claim's device at `index`, never more memory than the device has."""
        reading = self.pages.read(process.slot, index)
        grant = self.claim.grants[index]
        device = self._devices.get(grant.uuid)
        most_bytes = device.total_bytes if device else grant.memory_bytes
        return Reading(
            held_bytes=min(reading.held_bytes, most_bytes),
            pending_bytes=min(reading.pending_bytes, most_bytes),
            launches=reading.launches,
            refused=reading.refused,
        )

    def memory_bytes(self, index: int) -> int:
        """Return what the processes hold or have reserved of the device at `index`, at most all of it."""
        readings = [self.reading(process, index) for process in self.processes.values()]
        grant = self.claim.grants[index]
        device = self._devices.get(grant.uuid)
        total = sum(reading.held_bytes + reading.pending_bytes for reading in readings)
        return min(total, device.total_bytes if device else grant.memory_bytes)

    def launches(self, index: int) -> int:
        """Return launches on the device at `index` since the claim was bound here; never shrinks by a death."""
        return self._past_launches[index] + sum(
            self.reading(process, index).launches for process in self.processes.values()
        )

    def held(self) -> list[Grant]:
        """Return what the processes still hold, as grants without a share, for placement after a release."""
        return [
            Grant(grant.uuid, self.memory_bytes(index), 0, grant.ceiling_ppm)
            for index, grant in enumerate(self.claim.grants)
        ]

    def sample(self, now: float) -> None:
        """Note the launches so far, for their rate.

        Args:
            now: Monotonic seconds.
        """
        self._samples.append((now, [self.launches(index) for index in range(len(self.claim.grants))]))
        while len(self._samples) > 2 and self._samples[1][0] <= now - _RATE_SECONDS:
            self._samples.popleft()

    def launches_per_second(self, index: int) -> float:
        """Return launches per second over the last second or so; 0 until there are two samples."""
        if len(self._samples) < 2:
            return 0.0
        (then, before), (now, after) = self._samples[0], self._samples[-1]
        return max(0.0, (after[index] - before[index]) / (now - then)) if now > then else 0.0
