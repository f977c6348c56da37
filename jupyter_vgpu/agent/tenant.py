"""One claim while it is bound: its pages, its processes, and what they use."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from jupyter_vgpu.agent.figures import NS, Governed, History, Rates, Totals
from jupyter_vgpu.agent.overhead import Held, Overhead
from jupyter_vgpu.backends import Enforcement
from jupyter_vgpu.model import Claim, Device, Grant
from jupyter_vgpu.pages import Reading, Slot, TenantPages
from jupyter_vgpu.steering import Guaranteed, Steered, Steering

# Of what a process says: what only grows while it lives.
_COUNTERS = ("launches", "waited_ns", "busy_ns", "refused", "gated_ns", "throttled", "sm_ns")

# Threads of one process that may stand at a gate at a time, for a figure that could be.
MOST_THREADS = 1024


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

    def __init__(self, claim: Claim, devices: Mapping[str, Device], steering: Steering | None = None) -> None:
        """Make the pages and write the limits.

        Args:
            claim: What was granted.
            devices: The node's devices by UUID. A granted device that is gone keeps its limits in the page.
            steering: Who governs its GPU time from now on; `None` = nobody does.

        Raises:
            NativeLibraryError: No pages can be made.
        """
        self.claim = claim
        self._made_at = time.monotonic()
        self.processes: dict[int, Process] = {}
        self.verification: Verification | None = None
        self._devices = devices
        self._steering = steering
        self._past = [Totals()] * len(claim.grants)
        self._of_ended_parts = [(Totals(), Governed())] * len(claim.grants)
        # Who comes from an earlier agent brings along what it did there: `None` until it has brought all.
        self._brought: dict[int, list[Totals] | None] = {}
        self._history = History()
        self._contenders = [0] * len(claim.grants)
        self._overheads = [Overhead() for _ in claim.grants]
        self._published_overheads = [0] * len(claim.grants)
        self._strays: list[frozenset[int]] = [frozenset()] * len(claim.grants)
        self._sampled: dict[int, list[Reading]] = {}
        self._sampled_signature: int | None = None
        self._is_at_rest = False
        self._launches: dict[tuple[str, object], int] = {}
        self._signature = 0
        self._readings: dict[tuple[Slot, int], Reading] = {}
        self._furthest: dict[tuple[Slot, int], Reading] = {}
        self.pages = TenantPages(len(claim.grants))
        for index, grant in enumerate(claim.grants):
            self.limit_to(index, grant)
            if steering is not None:
                steering.add(self.pages, index, grant.uuid, claim.priority, grant.guarantee_ppm)

    def attach(self, pid: int, pidfd: int, now: float, is_renewal: bool = False) -> Process | None:
        """Return the attached process, `None` when all slots are taken.

        The caller has detached an earlier life of the same process (before exec).

        Args:
            pid: Of the host.
            pidfd: Readable once it is dead.
            now: Unix seconds.
            is_renewal: Whether it was attached under an earlier agent, and carries its figures over into its page.
                What NVML saw of it counts until `moved`, so that none of its memory is free in between; what it did
                until then was counted there.
        """
        slot = self.pages.take_slot(pid)
        if slot is None:
            return None
        process = Process(pid, pidfd, slot, now)
        self.processes[pid] = process
        self.verification = None
        if is_renewal:
            self._brought[pid] = None
        for index, overhead in enumerate(self._overheads):
            if not (is_renewal and overhead.begin_move(pid)):
                overhead.forget(pid)
            self._publish_overhead(index)
        return process

    def is_moving(self, pid: int) -> bool:
        """Return whether a process is still carrying its figures over into its page."""
        return pid in self._brought and self._brought[pid] is None

    def moved(self, pid: int) -> None:
        """Count a process by its page from now on, and by what it has beyond that."""
        process = self.processes.get(pid)
        if process is None:
            return
        if self.is_moving(pid):
            self._brought[pid] = [_totals(self.reading(process, index)) for index in range(len(self.claim.grants))]
        for index, overhead in enumerate(self._overheads):
            overhead.end_move(pid, self.granted_bytes(process, index))
            self._publish_overhead(index)

    def detach(self, pid: int) -> Process | None:
        """Return the process, forgotten and its slot cleared; what it did stays counted."""
        process = self.processes.pop(pid, None)
        if process is not None:
            self._past = [past + self._done(process, index) for index, past in enumerate(self._past)]
            self.pages.clear_slot(process.slot)
            self._sampled.pop(pid, None)
            self._brought.pop(pid, None)
            for index in range(len(self._past)):
                self._furthest.pop((process.slot, index), None)
            for index, overhead in enumerate(self._overheads):
                overhead.keep(self.processes.keys() | self._strays[index])
                self._publish_overhead(index)
        return process

    def close(self) -> None:
        """Let nobody govern it, and close its pages."""
        if self._steering is not None:
            self._steering.drop(self.pages)
        self.pages.close()

    def limit_to(self, index: int, grant: Grant) -> None:
        """Write what the processes may have of the device at `index`, and what they are guaranteed, from now on."""
        self.pages.set_device(index, grant.uuid, grant.memory_bytes, grant.share_ppm, grant.ceiling_ppm)
        if self._steering is not None and self.claim.grants[index].guarantee_ppm:
            self._steering.guarantee(self.pages, index, grant.guarantee_ppm)

    def guaranteed(self, index: int) -> Guaranteed | None:
        """Return how the guarantee of the device at `index` was kept; `None` = there is none, or nobody governs."""
        if self._steering is None or not self.claim.grants[index].guarantee_ppm:
            return None
        return self._steering.guaranteed(self.pages, index)

    def steered(self, index: int) -> Steered | None:
        """Return what the governor knows of the device at `index`; `None` = it is not governed."""
        return self._steering.read(self.pages, index) if self._steering is not None else None

    def total_bytes(self, index: int) -> int:
        """Return the memory of the device at `index`; what was granted of one that is gone."""
        grant = self.claim.grants[index]
        device = self._devices.get(grant.uuid)
        return device.total_bytes if device else grant.memory_bytes

    def reading(self, process: Process, index: int) -> Reading:
        """Return what a process uses of the claim's device at `index`.

        Never more memory than the device has, never more time than the claim has existed, and never more launches than
        nanoseconds in it. No counter ever falls, whatever the process writes.
        """
        signature = self.pages.signature()
        if signature != self._signature:
            self._signature = signature
            self._readings.clear()
        if (known := self._readings.get((process.slot, index))) is None:
            read = self.pages.read(process.slot, index)
            known = believed = self._believable(read, index)
            if (furthest := self._furthest.get((process.slot, index))) is not None:
                known = _not_behind(known, furthest)
            self._furthest[process.slot, index] = known
            if believed is read:
                # What was cut to the claim's age may be more the next time, though the page stays as it is.
                self._readings[process.slot, index] = known
        return known

    def _believable(self, reading: Reading, index: int) -> Reading:
        most_bytes = self.total_bytes(index)
        most_ns = int(self._age_seconds() * NS)
        if (
            max(reading.held_bytes, reading.pending_bytes) <= most_bytes
            and max(reading.launches, reading.waited_ns, reading.throttled) <= most_ns
            and max(reading.sm_ns, reading.ahead_ns) <= reading.busy_ns <= most_ns
            and reading.gated_ns <= most_ns * MOST_THREADS
        ):
            return reading
        return replace(
            reading,
            held_bytes=min(reading.held_bytes, most_bytes),
            pending_bytes=min(reading.pending_bytes, most_bytes),
            launches=min(reading.launches, most_ns),
            waited_ns=min(reading.waited_ns, most_ns),
            busy_ns=min(reading.busy_ns, most_ns),
            sm_ns=min(reading.sm_ns, reading.busy_ns, most_ns),
            ahead_ns=min(reading.ahead_ns, reading.busy_ns, most_ns),
            gated_ns=min(reading.gated_ns, most_ns * MOST_THREADS),
            throttled=min(reading.throttled, most_ns),
        )

    def _age_seconds(self) -> float:
        """Return for how long the claim has existed; the wall clock may have been set back meanwhile."""
        return max(time.time() - self.claim.created_at, time.monotonic() - self._made_at)

    def memory_bytes(self, index: int) -> int:
        """Return what the processes hold or have reserved of the device at `index`, overhead included, at most all."""
        granted = sum(self.granted_bytes(process, index) for process in self.processes.values())
        return min(granted + self.overhead_bytes(index), self.total_bytes(index))

    def granted_bytes(self, process: Process, index: int) -> int:
        """Return what one process holds or has reserved, overhead not included."""
        return self.reading(process, index).granted_bytes

    def overhead_bytes(self, index: int, pid: int | None = None) -> int:
        """Return what the tenant has of the device at `index` beyond what was granted; `pid` = one process's part."""
        overhead = self._overheads[index]
        return overhead.total_bytes if pid is None else overhead.of(pid)

    def weigh(self, index: int, used: Mapping[int, int | None], strays: Collection[int]) -> dict[int, Held]:
        """Take in what NVML says of the device at `index`, and charge what goes beyond what was granted.

        Args:
            index: The device's place in the claim.
            used: Memory by process; `None` = NVML does not say.
            strays: Processes of this tenant that have not attached: all they have is beyond.

        Returns:
            What the attached processes' pages say they were granted, by process.
        """
        held = {}
        for process in self.processes.values():
            now_bytes = self.granted_bytes(process, index)
            sampled = self._sampled.get(process.pid)
            held[process.pid] = Held(sampled[index].granted_bytes if sampled else now_bytes, now_bytes)
        self._strays[index] = frozenset(strays)
        self._overheads[index].look(used, held, self._strays[index])
        self._publish_overhead(index)
        return held

    def _publish_overhead(self, index: int) -> None:
        if (total := self._overheads[index].total_bytes) != self._published_overheads[index]:
            self._published_overheads[index] = total
            self.pages.set_overhead(index, total)

    def totals(self, index: int) -> Totals:
        """Return what was done on the device at `index` since the claim was bound here; a death takes nothing off."""
        return sum((self._done(process, index) for process in self.processes.values()), self._past[index])

    def _done(self, process: Process, index: int) -> Totals:
        return self._here(process.pid, index, self.reading(process, index))

    def _here(self, pid: int, index: int, reading: Reading) -> Totals:
        """Return what of a process's figures it did since it attached here, and not under an earlier agent."""
        if pid not in self._brought:
            return _totals(reading)
        brought = self._brought[pid]
        return Totals() if brought is None else _totals(reading) - brought[index]

    def governed(self, index: int) -> Governed:
        """Return what the governor counted on the device at `index`; nothing where nobody governs."""
        steered, kept = self.steered(index), self.guaranteed(index)
        missed = kept.violations if kept is not None else 0
        if steered is None:
            return Governed(missed=missed)
        return Governed(steered.windows, steered.overruns, steered.violations, steered.closed_ns, missed)

    def of_ended_parts(self, index: int) -> tuple[Totals, Governed]:
        """Return what was done, and counted, on the device at `index` in parts of this slice that are no more."""
        return self._of_ended_parts[index]

    def take_over(self, part: Tenant) -> None:
        """Count what was done in a part of this slice, whose last process has ended, as the slice's from now on.

        Before the part is closed.
        """
        of_part = {grant.uuid: index for index, grant in enumerate(part.claim.grants)}
        for index, grant in enumerate(self.claim.grants):
            if (there := of_part.get(grant.uuid)) is not None:
                done, governed = self._of_ended_parts[index]
                self._of_ended_parts[index] = (done + part.totals(there), governed + part.governed(there))

    def held(self) -> list[Grant]:
        """Return what the processes still hold, as grants without a share, for placement after a release.

        No more than was granted: whatever a tenant writes into its page, it takes no room from others.
        """
        return [
            replace(grant, memory_bytes=min(self.memory_bytes(index), grant.memory_bytes), share_ppm=0)
            for index, grant in enumerate(self.claim.grants)
        ]

    def launches_of_processes(self) -> dict[tuple[str, object], int]:
        """Return the launches at the last `sample` by device and process, for counting who contends."""
        return self._launches

    def set_contenders(self, counts: Mapping[str, int]) -> None:
        """Write to the tenant how many processes, of any tenant, launched lately, by UUID; only what has changed."""
        for index, grant in enumerate(self.claim.grants):
            if (count := counts.get(grant.uuid, 0)) != self._contenders[index]:
                self._contenders[index] = count
                self.pages.set_contenders(index, count)

    def sample(self, now: float, looked_at: float = 0.0) -> bool:
        """Note what the processes use now: for rates, for who contends, and for the next look at overhead.

        Args:
            now: Monotonic seconds.
            looked_at: When it was last known to do nothing, if it is at rest.

        Returns:
            Whether there was anything to note: not where nothing has changed for so long that all rates are 0, and
            nobody has launched lately. Such a tenant is *at rest*, and costs no more than the question.
        """
        signature = self.pages.signature()
        if signature == self._sampled_signature and (self._is_at_rest or self._history.is_level):
            self._is_at_rest = True
            return False
        if self._is_at_rest:
            # What it does now, it has done since then, and not since it was noted last.
            self._history.hold(looked_at)
        self._is_at_rest = False
        self._sampled_signature = signature
        self._note(now)
        return True

    def _note(self, now: float) -> None:
        devices = range(len(self.claim.grants))
        self._sampled = {
            pid: [self.reading(process, index) for index in devices] for pid, process in self.processes.items()
        }
        self._launches = {
            (grant.uuid, (self.claim.claim_id, self.processes[pid].slot)): readings[index].launches
            for index, grant in enumerate(self.claim.grants)
            for pid, readings in self._sampled.items()
        }
        self._history.add(
            now,
            [
                sum(
                    (self._here(pid, index, readings[index]) for pid, readings in self._sampled.items()),
                    self._past[index],
                )
                for index in devices
            ],
        )

    def rates(self, index: int) -> Rates:
        """Return how fast the totals of the device at `index` grew over the last second or so."""
        return self._history.rates(index)


def _totals(reading: Reading) -> Totals:
    return Totals(
        reading.launches,
        reading.busy_ns,
        reading.waited_ns,
        reading.sm_ns,
        reading.gated_ns,
        reading.throttled,
        reading.ahead_ns,
    )


def _not_behind(reading: Reading, furthest: Reading) -> Reading:
    """Return a reading of which no counter is less than it was: Prometheus takes one that falls for a new one."""
    counters = {name: getattr(furthest, name) for name in _COUNTERS}
    behind = {name: count for name, count in counters.items() if getattr(reading, name) < count}
    return replace(reading, **behind) if behind else reading
