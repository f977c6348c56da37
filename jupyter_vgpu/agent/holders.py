"""Claims that live only as long as a process: who holds which, and what is done when it dies."""

from __future__ import annotations

import os
from collections.abc import Callable

from jupyter_vgpu.agent import peers, store
from jupyter_vgpu.agent.origin import Claimant
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.agent.watch import DeathWatch


class Holders:
    """The holders of a node's claims, by claim. A claim without one lives until it is released."""

    def __init__(self) -> None:
        """Know of none."""
        self._holders: dict[str, store.Holder] = {}

    def note(self, claim_id: str, pid: int | None) -> None:
        """Note that a claim lives with the process `pid`; `None`, or one that is gone: it has no holder."""
        if pid is not None and (ticks := peers.started_ticks(pid)) is not None:
            self._holders[claim_id] = store.Holder(pid, ticks)

    def restore(self, claim_id: str, holder: store.Holder | None) -> None:
        """Note a holder of an earlier agent's time."""
        if holder is not None:
            self._holders[claim_id] = holder

    def forget(self, claim_id: str) -> None:
        """Forget a claim; nothing when it has no holder."""
        self._holders.pop(claim_id, None)

    def of(self, claim_id: str) -> store.Holder | None:
        """Return a claim's holder, `None` when it has none."""
        return self._holders.get(claim_id)

    @property
    def claims(self) -> list[str]:
        """The claims that have one."""
        return list(self._holders)

    def watch(self, claim_id: str, deaths: DeathWatch, died: Callable[[], None]) -> None:
        """Have `died` called when the claim's holder dies; at once when it is dead, or was never noted."""
        holder = self._holders.get(claim_id)
        try:
            if holder is None:
                raise ProcessLookupError
            pidfd = os.pidfd_open(holder.pid)
        except OSError:
            died()
            return
        # Read after the pidfd is open: the id cannot have gone to another process in between.
        if peers.started_ticks(holder.pid) != holder.started_ticks:
            os.close(pidfd)
            died()
            return
        deaths.watch(pidfd, died)


def claimant_of(tenant: Tenant, holder: store.Holder | None) -> Claimant:
    """Return by what a tenant's processes are known."""
    claim = tenant.claim
    pids = frozenset(tenant.processes) | ({holder.pid} if holder else set())
    return Claimant(claim.claim_id, claim.uid, claim.secret_sha256, pids)
