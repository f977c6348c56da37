"""What the agent makes of what its auditor saw: overhead is charged, contradictions and strangers are noted.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jupyter_vgpu.agent.auditor import Auditor, Question, Sight, Unknown
from jupyter_vgpu.agent.contradiction import PageWatch
from jupyter_vgpu.agent.ending import end_attached, end_process
from jupyter_vgpu.agent.events import Event, EventLog, Kind
from jupyter_vgpu.agent.metering import Metered, MeterWatch
from jupyter_vgpu.agent.origin import Claimant
from jupyter_vgpu.agent.overhead import Held
from jupyter_vgpu.agent.peers import started_ticks
from jupyter_vgpu.agent.reconciliation import Reconciliation
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.nvml import DeviceLook, Nvml, ProcessRow

OnBypass = Literal["report", "kill"]
OnExcess = Literal["report", "kill"]

# Devices that nobody has claimed are looked at less often; others, too, while nothing happens there.
_BEATS_BETWEEN_STRANGERS = 4
# So many looks in a row at which all was as before settle every figure here: the slowest takes eight.
_CALM_LOOKS = 12
_CURRENT_SECONDS = 3.0


@dataclass(frozen=True)
class AuditRules:
    """What the audit does.

    Attributes:
        on_bypass: What happens to a process of a slice that uses the device without the library.
        on_excess: What happens when a slice has had more memory than it may for two seconds; `kill` = the process that
            has most beyond what it was granted is ended.
        notes_strangers: Whether processes of no slice are noted. An agent of one command leaves the node to others.
    """

    on_bypass: OnBypass = "report"
    on_excess: OnExcess = "report"
    notes_strangers: bool = True


class Oversight:
    """Asks the auditor at each beat, and acts on what it saw."""

    def __init__(
        self,
        nvml: Nvml,
        rules: AuditRules,
        events: EventLog,
        tenants: Callable[[], Sequence[Tenant]],
        claimants: Callable[[], tuple[Claimant, ...]],
        uuids: Sequence[str],
    ) -> None:
        """Take what it works with; nothing is looked at yet.

        Args:
            nvml: The node's.
            rules: What to do.
            events: Where to note.
            tenants: All tenants with processes, those of released claims too.
            claimants: The same, as the auditor knows them.
            uuids: The node's devices.
        """
        self._nvml = nvml
        self._rules = rules
        self._events = events
        self._tenants = tenants
        self._claimants = claimants
        self._uuids = uuids
        self._auditor: Auditor | None = None
        self._is_asked = False
        self._beats = 0
        self._calm_looks = 0
        self._last_processes: dict[str, list[ProcessRow]] = {}
        self.looks = 0
        self._seen_at: dict[str, float] = {}
        self._pages: dict[tuple[str, int, int, int], PageWatch] = {}
        self._ledgers: dict[tuple[str, int], Reconciliation] = {}
        self._meters = {uuid: MeterWatch() for uuid in uuids}
        self._noted: dict[tuple[Kind, int, int], float] = {}
        self._started_ticks = started_ticks(os.getpid()) or 0
        self.trouble = "it has not looked yet"

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start looking, reporting into `loop`."""
        self._auditor = Auditor(loop, self._nvml, self._seen)
        self._auditor.start()

    def stop(self) -> None:
        """Stop looking."""
        if self._auditor is not None:
            self._auditor.stop()
            self._auditor = None
            self._nvml.close()

    def beat(self, is_awake: bool, is_at_rest: bool = False) -> None:
        """Have the devices looked at, unless the last look is not back yet.

        Args:
            is_awake: Whether any tenant did anything lately. Where none did for some seconds, and NVML says the same
                at each look, one look in four beats is enough.
            is_at_rest: Whether the next beat comes after twice as long: this one stands for two.
        """
        self._beats += 2 - self._beats % 2 if is_at_rest else 1
        if is_awake:
            self._calm_looks = 0
        if self._auditor is not None and (quiet := self._auditor.quiet()) is not None:
            self._came_back(quiet)
        if self._is_asked or (self.is_calm and self._beats % _BEATS_BETWEEN_STRANGERS != 0):
            return
        self._ask()

    def _ask(self) -> None:
        if self._auditor is None:
            return
        if self.is_calm and self._rules.notes_strangers:
            # All devices, and no questions of who is who: what each tenant is known by need not be gathered.
            devices = {uuid: watch.is_suspicious for uuid, watch in self._meters.items()}
            self._is_asked = True
            self._auditor.ask(Question(devices, as_before=dict(self._last_processes)))
            return
        tenants = self._tenants()
        uuids = {grant.uuid for tenant in tenants for grant in tenant.claim.grants} & set(self._uuids)
        if self._rules.notes_strangers and self._beats % _BEATS_BETWEEN_STRANGERS == 0:
            uuids.update(self._uuids)
        if not uuids:
            return
        self._is_asked = True
        attached = frozenset(pid for tenant in tenants for pid in tenant.processes)
        devices = {uuid: self._meters[uuid].is_suspicious for uuid in uuids}
        self._auditor.ask(Question(devices, attached, self._claimants()))

    @property
    def is_calm(self) -> bool:
        """Whether nobody did anything lately, by tenants' pages and by NVML."""
        return self._calm_looks >= _CALM_LOOKS

    def is_current(self, tenant: Tenant) -> bool:
        """Return whether all of a tenant's devices were looked at within the last seconds."""
        now = time.monotonic()
        return all(
            now - self._seen_at.get(grant.uuid, float("-inf")) < _CURRENT_SECONDS for grant in tenant.claim.grants
        )

    def has_seen(self, tenant: Tenant, since: float) -> bool:
        """Return whether a look at all of a tenant's devices was asked for since then (monotonic) and is back.

        A device that is gone is not looked at.
        """
        return all(
            self._seen_at.get(grant.uuid, float("-inf")) >= since
            for grant in tenant.claim.grants
            if grant.uuid in self._uuids
        )

    # What was seen

    def _seen(self, sight: Sight) -> None:
        if self._auditor is None:
            return
        if sight.is_glance:
            # Something is not as it was, and a glance does not say whose it is.
            self._is_asked, self._calm_looks = False, 0
            self._ask()
            return
        self._came_back(sight)
        is_as_before = sight.is_as_before(self._last_processes)
        self._last_processes.update({uuid: look.processes for uuid, look in sight.looks.items()})
        self._calm_looks = self._calm_looks + 1 if is_as_before else 0
        if self.is_calm:
            return
        tenants = self._tenants()
        attached = {pid for tenant in tenants for pid in tenant.processes}
        unknown = [each for each in sight.unknown if each.facts.pid not in attached]
        for tenant in tenants:
            for index, grant in enumerate(tenant.claim.grants):
                look = sight.looks.get(grant.uuid)
                if look is not None:
                    self._weigh(tenant, index, look, unknown)
        self._forget_pages(tenants)
        for uuid, look in sight.looks.items():
            self._check_meters(uuid, look, tenants, any(uuid in each.uuids for each in unknown))
        by_claim = {tenant.claim.claim_id: tenant for tenant in tenants}
        for each in unknown:
            self._note_unknown(each, by_claim.get(each.origin.claim_id or ""))
        self._noted = {key: at for key, at in self._noted.items() if sight.at - at < 60}

    def _came_back(self, sight: Sight) -> None:
        self._is_asked = False
        self.looks += 1
        self.trouble = sight.trouble
        self._seen_at.update(dict.fromkeys(sight.looks, sight.at))

    def _weigh(self, tenant: Tenant, index: int, look: DeviceLook, unknown: Sequence[Unknown]) -> None:
        uuid, claim_id = tenant.claim.grants[index].uuid, tenant.claim.claim_id
        used = {row.pid: row.used_bytes for row in look.processes}
        strays = {each.facts.pid for each in unknown if each.origin.claim_id == claim_id and uuid in each.uuids}
        granted = tenant.weigh(index, used, strays)
        for pid, held in granted.items():
            self._check_page(tenant, index, pid, used.get(pid), held)
        own = {pid: used[pid] for pid in granted.keys() | strays if pid in used}
        self._reconcile(tenant, index, own, granted, unknown)

    def drift_bytes(self, tenant: Tenant, index: int) -> int:
        """Return what NVML sees of a tenant on a device beyond what is charged; negative where it sees less."""
        ledger = self._ledgers.get((tenant.claim.claim_id, index))
        return ledger.drift_bytes if ledger else 0

    def _reconcile(
        self,
        tenant: Tenant,
        index: int,
        used: Mapping[int, int | None],
        granted: Mapping[int, Held],
        unknown: Sequence[Unknown],
    ) -> None:
        grant, claim_id = tenant.claim.grants[index], tenant.claim.claim_id
        ledger = self._ledgers.setdefault((claim_id, index), Reconciliation())
        sizes = [each for each in used.values() if each is not None]
        seen_bytes = sum(sizes) if len(sizes) == len(used) else None
        charged_bytes = sum(held.after_bytes for held in granted.values()) + tenant.overhead_bytes(index)
        excess = ledger.look(seen_bytes, charged_bytes, grant.memory_bytes)
        if excess is None:
            return
        self._events.add(Event(time.time(), "excess", f"{grant.uuid}: {excess}", claim_id))
        if self._rules.on_excess == "kill":
            beyond = {pid: size or 0 for pid, size in used.items()}
            for pid, held in granted.items():
                beyond[pid] = beyond.get(pid, 0) - held.most_bytes
            self._end_greediest(tenant, max(beyond, key=lambda pid: beyond[pid]), grant.uuid, unknown)

    def _end_greediest(self, tenant: Tenant, pid: int, uuid: str, unknown: Sequence[Unknown]) -> None:
        process = tenant.processes.get(pid)
        facts = next((each.facts for each in unknown if each.facts.pid == pid), None)
        if process is not None:
            refusal = end_attached(process.pidfd, pid)
        else:
            refusal = end_process(facts, tenant.claim.uid) if facts else "it is gone"
        message = f"ended process {pid}, which had most of the memory of {uuid} that was not granted to it"
        if refusal:
            message = f"process {pid} was not ended: {refusal}"
        self._events.add(Event(time.time(), "kill", message, tenant.claim.claim_id, pid))

    def _check_page(self, tenant: Tenant, index: int, pid: int, used_bytes: int | None, held: Held) -> None:
        process = tenant.processes[pid]
        key = (tenant.claim.claim_id, process.slot.index, process.slot.generation, index)
        page = self._pages.setdefault(key, PageWatch())
        raw = tenant.pages.read(process.slot, index)
        wrong = page.look(used_bytes, held, raw.launches, raw.held_bytes, tenant.total_bytes(index))
        if wrong is not None:
            message = f"process {pid} on {tenant.claim.grants[index].uuid}: {wrong}"
            self._events.add(Event(time.time(), "usage", message, tenant.claim.claim_id, pid))

    def _forget_pages(self, tenants: Sequence[Tenant]) -> None:
        living = {
            (tenant.claim.claim_id, process.slot.index, process.slot.generation)
            for tenant in tenants
            for process in tenant.processes.values()
        }
        self._pages = {key: page for key, page in self._pages.items() if key[:3] in living}
        claims = {tenant.claim.claim_id for tenant in tenants}
        self._ledgers = {key: ledger for key, ledger in self._ledgers.items() if key[0] in claims}

    def _check_meters(self, uuid: str, look: DeviceLook, tenants: Sequence[Tenant], has_unmetered: bool) -> None:
        watch = self._meters[uuid]
        if look.use is None or has_unmetered:
            watch.skip()
            return
        metered = [
            each
            for tenant in tenants
            for index, grant in enumerate(tenant.claim.grants)
            if grant.uuid == uuid and (each := _metered(tenant, index, look)) is not None
        ]
        claim_id = watch.look(metered, look.use)
        if claim_id is None:
            return
        slow = next(each for each in metered if each.claim_id == claim_id)
        message = (
            f"{uuid} was active for {watch.mean.active:.0%} of the last second, and the meters of all slices on it add "
            f"up to {sum(each.fraction for each in metered):.0%}; this slice's says {slow.fraction:.0%}"
            + ("" if slow.nvml is None else f", where NVML says {slow.nvml:.0%}")
        )
        self._events.add(Event(time.time(), "meter", message, claim_id))

    def _note_unknown(self, unknown: Unknown, tenant: Tenant | None) -> None:
        facts, origin = unknown.facts, unknown.origin
        if tenant is None and not self._rules.notes_strangers:
            return
        if tenant is not None and facts.has_library and facts.started_ticks < self._started_ticks:
            # It attached to an agent before this one, and will again at its next call.
            return
        kind: Kind = "stranger" if tenant is None else "bypass"
        key = (kind, facts.pid, facts.started_ticks)
        is_new = key not in self._noted
        self._noted[key] = time.monotonic()
        if not is_new:
            return
        where = ", ".join(unknown.uuids)
        who = f"process {facts.pid} ({facts.name}) of uid {facts.uid} uses {where}"
        if tenant is None:
            self._events.add(Event(time.time(), kind, f"{who} outside of any slice: {origin.why}", None, facts.pid))
            return
        claim = tenant.claim
        message = f"{who} without the library: {origin.why}"
        self._events.add(Event(time.time(), kind, message, claim.claim_id, facts.pid))
        if self._rules.on_bypass == "kill":
            refusal = end_process(facts, claim.uid)
            message = f"ended process {facts.pid} ({facts.name}), since it used {where} without the library"
            if refusal:
                message = f"process {facts.pid} ({facts.name}) was not ended: {refusal}"
            self._events.add(Event(time.time(), "kill", message, claim.claim_id, facts.pid))


def _metered(tenant: Tenant, index: int, look: DeviceLook) -> Metered | None:
    """Return what a tenant's meter says of its device at `index`; `None` when it has nothing to do with it now."""
    rates = tenant.rates(index)
    here = {row.pid for row in look.processes} & tenant.processes.keys()
    if not here and rates.gpu_time_fraction == 0:
        return None
    return Metered(
        claim_id=tenant.claim.claim_id,
        fraction=rates.gpu_time_fraction,
        nvml=sum(look.utilisation.get(pid, 0.0) for pid in here) if look.utilisation else None,
        launches_per_second=rates.least_launches_per_second,
        has_launched=rates.launches_per_second > 0 or tenant.totals(index).launches > 0,
    )
