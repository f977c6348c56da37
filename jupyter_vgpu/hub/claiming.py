"""How a claim is made: written down, asked for at the agent, and written down again. All of it runs in threads.

Those who are served by one look go together, and so do all who come while others' claims are being made: they are
written down by one commit, the agent is asked for all of them by one question, and what it has said is written down by
one commit more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from jupyter_vgpu.client import GrantedClaim, Nodes, OneNode
from jupyter_vgpu.errors import VGPUError
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
        self._asked: deque[tuple[Ask, Errand[GrantedClaim]]] = deque()

    def ask_for(self, asks: Sequence[Ask]) -> list[Errand[GrantedClaim]]:
        """Return what gets new claims, in the order of `asks` and after those that were asked for before.

        For the event loop. What comes of each is a `VGPUError` as of `ClaimDesk.take`, or its claim.
        """
        asked = [(ask, Errand[GrantedClaim]()) for ask in asks]
        self._asked.extend(asked)
        self._errands.in_turn(self._claim_asked)
        return [errand for _, errand in asked]

    def _claim_asked(self) -> None:
        """Make the claims that are asked for by now. Blocking, raises nothing."""
        asked = [self._asked.popleft() for _ in range(len(self._asked))]
        if not asked:
            return  # they went with those before
        asks = [ask for ask, _ in asked]
        try:
            ended = self._claim_all(asks)
        except BaseException as error:  # who waits for an errand must hear of it, whatever it is
            ended = [error] * len(asks)
        for (ask, errand), end in zip(asked, ended, strict=True):
            if isinstance(end, BaseException):
                errand.fail(end)
            else:
                errand.end(self._told(ask, end))

    def _claim_all(self, asks: Sequence[Ask]) -> list[GrantedClaim | BaseException]:
        found = self._errands.from_ledger(self._admission.let_all_in, asks)
        let_in = [(ask, one) for ask, one in zip(asks, found, strict=True) if isinstance(one, Admitted)]
        answers = self._client.create_claims([(self._request(ask, one), ask.devices) for ask, one in let_in])
        ended: Sequence[GrantedClaim | VGPUError] = answers
        try:
            self._errands.from_ledger(self._write_all_down, let_in, answers)
        except VGPUError as trouble:
            ended = [trouble] * len(answers)
            self._give_all_back([one.claim["claim"] for one in answers if isinstance(one, GrantedClaim)])
        left = iter(ended)
        return [next(left) if isinstance(one, Admitted) else one for one in found]

    def _write_all_down(
        self, let_in: Sequence[tuple[Ask, Admitted]], answers: Sequence[GrantedClaim | VGPUError]
    ) -> None:
        with self._ledger.together():
            for (ask, admitted), answer in zip(let_in, answers, strict=True):
                if isinstance(answer, GrantedClaim):
                    self._bind(ask, admitted, answer)
                else:
                    # If the agent did grant it and only its answer was lost, reconciliation finds the claim.
                    self._close(admitted, answer)

    def _give_all_back(self, claim_ids: Sequence[str]) -> None:
        """Release what could not be written down; what cannot be released now is reconciled."""
        for claim_id in claim_ids:
            try:
                self._client.release_claim(claim_id)
            except VGPUError as error:
                self._log.warning("claim %s is not written down and cannot be released now: %s", claim_id, error)

    def _request(self, ask: Ask, admitted: Admitted) -> ClaimRequest:
        return ClaimRequest(
            tenant=tenant_name(*ask.key),
            hub=self._ledger.hub_name,
            uid=ask.uid,
            profile=admitted.profile,
            isolation=self._rules.isolated.group_of(ask.key[0], ask.groups),
            is_spread=self._rules.is_spread,
        )

    def _close(self, admitted: Admitted, error: VGPUError) -> None:
        self._ledger.close_entry(admitted.entry_id, f"{error.reason}: {error}")

    def _bind(self, ask: Ask, admitted: Admitted, granted: GrantedClaim) -> None:
        claim = granted.claim
        place_id = None if ask.place is None else ask.place.place_id
        how = claim["backend"], claim["devices"], place_id, granted.node or self._node
        self._ledger.bind(admitted.entry_id, claim["claim"], *how)

    def _told(self, ask: Ask, granted: GrantedClaim) -> GrantedClaim:
        claim, tenant = granted.claim, tenant_name(*ask.key)
        self._log.info("%s holds claim %s: %s by %s", tenant, claim["claim"], ask.profile.name, claim["backend"])
        return granted
