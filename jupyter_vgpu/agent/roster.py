"""The tenants of one node: those of bound claims, and those of released ones whose processes live on.

Belongs to the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jupyter_vgpu.agent.contenders import Contenders, Place
from jupyter_vgpu.agent.subslices import leave_the_rest
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.model import Claim, Device, Grant
from jupyter_vgpu.pages import Pulse
from jupyter_vgpu.steering import Steering


class Roster:
    """Who is a tenant of this node."""

    def __init__(self, devices: Mapping[str, Device], steering: Steering | None, gone: Callable[[str], None]) -> None:
        """Start with nobody.

        Args:
            devices: The node's devices by UUID.
            steering: Who governs the tenants' GPU time; `None` = nobody does.
            gone: Called with the claim of each tenant that is neither bound nor has processes any more.
        """
        self._devices = devices
        self._steering = steering
        self._gone = gone
        self.bound: dict[str, Tenant] = {}  # the bound claims' tenants by claim, oldest first
        self._lingering: dict[str, Tenant] = {}
        self._contenders = Contenders()
        self._pulse = Pulse()
        self._followed_at = 0.0
        self._is_awake = True

    @property
    def all(self) -> list[Tenant]:
        """The bound claims' tenants, and then those of released ones whose processes live on."""
        return [*self.bound.values(), *self._lingering.values()]

    def lingering_grants(self) -> list[Grant]:
        """Return what processes of released claims still hold."""
        return [grant for tenant in self._lingering.values() for grant in tenant.held()]

    # Coming and going

    def add(self, claim: Claim) -> None:
        """Make the pages of a bound claim.

        Raises:
            NativeLibraryError: No pages can be made.
        """
        self.bound[claim.claim_id] = Tenant(claim, self._devices, self._steering)
        self._take_pulse()

    def _take_pulse(self) -> None:
        self._pulse.keep([tenant.pages for tenant in self.bound.values()])
        self._is_awake = True

    def release(self, claim_id: str) -> None:
        """Let a claim's processes have no more memory; nothing when it is not bound.

        They keep what they hold until they end; until then nobody else is promised it.
        """
        tenant = self.bound.pop(claim_id, None)
        if tenant is None:
            return
        self._take_pulse()
        tenant.pages.release()
        if tenant.processes:
            self._lingering[claim_id] = tenant
        else:
            self._close(tenant)
        self.share_out(tenant.claim.part_of)

    def emptied(self, tenant: Tenant) -> None:
        """Take note that a tenant's last process has ended; where its claim is released, that was all of it."""
        if self._lingering.pop(tenant.claim.claim_id, None) is not None:
            self._close(tenant)
            self.share_out(tenant.claim.part_of)

    def _close(self, tenant: Tenant) -> None:
        whole = self.bound.get(tenant.claim.part_of)
        if whole is not None:
            whole.take_over(tenant)
        tenant.close()
        self._gone(tenant.claim.claim_id)

    def close(self, is_for_good: bool) -> None:
        """Close all pages; `is_for_good` = nobody takes the claims up again, and their processes get no more memory."""
        everybody = self.all
        self.bound.clear()
        self._lingering.clear()
        self._take_pulse()
        for tenant in everybody:
            if is_for_good:
                tenant.pages.release()
            tenant.close()

    # Parts of slices

    def parts(self, claim_id: str) -> list[Tenant]:
        """Return the tenants that have a part of a claim's slice, also released ones whose processes live on."""
        return [tenant for tenant in self.all if tenant.claim.part_of == claim_id]

    def taken(self, claim_id: str) -> list[Grant]:
        """Return what those have of the slice."""
        return [grant for tenant in self.parts(claim_id) for grant in tenant.claim.grants]

    def share_out(self, claim_id: str) -> None:
        """Give the processes of a slice what its parts leave; nothing when it is not bound."""
        tenant = self.bound.get(claim_id)
        if tenant is not None:
            leave_the_rest(tenant, self.taken(claim_id))

    # What they do

    def heartbeat(self) -> None:
        """Say to every bound claim's processes that the agent lives, and note whether any said something new."""
        if self._pulse.beat():
            self._is_awake = True

    def follow(self, now: float) -> bool:
        """Take in what all processes did up to the last `heartbeat`, and tell every tenant how many it shares with.

        Args:
            now: Monotonic seconds.

        Returns:
            Whether anybody did anything lately, came or went; where not, all is as it was.
        """
        before, self._followed_at = self._followed_at, now
        if not self._is_awake and not self._lingering:
            return False
        everybody = self.all
        self._is_awake = sum(tenant.sample(now, before) for tenant in everybody) > 0
        if not self._is_awake:
            return False
        launches: dict[Place, int] = {}
        for tenant in everybody:
            launches.update(tenant.launches_of_processes())
        counts = self._contenders.count(launches, now)
        for tenant in self.bound.values():
            tenant.set_contenders(counts)
        return True
