"""The agent itself: the claims of one node, bound to pages, processes and limits.

Used by `jupyter vgpu agent` with its HTTP sockets, and by `jupyter vgpu run` inside its own
process. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_vgpu._version import __version__
from jupyter_vgpu.agent import store
from jupyter_vgpu.agent.attendance import Attendance
from jupyter_vgpu.agent.changes import Changes
from jupyter_vgpu.agent.claims import ClaimBook, NewClaim, digest, new_names
from jupyter_vgpu.agent.clerk import Clerk
from jupyter_vgpu.agent.door import Door
from jupyter_vgpu.agent.events import EventLog
from jupyter_vgpu.agent.holders import Holders, claimant_of
from jupyter_vgpu.agent.nap import Nap
from jupyter_vgpu.agent.origin import Claimant
from jupyter_vgpu.agent.oversight import AuditRules, Oversight
from jupyter_vgpu.agent.roster import Roster
from jupyter_vgpu.agent.runtime import RuntimeDir
from jupyter_vgpu.agent.subslices import MOST_PARTS, part_claim, part_of
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.backends import BACKENDS, Node
from jupyter_vgpu.client import AgentInfo
from jupyter_vgpu.errors import (
    NoCapacityError,
    NoDriverError,
    NotAuthorizedError,
    UnknownDeviceError,
    VGPUError,
)
from jupyter_vgpu.model import Claim, ClaimRequest, Device, Edits
from jupyter_vgpu.nvml import Nvml
from jupyter_vgpu.placement import Room
from jupyter_vgpu.steering import Steering

if TYPE_CHECKING:
    from jupyter_vgpu.agent.bodies import SubsliceBody

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 0.25
# Where nobody does anything; tenants miss the heartbeat after two seconds.
REST_HEARTBEAT_SECONDS = 0.5


class Agent:
    """One node's devices and who holds them."""

    def __init__(
        self,
        devices: Sequence[Device],
        runtime: RuntimeDir,
        state_path: Path | None = None,
        simulated_state: Path | None = None,
        nvml: Nvml | None = None,
        rules: AuditRules | None = None,
        govern: bool = True,
    ) -> None:
        """Take up the claims of an earlier agent; nothing is served yet.

        Args:
            devices: The node's devices, at least one.
            runtime: The runtime directory, taken.
            state_path: Where claims are kept; `None` = nowhere, they end with this agent.
            simulated_state: State file of the simulated board; `None` on a real driver.
            nvml: The node's; `None` = nothing is audited and no overhead is known.
            rules: What the audit does.
            govern: Whether GPU time is governed; otherwise the driver's own time-slicing is all there is.

        Raises:
            UnreadableStateError: The state file is not ours.
            NativeLibraryError: The native part is missing.
        """
        # First of all: with a state that is not ours nothing is begun.
        kept = store.load(state_path) if state_path else ()
        self.runtime = runtime
        self.started_at = time.time()
        self.is_isolated = os.geteuid() == 0
        self.book = ClaimBook(devices)
        self.node = Node(runtime.path, simulated_state)
        self._devices = {device.uuid: device for device in devices}
        self.steering = Steering({device.uuid: number for number, device in enumerate(devices)}) if govern else None
        self.events = EventLog()
        self.changes = Changes()
        self._roster = Roster(self._devices, self.steering, self.events.forget)
        self._holders = Holders()
        self.oversight = (
            Oversight(nvml, rules or AuditRules(), self.events, self.all_tenants, self._claimants, list(self._devices))
            if nvml
            else None
        )
        if nvml is not None and len(devices) > 2:  # of two there is nothing to choose
            with contextlib.suppress(NoDriverError):
                self.book.distances = nvml.distances(list(self._devices))
        self._clerk = Clerk(state_path, self._to_keep)
        self._heartbeat: asyncio.Task[None] | None = None
        self._nap = Nap()
        self._background: set[asyncio.Task[Claim | None]] = set()
        for stored in kept:
            self._adopt(stored)
        if state_path:
            self.book.drained |= store.load_drained(state_path)
        for claim in self.book.slices:
            self._roster.share_out(claim.claim_id)

    @property
    def info(self) -> AgentInfo:
        """This agent, for those who are shown it."""
        return {"version": __version__, "started_at": self.started_at}

    @property
    def tenants(self) -> list[Tenant]:
        """The bound claims' tenants."""
        return list(self._roster.bound.values())

    def _adopt(self, stored: store.StoredClaim) -> None:
        claim = stored.claim
        for grant in claim.grants:
            if grant.uuid not in self._devices:
                log.warning("claim %s of %s: its device %s is gone", claim.claim_id, claim.tenant, grant.uuid)
        self.book.adopt(claim)
        self._roster.add(claim)
        self._holders.restore(claim.claim_id, stored.holder)
        log.info("claim %s of %s: taken up again", claim.claim_id, claim.tenant)

    # Starting and stopping

    def start(self) -> None:
        """Serve tenants' processes from the running loop."""
        loop = asyncio.get_running_loop()
        self._attendance = Attendance(loop, self._roster, self.tenant_of)
        if self.oversight is not None:
            self.oversight.start(loop)
        self._heartbeat = loop.create_task(self._beat())
        if self.steering is not None:
            loop.add_reader(self.steering.begun_fd, self._begun, self.steering.begun_fd)
        self._door = Door(self.runtime.bind("attach.sock", socket.SOCK_SEQPACKET, 0o666), self._attendance.decide)
        if self._roster.bound:
            self._door.open_after_another(self.runtime.taken_at, self.oversight, lambda: self.tenants)
        else:
            self._door.open()
        for claim_id in self._holders.claims:
            self._hold(claim_id)

    async def stop(self) -> None:
        """Stop serving. Claims that are kept on disk stay bound; the others are released."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._heartbeat
            if self.steering is not None:
                asyncio.get_running_loop().remove_reader(self.steering.begun_fd)
            await self._door.shut()
            if self.oversight is not None:
                self.oversight.stop()
            self._attendance.close()
        async with self._clerk.writing:
            self._roster.close(is_for_good=not self._clerk.keeps)
            if self.steering is not None:
                self.steering.close()
        self.runtime.close()

    async def _beat(self) -> None:
        """Say to every tenant, four times a second, that the agent lives; twice where nobody does anything."""
        pause_seconds = HEARTBEAT_SECONDS
        while True:
            self._roster.heartbeat()
            try:
                is_awake = self._roster.follow(time.monotonic())
                is_at_rest = not is_awake and (self.oversight is None or self.oversight.is_calm)
                pause_seconds = REST_HEARTBEAT_SECONDS if is_at_rest else HEARTBEAT_SECONDS
                if self.oversight is not None:
                    self.oversight.beat(is_awake, is_at_rest)
                self.changes.look(time.monotonic(), is_at_rest)
            except Exception:
                log.exception("following what tenants do failed")
            await self._nap.take(pause_seconds)

    def _begun(self, begun_fd: int) -> None:
        """Follow at once who does something where nobody did: its neighbours' meters want to know of it."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(begun_fd)
        self._nap.end()

    def all_tenants(self) -> list[Tenant]:
        """Return the bound claims' tenants, and those of released claims whose processes live on."""
        return self._roster.all

    def _claimants(self) -> tuple[Claimant, ...]:
        """Return by what each tenant's processes are known."""
        return tuple(claimant_of(tenant, self._holders.of(tenant.claim.claim_id)) for tenant in self.all_tenants())

    # Claims

    def rooms(self) -> list[Room]:
        """Return what no claim has been promised, and no process of a released one still holds."""
        return self.book.rooms(self._roster.lingering_grants())

    async def drain(self, uuid: str, is_drained: bool) -> None:
        """Let a device take no new claims, or take some again; it is kept over restarts.

        Raises:
            UnknownDeviceError: There is no such device.
        """
        if uuid not in self._devices:
            raise UnknownDeviceError(f"no device {uuid!r} on this node: there are {', '.join(self._devices)}")
        (self.book.drained.add if is_drained else self.book.drained.discard)(uuid)
        log.info("device %s %s", uuid, "takes no new claims: drained" if is_drained else "is in use again")
        await self._clerk.save()

    async def claim(self, request: ClaimRequest, holder: int | None = None) -> NewClaim:
        """Return a new claim, bound and on disk.

        Args:
            request: What is asked for.
            holder: A process with whose death the claim is released; `None` = it lives until released.

        Raises:
            NoCapacityError: It does not fit.
            BadValueError: It is not allowed.
            NativeLibraryError: The library or pages cannot be had.
        """
        new = self._bind(request, holder)
        try:
            await self._clerk.save()
        except BaseException:
            self._forget(new.claim.claim_id)
            raise
        self._bound(new)
        if holder is not None:
            self._hold(new.claim.claim_id)
        return new

    async def claim_all(self, requests: Sequence[ClaimRequest]) -> list[NewClaim | VGPUError]:
        """Return new claims made in the order of `requests`, bound and on disk; for each that cannot be had, why.

        They are written to disk together.
        """
        found: list[NewClaim | VGPUError] = []
        try:
            for request in requests:
                try:
                    found.append(self._bind(request, None))
                except VGPUError as error:
                    found.append(error)
            new = [one for one in found if isinstance(one, NewClaim)]
            if new:
                await self._clerk.save()
        except BaseException:
            for one in found:
                if isinstance(one, NewClaim):
                    self._forget(one.claim.claim_id)
            raise
        for one in new:
            self._bound(one)
        return found

    def _bind(self, request: ClaimRequest, holder: int | None) -> NewClaim:
        """Return a new claim that is not on disk yet; raises as `claim`."""
        claim_id, secret = new_names()
        claim, backend = self.book.admit(request, claim_id, secret, time.time(), self._roster.lingering_grants())
        try:
            edits = backend.prepare(claim, secret, self.node)
            self._roster.add(claim)
            self._holders.note(claim_id, holder)
        except BaseException:
            self._forget(claim_id)
            raise
        return NewClaim(claim, secret, edits)

    def _bound(self, new: NewClaim) -> None:
        claim = new.claim
        log.info("claim %s of %s: %s bound to %s", claim.claim_id, claim.tenant, claim.profile_name, _where(claim))

    async def divide(self, whole: Tenant, body: SubsliceBody, holder: int) -> NewClaim:
        """Return a new part of a slice, bound and on disk; its edits are the slice's with another secret.

        Args:
            whole: The slice's tenant.
            body: What is asked for.
            holder: A process with whose death the part is released.

        Raises:
            NoCapacityError: The slice has not that much left.
            BadValueError: It cannot be divided.
        """
        parent = whole.claim
        parts = self.book.parts_of(parent.claim_id)
        if len(parts) >= MOST_PARTS:
            raise NoCapacityError(f"this slice has {len(parts)} parts, the most it may have")
        taken = self._roster.taken(parent.claim_id)
        used = [whole.memory_bytes(index) for index in range(len(parent.grants))]
        grants = part_of(parent, body, taken, used)
        claim_id, secret = new_names()
        claim = part_claim(parent, body.name, grants, claim_id, digest(secret))
        self.book.adopt(claim)
        try:
            self._roster.add(claim)
            self._roster.share_out(parent.claim_id)
            # Only now is nothing more given out there: what was, between the look and the new limit, is seen here.
            part_of(parent, body, taken, [whole.memory_bytes(index) for index in range(len(grants))])
            self._holders.note(claim.claim_id, holder)
            await self._clerk.save()
        except BaseException:
            self._forget(claim.claim_id)
            raise
        log.info("claim %s of %s: %s is a part of %s", claim.claim_id, claim.tenant, body.name, parent.claim_id)
        self._hold(claim.claim_id)
        return NewClaim(claim, secret, Edits({"JUPYTER_VGPU_SECRET": secret}, [], [], [], []))

    def parts(self, claim_id: str) -> list[Tenant]:
        """Return the tenants that have a part of a claim's slice, also released ones whose processes live on."""
        return self._roster.parts(claim_id)

    async def release(self, claim_id: str) -> Claim | None:
        """Return the claim as released, `None` when there was none; its processes get no more memory."""
        released = self._forget(claim_id)
        if released is not None:
            log.info("claim %s of %s: released", claim_id, released.tenant)
            await self._clerk.save()
        return released

    def _forget(self, claim_id: str) -> Claim | None:
        for part in self.book.parts_of(claim_id):
            self._forget(part.claim_id)
        released = self.book.release(claim_id)
        self._holders.forget(claim_id)
        if released is not None:
            BACKENDS[released.backend].release(released)
            self._attendance.released(released)
        self._roster.release(claim_id)
        return released

    def _hold(self, claim_id: str) -> None:
        """Release the claim when its holder dies, or now when it is dead."""

        def died() -> None:
            log.info("claim %s: the process it lived with has ended", claim_id)
            task = asyncio.get_running_loop().create_task(self.release(claim_id))
            self._background.add(task)  # the loop itself holds tasks weakly
            task.add_done_callback(self._background.discard)

        self._holders.watch(claim_id, self._attendance.deaths, died)

    def _to_keep(self) -> tuple[list[store.StoredClaim], set[str]]:
        claims = [store.StoredClaim(claim, self._holders.of(claim.claim_id)) for claim in self.book.claims]
        return claims, self.book.drained

    # A tenant's processes

    def is_isolated_from(self, claim: Claim) -> bool:
        """Return whether the claim's user has other rights than the agent, and so cannot interfere with it."""
        return self.is_isolated and claim.uid != os.geteuid()

    def is_audited(self, tenant: Tenant) -> bool:
        """Return whether an audit looks at all of a tenant's devices now."""
        return self.oversight is not None and self.oversight.is_current(tenant)

    def drift_bytes(self, tenant: Tenant, index: int) -> int:
        """Return what NVML sees of a tenant on its device at `index` beyond what is charged; 0 = nothing is audited."""
        return self.oversight.drift_bytes(tenant, index) if self.oversight is not None else 0

    def tenant(self, claim_id: str) -> Tenant:
        """Return a bound claim's tenant.

        Raises:
            UnknownClaimError: There is none.
        """
        return self._roster.bound[self.book.get(claim_id).claim_id]

    def tenant_of(self, secret: str, uid: int) -> Tenant:
        """Return the tenant that `secret` opens to a peer of user `uid`.

        Raises:
            UnknownClaimError: No such secret, or its claim has been released.
            NotAuthorizedError: The claim is another user's.
        """
        claim = self.book.by_secret(secret)
        if claim.uid != uid:
            raise NotAuthorizedError(f"this slice belongs to uid {claim.uid}, and you are uid {uid}")
        return self._roster.bound[claim.claim_id]


def _where(claim: Claim) -> str:
    return ", ".join(grant.uuid for grant in claim.grants)
