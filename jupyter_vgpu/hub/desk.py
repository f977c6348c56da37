"""Where servers get their claims and give them back: agent, ledger and hub kept in step.

Agent and ledger block, so both are asked from threads: the agent from any, the
ledger from one, which keeps its writes in order.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

from traitlets.config import LoggingConfigurable

from jupyter_vgpu.client import ClaimInfo, DeviceInfo, GrantedClaim, HubClient, Nodes, OneNode
from jupyter_vgpu.config import Isolated
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.holdings import asked_for, holding_of, wish_of
from jupyter_vgpu.hub.reconciliation import ServerKey, correction, tenant_name
from jupyter_vgpu.ledger import Entry, Ledger, LedgerError
from jupyter_vgpu.model import ClaimRequest, Profile
from jupyter_vgpu.quota import Holding, Quota, Quotas, Use, check, use_of

_Result = TypeVar("_Result")

_AGENT_THREADS = 32
_LEDGER_SECONDS = 20.0  # a database that hangs must not hang the hub


@dataclass(frozen=True)
class PlacementRules:
    """Where claims go, as far as the hub has a say: who is isolated, and whether slices are spread."""

    isolated: Isolated = field(default_factory=Isolated)
    is_spread: bool = False


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
        self._quotas = quotas or Quotas()
        self._rules = rules or PlacementRules()
        self._is_limited = self._quotas != Quotas()
        self._ledger_thread = ThreadPoolExecutor(1, "jupyter-vgpu-ledger")
        # Threads of our own: in the loop's few, starts would wait for one another while an agent hangs.
        self._agent_threads = ThreadPoolExecutor(_AGENT_THREADS, "jupyter-vgpu-agent")
        self.freed = asyncio.Event()  # something was given back; cleared by who waits for that
        self.ends: deque[float] = deque(maxlen=200)  # when claims were given back, Unix seconds
        self._being_taken: dict[ServerKey, asyncio.Task[GrantedClaim]] = {}
        self._being_released: Counter[str] = Counter()

    async def take(
        self,
        key: ServerKey,
        uid: int,
        profile: Profile,
        groups: Sequence[str] = (),
        over_quota: bool = False,
        devices: Sequence[DeviceInfo] | None = None,
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

        Raises:
            QuotaError: It is more than the user, or a group, may have.
            NoCapacityError: Nothing fits.
            AgentUnreachableError: No agent answered within the client's time limit.
            VGPUError: What else the agent or the ledger refused.
        """
        if devices is None:
            devices = await self.clear(key)
        work = self._ask_agent(self._take, key, uid, profile, groups, over_quota, devices)
        task = self._being_taken[key] = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._being_taken.pop(key, None)

    async def clear(self, key: ServerKey) -> list[DeviceInfo]:
        """Give back what a server still holds, before a new start, and return the node's devices.

        Raises:
            VGPUError: The agent or the ledger does not answer.
        """
        await self._wait_until_taken(key)
        held, is_unsure, devices = await self._ask_agent(self._look, key)
        for claim_id in held:
            await self.give_back(key, claim_id, "superseded by a new start")
        if is_unsure and not held:
            await self.give_back(key, "", "superseded by a new start")
        return await self.devices() if held else devices

    def _look(self, key: ServerKey) -> tuple[list[str], bool, list[DeviceInfo]]:
        """Return what a server holds, whether the ledger has an open entry, and the devices; runs in a thread.

        An entry without a claim is of a hub that ended before the agent had answered, so the agent is asked too.
        """
        entries = self._from_ledger(self._ledger.open_entries, *key)
        held = [entry.claim_id for entry in entries if entry.claim_id]
        if len(held) < len(entries):
            ours = (self._ledger.hub_name, tenant_name(*key))
            claims, _ = self._client.claims()
            held = sorted({*held, *(c["claim"] for c in claims if (c["hub"], c["tenant"]) == ours)})
        return held, bool(entries), self._client.devices()

    def _take(
        self,
        key: ServerKey,
        uid: int,
        profile: Profile,
        groups: Sequence[str],
        over_quota: bool,
        devices: Sequence[DeviceInfo],
    ) -> GrantedClaim:
        """Claim and write down; runs in a thread of the agent's from end to end, however busy the hub's own is."""
        tenant = tenant_name(*key)
        asked = asked_for(profile, devices) if self._is_limited else []
        # Checked and written down in one step of the ledger's thread, or two starts could share the last of a quota.
        entry_id = self._from_ledger(self._admit, key, profile, groups, asked, over_quota)
        request = ClaimRequest(
            tenant=tenant,
            hub=self._ledger.hub_name,
            uid=uid,
            profile=profile,
            isolation=self._rules.isolated.group_of(key[0], groups),
            is_spread=self._rules.is_spread,
        )
        try:
            granted = self._client.create_claim(request, devices)
        except VGPUError as error:
            # If the agent did grant it and only its answer was lost, reconciliation finds the claim.
            self._from_ledger(self._ledger.close_entry, entry_id, f"{error.reason}: {error}")
            raise
        claim = granted.claim
        try:
            how = claim["backend"], claim["devices"], granted.node or self._node
            self._from_ledger(self._ledger.bind, entry_id, claim["claim"], *how)
        except VGPUError:
            self._client.release_claim(claim["claim"])
            raise
        self.log.info("%s holds claim %s: %s by %s", tenant, claim["claim"], profile.name, claim["backend"])
        return granted

    def _admit(
        self,
        key: ServerKey,
        profile: Profile,
        groups: Sequence[str],
        asked: Sequence[Mapping[str, Any]],
        over_quota: bool,
    ) -> int:
        """Check quotas and open the ledger's entry; runs in the ledger's thread."""
        tenant = tenant_name(*key)
        if self._is_limited and not over_quota:
            now = time.time()
            wish = wish_of(asked, profile)
            for use, holdings in self._uses(key[0], groups, now):
                check(wish, use.whose, use.quota, holdings, now)
        return self._ledger.open_entry(*key, tenant, profile.name, self._node, groups, asked)

    def _uses(self, user: str, groups: Sequence[str], now: float) -> list[tuple[Use, list[Holding]]]:
        """Return the quotas that count for a user, each with what it is used up by; runs in the ledger's thread."""
        since = datetime.fromtimestamp(now - self._quotas.longest_window_seconds, timezone.utc)
        entries = self._ledger.held_since(since)
        mine = [holding_of(entry) for entry in entries if entry.user == user]
        found = [("your", self._quotas.of_user(user, groups), mine)]
        for group in groups:
            if group in self._quotas.groups:
                theirs = [holding_of(entry) for entry in entries if group in entry.groups]
                found.append((f"group {group}'s", self._quotas.groups[group], theirs))
        return [(use_of(whose, quota, holdings, now), holdings) for whose, quota, holdings in found]

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
        if not self._is_limited:
            return []
        found = await self._in_ledger(self._uses, user, groups, time.time())
        return [use for use, _ in found if use.quota != Quota()]

    async def check_quota(
        self, key: ServerKey, profile: Profile, groups: Sequence[str], devices: Sequence[DeviceInfo]
    ) -> None:
        """Return if a server could have a slice of `profile` as far as quotas go; nothing is claimed.

        Raises:
            QuotaError: It could not.
            LedgerError: The ledger does not answer.
        """
        if not self._is_limited:
            return
        wish, now = wish_of(asked_for(profile, devices), profile), time.time()
        for use, holdings in await self._in_ledger(self._uses, key[0], groups, now):
            check(wish, use.whose, use.quota, holdings, now)

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
            released = await self._ask_agent(self._client.release_claim, claim_id)
        except VGPUError as error:
            self.log.warning("claim %s of %s cannot be released now: %s", claim_id, tenant, error)
            for entry in ours:
                await self._note(entry, "release-failed", str(error))
            return
        self.freed.set()
        if released is not None:
            self.ends.append(time.time())
            self.log.info("%s gave back claim %s: %s", tenant, claim_id, because)
        for entry in ours:
            await self._close(entry, because)

    async def devices(self) -> list[DeviceInfo]:
        """Return the node's devices with what is free.

        Raises:
            VGPUError: The agent does not answer, or does not know this hub.
        """
        return await self._ask_agent(self._client.devices)

    async def reconcile(self, servers: Callable[[], Mapping[ServerKey, str | None]]) -> bool:
        """Release what no running server holds, correct the ledger, and return whether that could be done.

        Never raises a `VGPUError`.

        Args:
            servers: Says which servers there are now and what each is known to hold; called last, see
                `reconciliation.correction`.
        """
        try:
            entries = await self._in_ledger(self._ledger.open_entries)
            claims, silent = await self._ask_agent(self._client.claims)
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
            await self._close(entry, f"reconciled: {because}")
        return True

    async def _adopt(self, key: ServerKey, claim: ClaimInfo) -> None:
        self.log.info("claim %s of %s is written down again", claim["claim"], claim["tenant"])
        await self._in_ledger(
            self._ledger.adopt,
            *key,
            claim["tenant"],
            claim["profile"],
            claim.get("node", self._node),
            claim["claim"],
            claim["devices"],
        )

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

    async def _ask_agent(self, work: Callable[..., _Result], *args: Any) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._agent_threads, work, *args)

    async def remember(self, key: ServerKey, kind: str, detail: str, by: str = "", claim_id: str = "") -> None:
        """Keep an event for the audit; where that cannot be done, the log has it.

        Args:
            key: The server.
            kind: What happened, in a word.
            detail: The same for people.
            by: Who did it, if not the server's own user.
            claim_id: The claim that it happened to; empty = none.
        """
        try:
            if claim_id:
                await self._in_ledger(self._ledger.note_claim, claim_id, kind, detail, by)
            else:
                await self._in_ledger(self._ledger.audit.note, kind, *key, detail, by)
        except VGPUError as error:
            self.log.error("%s of %s is not written down (%s): %s", kind, tenant_name(*key), error, detail)

    async def in_ledger(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Return what a method of the ledger does, in the ledger's thread.

        Raises:
            LedgerError: The ledger does not answer.
        """
        return await self._in_ledger(work, *args)

    @property
    def ledger(self) -> Ledger:
        """The hub's memory, for `in_ledger`."""
        return self._ledger

    async def _in_ledger(self, work: Callable[..., _Result], *args: Any) -> _Result:
        done = asyncio.get_running_loop().run_in_executor(self._ledger_thread, work, *args)
        try:
            return await asyncio.wait_for(asyncio.shield(done), _LEDGER_SECONDS)
        except asyncio.TimeoutError:
            done.cancel()  # if it has not begun; what it writes late is reconciled
            raise _hanging() from None

    def _from_ledger(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Return what `in_ledger` does, in a thread that may wait."""
        done = self._ledger_thread.submit(work, *args)
        try:
            return done.result(_LEDGER_SECONDS)
        except FutureTimeoutError:
            done.cancel()
            raise _hanging() from None


def _hanging() -> LedgerError:
    return LedgerError(
        f"the ledger's database has not answered within {_LEDGER_SECONDS:.0f} s: see its log, or restart it"
    )
