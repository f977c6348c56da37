"""Where servers get their claims and give them back: agent, ledger and hub kept in step."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from traitlets.config import LoggingConfigurable

from jupyter_vgpu.client import ClaimInfo, DeviceInfo, GrantedClaim, HubClient, Nodes, OneNode
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.admission import Admission, Ask
from jupyter_vgpu.hub.bell import Bell
from jupyter_vgpu.hub.bookkeeping import Bookkeeping
from jupyter_vgpu.hub.claiming import Claiming
from jupyter_vgpu.hub.errands import Errand, Errands
from jupyter_vgpu.hub.reconciliation import ServerKey, correction, tenant_name
from jupyter_vgpu.hub.rules import PlacementRules
from jupyter_vgpu.ledger import Entry, Ledger, Place
from jupyter_vgpu.model import Profile
from jupyter_vgpu.quota import Use
from jupyter_vgpu.quotas import Quotas

_Result = TypeVar("_Result")


class ClaimDesk(LoggingConfigurable):
    """One hub's claims, at one agent or at those of several nodes."""

    def __init__(
        self,
        client: HubClient | OneNode | Nodes,
        ledger: Ledger,
        node: str,
        quotas: Quotas | None = None,
        rules: PlacementRules | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what it works with.

        Args:
            client: The agent, or the agents.
            ledger: The hub's memory; also says how the hub is called.
            node: Host of the only agent, for the ledger.
            quotas: Who may claim how much; `None` = as much as there is.
            rules: Where claims go.
            **kwargs: As for every configurable: `parent`, `log`.
        """
        super().__init__(**kwargs)
        self._client = OneNode(client) if isinstance(client, HubClient) else client
        self.silence = self._client.silence  # which nodes do not answer, as the end of a sentence
        self._ledger = ledger
        self._node = node
        self._rules = rules or PlacementRules()
        self._admission = Admission(ledger, node, quotas)
        self._errands = Errands()
        self._claiming = Claiming(self._client, ledger, self._admission, self._errands, self._rules, node, self.log)
        self.book = Bookkeeping(self._errands, ledger, self.log)
        self.freed = Bell()  # something was given back
        self.ends: deque[float] = deque(maxlen=200)  # when claims were given back, Unix seconds
        self._being_taken: dict[ServerKey, asyncio.Future[GrantedClaim]] = {}
        self._being_released: Counter[str] = Counter()

    async def take(
        self,
        key: ServerKey,
        uid: int,
        profile: Profile,
        groups: Sequence[str] = (),
        over_quota: bool = False,
        devices: Sequence[DeviceInfo] | None = None,
        place: Place | None = None,
    ) -> GrantedClaim:
        """Return a new claim for a server; what the server held before is given back first.

        A caller that is cancelled meanwhile leaves the claim to `give_back`, which waits for it.

        Args:
            key: The server.
            uid: Host user of its processes.
            profile: What it gets.
            groups: The user's groups.
            over_quota: Whether an administrator said that quotas do not count this time.
            devices: The node's devices, from a caller who has given back what the server held before; `None` = that
                is not done yet.
            place: Where the server waits; it leaves the queue as it gets the claim.

        Raises:
            QuotaError: It is more than the user, or a group, may have.
            NoCapacityError: Nothing fits.
            AgentUnreachableError: No agent answered within the client's time limit.
            VGPUError: What else the agent or the ledger refused.
        """
        if devices is None:
            devices = await self.clear(key)
        ask = Ask(key, uid, profile, groups, over_quota, devices, place)
        (taken,) = self.take_in_turn([ask])
        return await taken

    def take_in_turn(self, asks: Sequence[Ask]) -> list[Awaitable[GrantedClaim]]:
        """Return what will be new claims, made in their order after those of the call before; each raises as `take`."""
        errands = self._claiming.ask_for(asks)
        for ask, errand in zip(asks, errands, strict=True):
            self._being_taken[ask.key] = errand.future
        return [self._taken(ask.key, errand) for ask, errand in zip(asks, errands, strict=True)]

    async def _taken(self, key: ServerKey, errand: Errand[GrantedClaim]) -> GrantedClaim:
        try:
            return await errand.result()
        finally:
            if errand.future.done() and self._being_taken.get(key) is errand.future:
                del self._being_taken[key]

    async def clear(self, key: ServerKey) -> list[DeviceInfo]:
        """Give back what a server still holds, before a new start, and return the node's devices.

        Raises:
            VGPUError: The agent or the ledger does not answer.
        """
        devices, _ = await self.clear_and(key, lambda devices: None)
        return devices

    async def clear_and(
        self, key: ServerKey, go_on: Callable[[list[DeviceInfo]], _Result]
    ) -> tuple[list[DeviceInfo], _Result]:
        """Give back what a server still holds, before a new start, and do what is next without a pause.

        Args:
            key: The server.
            go_on: What is next, given the node's devices; runs in a thread that may wait.

        Returns:
            The node's devices, and what came of what is next.

        Raises:
            VGPUError: The agent or the ledger does not answer, or what `go_on` raises.
        """
        await self._wait_until_taken(key)

        def look() -> tuple[list[str], tuple[list[DeviceInfo], _Result] | None]:
            held, is_clear, devices = self._look(key)
            return held, (devices, go_on(devices)) if is_clear else None

        held, found = await self._errands.ask_agent(look)
        if found is not None:
            return found
        for claim_id in held or [""]:
            await self.give_back(key, claim_id, "superseded by a new start")

        def look_again() -> tuple[list[DeviceInfo], _Result]:
            devices = self._client.devices()
            return devices, go_on(devices)

        return await self._errands.ask_agent(look_again)

    def _look(self, key: ServerKey) -> tuple[list[str], bool, list[DeviceInfo]]:
        """Return what a server holds, whether that is nothing for sure, and the devices; runs in a thread.

        An entry without a claim is of a hub that ended before the agent had answered, so the agent is asked too.
        """
        entries = self._errands.from_ledger(self._ledger.open_entries, *key)
        held = [entry.claim_id for entry in entries if entry.claim_id]
        if len(held) < len(entries):
            ours = (self._ledger.hub_name, tenant_name(*key))
            claims, _ = self._client.claims()
            held = sorted({*held, *(c["claim"] for c in claims if (c["hub"], c["tenant"]) == ours)})
        return held, not entries, [] if entries else self._client.devices()

    async def look(self) -> tuple[list[DeviceInfo], list[Entry]]:
        """Return the node's devices with what is free, and the claims that are held, both by one errand.

        Raises:
            VGPUError: The agent or the ledger does not answer.
        """
        return await self._errands.ask_agent(
            lambda: (self._client.devices(), self._errands.from_ledger(self._ledger.open_entries))
        )

    @property
    def is_spread(self) -> bool:
        """Whether the agent is asked to put slices on the emptiest devices."""
        return self._rules.is_spread

    def isolation(self, user: str, groups: Sequence[str]) -> str:
        """Return a user's isolation group, as the agent calls it on its devices; empty = none."""
        group = self._rules.isolated.group_of(user, groups)
        return f"{self._ledger.hub_name}: {group}" if group else ""

    async def uses(self, user: str, groups: Sequence[str]) -> list[Use]:
        """Return what a user's quotas are and how much of them is used; nothing where nothing is limited.

        Raises:
            LedgerError: The ledger does not answer.
        """
        return await self.in_ledger(self._admission.uses, user, groups) if self._admission.is_limited else []

    async def check_quota(
        self, key: ServerKey, profile: Profile, groups: Sequence[str], devices: Sequence[DeviceInfo]
    ) -> None:
        """Return if a server could have a slice of `profile` as far as quotas go; nothing is claimed.

        Raises:
            QuotaError: It could not.
            LedgerError: The ledger does not answer.
        """
        if self._admission.is_limited:
            await self.in_ledger(self._admission.check, key, profile, groups, devices)

    def queue_up(
        self, key: ServerKey, profile: Profile, groups: Sequence[str], devices: Sequence[DeviceInfo], over_quota: bool
    ) -> Place:
        """Return a server's place in the queue; blocking, for `clear_and` or `ask`.

        Raises:
            QuotaError: Quotas would not let it have a slice, and `over_quota` does not lift them.
            LedgerError: The ledger does not answer.
        """
        return self._errands.from_ledger(self._admission.queue_up, key, profile, groups, devices, over_quota)

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
            entries = await self._errands.in_ledger(self._ledger.open_entries, *key)
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
                await self.book.close(entry, because)

    async def give_back_unheard(self, keys: Collection[ServerKey]) -> None:
        """Release what the agent may have granted to servers that hold nothing: its answer did not come, or came late.

        Raises:
            VGPUError: The agent does not answer.
        """
        claims, _ = await self._errands.ask_agent(self._client.claims)
        ours = {(self._ledger.hub_name, tenant_name(*key)) for key in keys}
        for claim in claims:
            if (claim["hub"], claim["tenant"]) in ours:
                await self._release(claim["tenant"], claim["claim"], "that it was granted was not heard", [])

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
            released = await self._errands.ask_agent(self._client.release_claim, claim_id)
        except VGPUError as error:
            self.log.warning("claim %s of %s cannot be released now: %s", claim_id, tenant, error)
            for entry in ours:
                await self.book.note(entry, "release-failed", str(error))
            return
        self.freed.ring()
        if released is not None:
            self.ends.append(time.time())
            self.log.info("%s gave back claim %s: %s", tenant, claim_id, because)
        for entry in ours:
            await self.book.close(entry, because)

    async def claim_of(self, key: ServerKey) -> str:
        """Return the claim that a server holds as far as the ledger knows; empty = none, or it cannot be said."""
        try:
            entries = await self.in_ledger(self._ledger.open_entries, *key)
        except VGPUError as error:
            self.log.error("claims of %s cannot be looked up: %s", tenant_name(*key), error)
            return ""
        return next((entry.claim_id for entry in reversed(entries) if entry.claim_id), "")

    async def devices(self) -> list[DeviceInfo]:
        """Return the node's devices with what is free.

        Raises:
            VGPUError: The agent does not answer, or does not know this hub.
        """
        return await self._errands.ask_agent(self._client.devices)

    async def reconcile(self, servers: Callable[[], Mapping[ServerKey, str | None]]) -> bool:
        """Release what no running server holds, correct the ledger, and return whether that could be done.

        Never raises a `VGPUError`.

        Args:
            servers: Says which servers there are now and what each is known to hold; called last, see
                `reconciliation.correction`.
        """
        try:
            entries = await self._errands.in_ledger(self._ledger.open_entries)
            claims, silent = await self._errands.ask_agent(self._client.claims)
            # What a node that is silent holds stays in the ledger, until it answers again.
            answering = [name for name in self._client.names if name not in silent] if silent else None
            ours = [claim for claim in claims if claim["hub"] == self._ledger.hub_name]
            correct = correction(entries, ours, servers(), answering)
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
            await self.book.close(entry, f"reconciled: {because}")
        return True

    async def _adopt(self, key: ServerKey, claim: ClaimInfo) -> None:
        self.log.info("claim %s of %s is written down again", claim["claim"], claim["tenant"])
        await self._errands.in_ledger(
            self._ledger.adopt,
            *key,
            claim["tenant"],
            claim["profile"],
            claim.get("node", self._node),
            claim["claim"],
            claim["devices"],
        )

    async def in_ledger(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Return what a method of the ledger does, in the ledger's thread.

        Raises:
            LedgerError: The ledger does not answer.
        """
        return await self._errands.in_ledger(work, *args)

    async def ask(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Return what a blocking method of this desk does, in a thread."""
        return await self._errands.ask_agent(work, *args)

    @property
    def ledger(self) -> Ledger:
        """The hub's memory, for `in_ledger`."""
        return self._ledger
