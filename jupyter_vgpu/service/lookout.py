"""Look at agent and ledger, at most once in a while however many ask; say what cannot be seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jupyter_vgpu.client import ClaimInfo, DeviceInfo, HubClient, Nodes, OneNode, UsageInfo
from jupyter_vgpu.errors import AgentUnreachableError, UnknownClaimError, VGPUError
from jupyter_vgpu.ledger import Entry, Ledger, Place
from jupyter_vgpu.service.holdings import Overview, held_claims

FRESH_SECONDS = 1.5

_AT_ONCE = 8

_Result = TypeVar("_Result")


class Lookout:
    """The one place of the service that asks agent and ledger."""

    def __init__(
        self, client: HubClient | OneNode | Nodes, open_ledger: Callable[[], Ledger], hub_name: str = ""
    ) -> None:
        """Take what to ask; nothing is opened yet.

        Args:
            client: The agent, or the agents.
            open_ledger: Opens the ledger; called again until it succeeds.
            hub_name: How the hub is called at the agent; empty = the ledger knows, and until it was opened once no
                claim is known to be this hub's.
        """
        self._hub_name = hub_name
        self.client = OneNode(client) if isinstance(client, HubClient) else client
        self.usages: dict[str, UsageInfo] = {}
        self._open_ledger = open_ledger
        self._ledger: Ledger | None = None
        self._opening = asyncio.Lock()
        self._looking = asyncio.Lock()
        self._seen = Overview(0.0, (), (), (), ())
        self._looked_at = float("-inf")

    async def ledger(self) -> Ledger:
        """Return the ledger, open.

        Raises:
            LedgerError: The database does not answer.
            BadValueError: It is no ledger for this version of the package.
        """
        async with self._opening:
            if self._ledger is None:
                self._ledger = await asyncio.to_thread(self._open_ledger)
            return self._ledger

    async def look(self, longest_ago_seconds: float = FRESH_SECONDS) -> Overview:
        """Return what there is.

        Args:
            longest_ago_seconds: How long ago it may have been looked; 0 = a look that begins now, which those share
                who ask for one meanwhile.
        """
        since = time.monotonic() - longest_ago_seconds
        async with self._looking:
            if self._looked_at < since:
                began_at = time.monotonic()
                self._seen = await self._look()
                self._looked_at = began_at
            return self._seen

    async def _look(self) -> Overview:
        troubles: list[str] = []
        devices: Sequence[DeviceInfo] = ()
        claims: Sequence[ClaimInfo] | None = None
        entries: Sequence[Entry] = ()
        waiting: Sequence[Place] = ()
        silent: dict[str, VGPUError] = {}
        try:
            ledger = await self.ledger()
            self._hub_name = ledger.hub_name
            entries = await asyncio.to_thread(ledger.open_entries)
            waiting = await asyncio.to_thread(ledger.places.all)
        except VGPUError as error:
            troubles.append(f"The ledger does not answer, so the list may lack groups and who waits: {error}")
        try:
            devices, silent = await asyncio.to_thread(self.client.all_devices)
            found, silent_since = await asyncio.to_thread(self.client.claims)
            silent.update(silent_since)
            self.usages = await self._usages([claim["claim"] for claim in found if claim["hub"] == self._hub_name])
            claims = found
        except VGPUError as error:
            claims, devices, self.usages = None, (), {}
            troubles.append(f"The node agent does not answer, so the list is the ledger's: {error}")
        for why in silent.values():
            troubles.append(f"A node does not answer, so its part of the list is the ledger's: {why}")
        held = held_claims(self._hub_name, claims, entries, devices, self.usages, self.client.names, silent)
        return Overview(time.time(), held, tuple(devices), tuple(waiting), tuple(troubles))

    async def _usages(self, claim_ids: Sequence[str]) -> dict[str, UsageInfo]:
        turn = asyncio.Semaphore(_AT_ONCE)

        async def usage(claim_id: str) -> UsageInfo | None:
            async with turn:
                try:
                    return await asyncio.to_thread(self.client.usage, claim_id)
                except UnknownClaimError:
                    return None  # released since
                except AgentUnreachableError:
                    if isinstance(self.client, OneNode):
                        raise
                    return None  # the others' are known

        found = await asyncio.gather(*(usage(claim_id) for claim_id in claim_ids))
        return {claim_id: one for claim_id, one in zip(claim_ids, found, strict=True) if one is not None}

    async def in_ledger(self, work: Callable[[Ledger], Callable[..., _Result]], *args: Any) -> _Result:
        """Return what a method of the ledger does, in a thread.

        Raises:
            VGPUError: The ledger does not answer.
        """
        ledger = await self.ledger()
        return await asyncio.to_thread(work(ledger), *args)

    def close(self) -> None:
        """Close what was opened."""
        if self._ledger is not None:
            self._ledger.close()
