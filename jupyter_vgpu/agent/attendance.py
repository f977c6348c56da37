"""Which processes are attached for each tenant: how they come, how they go, and what is seen of them.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

from jupyter_vgpu import pages
from jupyter_vgpu.agent import peers
from jupyter_vgpu.agent.attach import Answer
from jupyter_vgpu.agent.roster import Roster
from jupyter_vgpu.agent.tenant import Tenant, Verification
from jupyter_vgpu.agent.watch import DeathWatch, Looker
from jupyter_vgpu.backends import Enforcement
from jupyter_vgpu.errors import NotAuthorizedError, UnknownClaimError
from jupyter_vgpu.model import Claim

log = logging.getLogger(__name__)


class Attendance:
    """The processes of all tenants of one node."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, roster: Roster, tenant_of: Callable[[str, int], Tenant]
    ) -> None:
        """Watch in `loop`.

        Args:
            loop: The running loop.
            roster: The node's tenants.
            tenant_of: Returns the tenant that a secret opens to a peer of a user; raises `UnknownClaimError` or
                `NotAuthorizedError`.
        """
        self.deaths = DeathWatch(loop)
        self._roster = roster
        self._tenant_of = tenant_of
        self._looker = Looker(loop, self._seen)
        self._looker.start()

    def close(self) -> None:
        """Watch nobody any more."""
        self._looker.stop()
        self.deaths.close()

    def released(self, claim: Claim) -> None:
        """Take note that a claim is bound no more: nobody looks at its processes."""
        self._looker.note(claim, ())

    def decide(self, peer: peers.Peer, pidfd: int, secret: str, is_renewal: bool) -> Answer:
        """Return what a process that comes is given; see `attach.Decider`."""
        try:
            tenant = self._tenant_of(secret, peer.uid)
        except (UnknownClaimError, NotAuthorizedError) as error:
            os.close(pidfd)
            return Answer(pages.ATTACH_REFUSED, str(error))
        fds = (tenant.pages.control_fd, tenant.pages.usage_fd)
        known = tenant.processes.get(peer.pid)
        if is_renewal and known is not None and peers.is_alive(known.pidfd):
            # This agent was only slow. What the process holds stands in its slot.
            os.close(pidfd)
            return Answer(pages.ATTACH_OK, slot=known.slot, fds=fds)
        # The same process before exec: what it held went with its old image.
        self._detach(tenant, peer.pid)
        process = tenant.attach(peer.pid, pidfd, time.time(), is_renewal)
        if process is None:
            os.close(pidfd)
            return Answer(pages.ATTACH_FULL, f"this slice has {pages.max_slots()} processes, the most it may have")
        ended = partial(self._detach, tenant, peer.pid)
        self.deaths.watch(pidfd, ended)
        self._looker.note(tenant.claim, list(tenant.processes))
        moved = partial(tenant.moved, peer.pid) if tenant.is_moving(peer.pid) else None
        return Answer(pages.ATTACH_OK, slot=process.slot, fds=fds, undo=ended, moved=moved)

    def _detach(self, tenant: Tenant, pid: int) -> None:
        process = tenant.detach(pid)
        if process is None:
            return
        self.deaths.forget(process.pidfd)
        self._looker.note(tenant.claim, list(tenant.processes))
        if not tenant.processes:
            self._roster.emptied(tenant)

    def _seen(self, claim: Claim, pids: Sequence[int], enforcement: Enforcement, at: float) -> None:
        tenant = self._roster.bound.get(claim.claim_id)
        # What was seen of other processes than are attached now says nothing.
        if tenant is not None and set(pids) == set(tenant.processes):
            if tenant.verification is None or tenant.verification.enforcement != enforcement:
                log.info("claim %s of %s: %s", claim.claim_id, claim.tenant, enforcement.note)
            tenant.verification = Verification(enforcement, at)
