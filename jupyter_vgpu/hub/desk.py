"""Where servers get their claims and give them back: agent, ledger and hub kept in step.

Agent and ledger block, so both are asked from threads: the agent from any, the
ledger from one, which keeps its writes in order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from traitlets.config import LoggingConfigurable

from jupyter_vgpu.client import ClaimInfo, DeviceInfo, GrantedClaim, HubClient
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.reconciliation import ServerKey, correction, tenant_name
from jupyter_vgpu.ledger import Entry, Ledger
from jupyter_vgpu.model import ClaimRequest, Profile

_Result = TypeVar("_Result")


class ClaimDesk(LoggingConfigurable):
    """One hub's claims at one agent."""

    def __init__(self, client: HubClient, ledger: Ledger, node: str, **kwargs: Any) -> None:
        """Take what it works with.

        Args:
            client: The agent.
            ledger: The hub's memory; also says how the hub is called.
            node: Host of the agent, for the ledger.
            **kwargs: As for every configurable: `parent`, `log`.
        """
        super().__init__(**kwargs)
        self._client = client
        self._ledger = ledger
        self._node = node
        self._ledger_thread = ThreadPoolExecutor(1, "jupyter-vgpu-ledger")
        self._being_taken: dict[ServerKey, asyncio.Task[GrantedClaim]] = {}
        self._being_released: Counter[str] = Counter()

    async def take(self, key: ServerKey, uid: int, profile: Profile) -> GrantedClaim:
        """Return a new claim for a server; what the server held before is given back first.

        A caller that is cancelled meanwhile leaves the claim to `give_back`, which waits for it.

        Raises:
            NoCapacityError: Nothing fits.
            AgentUnreachableError: No agent answered within the client's time limit.
            VGPUError: What else the agent or the ledger refused.
        """
        await self.give_back(key, "", "superseded by a new start")
        task = asyncio.ensure_future(self._take(key, uid, profile))
        self._being_taken[key] = task
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._being_taken.pop(key, None)

    async def _take(self, key: ServerKey, uid: int, profile: Profile) -> GrantedClaim:
        tenant = tenant_name(*key)
        entry_id = await self._in_ledger(self._ledger.open_entry, *key, tenant, profile.name, self._node)
        request = ClaimRequest(tenant=tenant, hub=self._ledger.hub_name, uid=uid, profile=profile)
        try:
            granted = await asyncio.to_thread(self._client.create_claim, request)
        except VGPUError as error:
            # If the agent did grant it and only its answer was lost, reconciliation finds the claim.
            await self._in_ledger(self._ledger.close_entry, entry_id, f"{error.reason}: {error}")
            raise
        claim = granted.claim
        try:
            await self._in_ledger(self._ledger.bind, entry_id, claim["claim"], claim["backend"], claim["devices"])
        except VGPUError:
            await asyncio.to_thread(self._client.release_claim, claim["claim"])
            raise
        self.log.info("%s holds claim %s: %s by %s", tenant, claim["claim"], profile.name, claim["backend"])
        return granted

    async def give_back(self, key: ServerKey, claim_id: str, because: str) -> None:
        """Release what a server holds; once or ten times, and also when the agent is down.

        What cannot be released now is logged, stays open in the ledger, and is reconciled later.

        Args:
            key: The server.
            claim_id: A claim that it is known to hold, besides those in the ledger; empty = none.
            because: Why, in words, for the ledger.
        """
        await self._wait_until_taken(key)
        try:
            entries = await self._in_ledger(self._ledger.open_entries, *key)
        except VGPUError as error:
            self.log.error("claims of %s cannot be looked up: %s", tenant_name(*key), error)
            entries = []
        claim_ids = {entry.claim_id for entry in entries if entry.claim_id}
        if claim_id:
            claim_ids.add(claim_id)
        for held in sorted(claim_ids):
            await self._release(tenant_name(*key), held, because, entries)
        for entry in entries:
            if not entry.claim_id:
                await self._close(entry, because)

    async def _wait_until_taken(self, key: ServerKey) -> None:
        """Wait for a claim that is being made, if any: at most as long as the agent may take to answer."""
        task = self._being_taken.pop(key, None)
        if task is not None:
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is not None:
                self.log.debug("claim of %s was not made: %s", tenant_name(*key), task.exception())

    async def _release(self, tenant: str, claim_id: str, because: str, entries: list[Entry]) -> None:
        self._being_released[claim_id] += 1
        try:
            await self._release_now(tenant, claim_id, because, entries)
        finally:
            self._being_released[claim_id] -= 1
            self._being_released += Counter()  # drops what is at zero

    async def _release_now(self, tenant: str, claim_id: str, because: str, entries: list[Entry]) -> None:
        ours = [entry for entry in entries if entry.claim_id == claim_id]
        try:
            released = await asyncio.to_thread(self._client.release_claim, claim_id)
        except VGPUError as error:
            self.log.warning("claim %s of %s cannot be released now: %s", claim_id, tenant, error)
            for entry in ours:
                await self._note(entry, "release-failed", str(error))
            return
        if released is not None:
            self.log.info("%s gave back claim %s: %s", tenant, claim_id, because)
        for entry in ours:
            await self._close(entry, because)

    async def devices(self) -> list[DeviceInfo]:
        """Return the node's devices with what is free.

        Raises:
            VGPUError: The agent does not answer, or does not know this hub.
        """
        return await asyncio.to_thread(self._client.devices)

    async def reconcile(self, servers: Callable[[], Mapping[ServerKey, str | None]]) -> bool:
        """Release what no running server holds, correct the ledger, and return whether that could be done.

        Never raises a `VGPUError`.

        Args:
            servers: Says which servers there are now and what each is known to hold; called last, see
                `reconciliation.correction`.
        """
        try:
            entries = await self._in_ledger(self._ledger.open_entries)
            claims = [c for c in await asyncio.to_thread(self._client.claims) if c["hub"] == self._ledger.hub_name]
            correct = correction(entries, claims, servers())
            for claim, because in correct.release:
                if claim["claim"] in self._being_released:
                    continue  # by who knows better why
                await self._release(claim["tenant"], claim["claim"], f"reconciled: {because}", entries)
            for key, claim in correct.adopt:
                await self._adopt(key, claim)
        except VGPUError as error:
            self.log.warning("claims cannot be reconciled now: %s", error)
            return False
        for entry, because in correct.close:
            if entry.claim_id in self._being_released:
                continue
            self.log.warning("claim %s of %s is closed: %s", entry.claim_id, entry.tenant, because)
            await self._close(entry, f"reconciled: {because}")
        return True

    async def _adopt(self, key: ServerKey, claim: ClaimInfo) -> None:
        self.log.info("claim %s of %s is written down again", claim["claim"], claim["tenant"])
        await self._in_ledger(self._ledger.adopt, *key, claim["tenant"], claim["profile"], self._node, claim["claim"])

    async def _close(self, entry: Entry, because: str) -> None:
        try:
            await self._in_ledger(self._ledger.close_entry, entry.entry_id, because)
        except VGPUError as error:
            self.log.error("the end of claim %s of %s is not written down: %s", entry.claim_id, entry.tenant, error)

    async def _note(self, entry: Entry, kind: str, detail: str) -> None:
        try:
            await self._in_ledger(self._ledger.note, entry.entry_id, kind, detail)
        except VGPUError as error:
            self.log.error("event %s of claim %s is not written down: %s", kind, entry.claim_id, error)

    async def _in_ledger(self, work: Callable[..., _Result], *args: Any) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._ledger_thread, work, *args)
