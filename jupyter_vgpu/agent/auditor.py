"""The thread that looks: who is on the devices, by NVML, and whose the unknown ones are, by /proc.

It decides nothing. NVML may stall and /proc may hang; the event loop hears of it when there is something to hear.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from jupyter_vgpu.agent.metering import LEAST_ACTIVE
from jupyter_vgpu.agent.origin import Claimant, Facts, Origin, cgroup_of, origin_of, read_facts
from jupyter_vgpu.agent.peers import started_ticks
from jupyter_vgpu.errors import NoDriverError
from jupyter_vgpu.native import INTERCEPT_LIBRARY
from jupyter_vgpu.nvml import DeviceLook, Nvml, ProcessRow

log = logging.getLogger(__name__)

# A stranger may turn out to be someone's: its claim comes later, or it was looked at while it was starting.
_AGAIN_SECONDS = 5.0


@dataclass(frozen=True)
class Question:
    """What to look at.

    Attributes:
        devices: UUID of each device to look at, and whether each process's part of its time is asked for.
        attached: The processes known to use them rightly.
        claimants: Who an unknown process may belong to.
        as_before: Where given, this is only a glance at devices where nobody does anything: who was on each. Nobody is
            identified, and the asker is told at once only where anything is not as it was.
    """

    devices: Mapping[str, bool]
    attached: frozenset[int] = frozenset()
    claimants: tuple[Claimant, ...] = ()
    as_before: Mapping[str, list[ProcessRow]] | None = None


@dataclass(frozen=True)
class Unknown:
    """A process on a device that had not attached when it was looked at.

    Attributes:
        facts: The process.
        origin: Whose it is thought to be.
        uuids: The devices it is on.
    """

    facts: Facts
    origin: Origin
    uuids: tuple[str, ...]


@dataclass(frozen=True)
class Sight:
    """What was seen.

    Attributes:
        at: When it was asked for, in monotonic seconds.
        looks: What NVML said, by UUID; a device that is missing was not answered for.
        unknown: The processes that had not attached.
        trouble: Why devices are missing; `""` = none is.
        is_glance: Whether it answers a glance, and nobody was identified.
    """

    at: float
    looks: Mapping[str, DeviceLook]
    unknown: tuple[Unknown, ...] = ()
    trouble: str = ""
    is_glance: bool = False

    def is_as_before(self, before: Mapping[str, list[ProcessRow]]) -> bool:
        """Return whether it shows only known processes with what they had `before`, on devices that do nothing."""
        return (
            all(before.get(uuid) == look.processes for uuid, look in self.looks.items())
            and all(look.use is None or look.use.active < LEAST_ACTIVE for look in self.looks.values())
            and not self.unknown
            and not self.trouble
        )


@dataclass
class _Known:
    facts: Facts
    origin: Origin
    at: float = field(default_factory=time.monotonic)


class Auditor:
    """Answers one question at a time, in a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, nvml: Nvml, seen: Callable[[Sight], None]) -> None:
        """Report to `seen`, in `loop`."""
        self._loop = loop
        self._nvml = nvml
        self._seen = seen
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._known: dict[int, _Known] = {}
        self._quiet: Sight | None = None
        self._cgroup = cgroup_of(os.getpid())
        self._thread = threading.Thread(target=self._work, name="jvgpu-auditor", daemon=True)

    def start(self) -> None:
        """Start the thread. It is a daemon: a stalled NVML does not keep the agent alive."""
        self._thread.start()

    def ask(self, question: Question) -> None:
        """Look; `seen` is called once for it, or `quiet` says it. The caller waits for that before it asks again."""
        self._questions.put(question)

    def quiet(self) -> Sight | None:
        """Return, once, what the last glance saw where all was as before: for that the loop is not woken."""
        quiet, self._quiet = self._quiet, None
        return quiet

    def stop(self) -> None:
        """Stop; whatever is being looked at is not reported."""
        self._questions.put(None)

    def _work(self) -> None:
        while (question := self._questions.get()) is not None:
            at = time.monotonic()
            try:
                sight = self._look(question, at)
            except Exception:
                log.exception("the audit's look failed")
                sight = Sight(at, {}, trouble="a look failed; the agent's log says why")
            if question.as_before is not None and sight.is_as_before(question.as_before):
                self._quiet = sight
                continue
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._seen, sight)

    def _look(self, question: Question, at: float) -> Sight:
        looks: dict[str, DeviceLook] = {}
        trouble = ""
        is_glance = question.as_before is not None
        for uuid, with_utilisation in question.devices.items():
            try:
                looks[uuid] = self._nvml.look(uuid, with_utilisation, is_glance)
            except NoDriverError as error:
                trouble = str(error)
        unknown = () if is_glance else tuple(self._identify(looks, question))
        return Sight(at, looks, unknown, trouble, is_glance)

    def _identify(self, looks: Mapping[str, DeviceLook], question: Question) -> list[Unknown]:
        uuids: dict[int, list[str]] = {}
        for uuid, look in looks.items():
            for row in look.processes:
                if row.pid not in question.attached:
                    uuids.setdefault(row.pid, []).append(uuid)
        # Who is on a device that was not looked at this time is not forgotten for it.
        self._known = {pid: known for pid, known in self._known.items() if pid in uuids or _is_fresh(known)}
        found = []
        for pid, where in uuids.items():
            if (known := self._known_as(pid, question)) is not None:
                found.append(Unknown(known.facts, known.origin, tuple(where)))
        return found

    def _known_as(self, pid: int, question: Question) -> _Known | None:
        """Return who an unknown process is, `None` when it is gone. Looked up again where it was a stranger."""
        known = self._known.get(pid)
        claims = {claimant.claim_id for claimant in question.claimants}
        if (
            known is not None
            and known.facts.started_ticks == started_ticks(pid)
            and (known.origin.claim_id in claims or (known.origin.claim_id is None and _is_fresh(known)))
        ):
            return known
        facts = read_facts(pid, INTERCEPT_LIBRARY)
        if facts is None:
            self._known.pop(pid, None)
            return None
        claimants = [_with_cgroups(claimant) for claimant in question.claimants]
        self._known[pid] = _Known(facts, origin_of(facts, claimants, os.geteuid(), self._cgroup))
        return self._known[pid]


def _with_cgroups(claimant: Claimant) -> Claimant:
    return replace(claimant, cgroups=frozenset(cgroup_of(pid) for pid in claimant.pids) - {""})


def _is_fresh(known: _Known) -> bool:
    return time.monotonic() - known.at < _AGAIN_SECONDS
