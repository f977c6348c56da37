"""How a claim is made: written down, asked for at the agent, and written down again. All of it runs in threads.

Those who are served by one look go together where they can: they are written down by one commit, the agent is asked
for one after the other, and while it is asked for the next, the last is being written down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from jupyter_vgpu.client import GrantedClaim, Nodes, OneNode
from jupyter_vgpu.errors import AgentUnreachableError, VGPUError
from jupyter_vgpu.hub.admission import Admission, Admitted, Ask
from jupyter_vgpu.hub.errands import Errand, Errands
from jupyter_vgpu.hub.reconciliation import tenant_name
from jupyter_vgpu.hub.rules import PlacementRules
from jupyter_vgpu.ledger import Ledger
from jupyter_vgpu.model import ClaimRequest


class Claiming:
    """Makes one hub's claims."""

    def __init__(
        self,
        client: OneNode | Nodes,
        ledger: Ledger,
        admission: Admission,
        errands: Errands,
        rules: PlacementRules,
        node: str,
        log: Any,
    ) -> None:
        """Take what it works with; see `ClaimDesk`."""
        self._client = client
        self._ledger = ledger
        self._admission = admission
        self._errands = errands
        self._rules = rules
        self._node = node
        self._log = log

    def claim(self, ask: Ask) -> GrantedClaim:
        """Return a new claim, from one thread from end to end, however busy the hub's own is.

        Raises:
            VGPUError: As `ClaimDesk.take`.
        """
        admitted = self._errands.from_ledger(self._admission.let_in, ask)
        return self._write_down(ask, admitted, self._ask_agent(ask, admitted))

    def claim_all(self, asks: Sequence[Ask], errands: Sequence[Errand[GrantedClaim]]) -> None:
        """Make claims in their order; `errands`, one for each, get what comes of them. Blocking, raises nothing."""
        try:
            found = self._errands.from_ledger(self._admission.let_all_in, asks)
        except BaseException as error:  # who waits for an errand must hear of it, whatever it is
            for errand in errands:
                errand.fail(error)
            return
        left = deque(zip(asks, errands, found, strict=True))
        while left:
            ask, errand, admitted = left.popleft()
            if isinstance(admitted, VGPUError):
                errand.fail(admitted)
                continue
            try:
                granted = self._ask_agent(ask, admitted)
            except AgentUnreachableError as error:
                errand.fail(error)
                self._let_out([(errand, admitted) for _, errand, admitted in left], error)  # they would fare no better
                return
            except BaseException as error:
                errand.fail(error)
                continue
            self._errands.go_on(errand, self._write_down, ask, admitted, granted)

    def _let_out(
        self, left: Sequence[tuple[Errand[GrantedClaim], Admitted | VGPUError]], error: AgentUnreachableError
    ) -> None:
        """Ask for nothing for those who were let in; what cannot be written down now is reconciled."""

        def close() -> None:
            with self._ledger.together():
                for _, admitted in left:
                    if isinstance(admitted, Admitted):
                        self._ledger.close_entry(admitted.entry_id, f"not asked for: {error.reason}")

        try:
            self._errands.from_ledger(close)
        except VGPUError as trouble:
            self._log.error("that %d claims were not asked for is not written down: %s", len(left), trouble)
        finally:
            for errand, admitted in left:
                errand.fail(error if isinstance(admitted, Admitted) else admitted)

    def _ask_agent(self, ask: Ask, admitted: Admitted) -> GrantedClaim:
        request = ClaimRequest(
            tenant=tenant_name(*ask.key),
            hub=self._ledger.hub_name,
            uid=ask.uid,
            profile=admitted.profile,
            isolation=self._rules.isolated.group_of(ask.key[0], ask.groups),
            is_spread=self._rules.is_spread,
        )
        try:
            return self._client.create_claim(request, ask.devices)
        except VGPUError as error:
            # If the agent did grant it and only its answer was lost, reconciliation finds the claim.
            self._errands.from_ledger(self._ledger.close_entry, admitted.entry_id, f"{error.reason}: {error}")
            raise

    def _write_down(self, ask: Ask, admitted: Admitted, granted: GrantedClaim) -> GrantedClaim:
        claim = granted.claim
        place_id = None if ask.place is None else ask.place.place_id
        try:
            how = claim["backend"], claim["devices"], place_id, granted.node or self._node
            self._errands.from_ledger(self._ledger.bind, admitted.entry_id, claim["claim"], *how)
        except VGPUError:
            self._client.release_claim(claim["claim"])
            raise
        tenant = tenant_name(*ask.key)
        self._log.info("%s holds claim %s: %s by %s", tenant, claim["claim"], ask.profile.name, claim["backend"])
        return granted
