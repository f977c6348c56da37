"""Who may have how much: a hub's quotas, held against its ledger. All of it runs in the ledger's thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.holdings import asked_for, guaranteed, holding_of, wish_of
from jupyter_vgpu.hub.reconciliation import ServerKey, tenant_name
from jupyter_vgpu.ledger import Ledger, LedgerError, Place
from jupyter_vgpu.model import Profile
from jupyter_vgpu.quota import Holding, Quota, Use, check, use_of
from jupyter_vgpu.quotas import Quotas


@dataclass(frozen=True)
class Ask:
    """What a server asks for.

    Attributes:
        key: The server.
        uid: Host user of its processes.
        profile: What it is to get.
        groups: The user's groups.
        over_quota: Whether an administrator said that quotas do not count this time.
        devices: The node's devices, looked at when the server held nothing any more.
        place: Where the server waits; it leaves the queue as it gets the claim.
    """

    key: ServerKey
    uid: int
    profile: Profile
    groups: Sequence[str] = ()
    over_quota: bool = False
    devices: Sequence[DeviceInfo] = ()
    place: Place | None = None


@dataclass(frozen=True)
class Admitted:
    """Who was let in.

    Attributes:
        entry_id: The ledger's entry.
        profile: What was asked for, with what the user's quotas guarantee of it.
    """

    entry_id: int
    profile: Profile


class Admission:
    """Checks quotas and writes down who was let in, in one step, or two starts could share the last of a quota."""

    def __init__(self, ledger: Ledger, node: str, quotas: Quotas | None = None) -> None:
        """Take the ledger, the agent's host and what everybody may have; `None` = as much as there is."""
        self._ledger = ledger
        self._node = node
        self._quotas = quotas or Quotas()
        self.is_limited = self._quotas != Quotas()

    def let_in(self, ask: Ask) -> Admitted:
        """Open the ledger's entry for a claim that is about to be asked for.

        Raises:
            QuotaError: It is more than the user, or a group, may have.
            LedgerError: The ledger cannot be used.
        """
        profile = ask.profile
        with self._ledger.together():
            if not ask.over_quota:
                self.check(ask.key, profile, ask.groups, ask.devices)
            if self._quotas.guarantee_something:
                uses = [use for use, _ in self._uses(ask.key[0], ask.groups, time.time())]
                profile = guaranteed(profile, ask.devices, uses)
            asked = asked_for(profile, ask.devices) if self.is_limited else []
            tenant = tenant_name(*ask.key)
            entry_id = self._ledger.open_entry(*ask.key, tenant, profile.name, self._node, ask.groups, asked)
        return Admitted(entry_id, profile)

    def let_all_in(self, asks: Sequence[Ask]) -> list[Admitted | VGPUError]:
        """Do as `let_in` for each in their order, by one commit.

        Raises:
            LedgerError: The ledger cannot be used; nobody was let in.
        """
        found: list[Admitted | VGPUError] = []
        with self._ledger.together():
            for ask in asks:
                try:
                    found.append(self.let_in(ask))
                except LedgerError:
                    raise
                except VGPUError as error:
                    found.append(error)
        return found

    def queue_up(
        self, key: ServerKey, profile: Profile, groups: Sequence[str], devices: Sequence[DeviceInfo], over_quota: bool
    ) -> Place:
        """Return the server's place in the queue, if it could have a slice as far as quotas go.

        Raises:
            QuotaError: It could not.
            LedgerError: The ledger cannot be used.
        """
        with self._ledger.together():
            if not over_quota:
                self.check(key, profile, groups, devices)
            return self._ledger.places.take(*key, profile.name)

    def check(self, key: ServerKey, profile: Profile, groups: Sequence[str], devices: Sequence[DeviceInfo]) -> None:
        """Return if a server could have a slice of `profile` as far as quotas go; nothing is written.

        Raises:
            QuotaError: It could not.
            LedgerError: The ledger cannot be used.
        """
        if not self.is_limited:
            return
        now, wish = time.time(), wish_of(asked_for(profile, devices), profile)
        for use, holdings in self._uses(key[0], groups, now):
            check(wish, use.whose, use.quota, holdings, now)

    def uses(self, user: str, groups: Sequence[str]) -> list[Use]:
        """Return what a user's quotas are and how much of them is used; nothing where nothing is limited.

        Raises:
            LedgerError: The ledger cannot be used.
        """
        if not self.is_limited:
            return []
        return [use for use, _ in self._uses(user, groups, time.time()) if use.quota != Quota()]

    def _uses(self, user: str, groups: Sequence[str], now: float) -> list[tuple[Use, list[Holding]]]:
        """Return the quotas that count for a user, each with what it is used up by."""
        mine = self._quotas.of_user(user, groups)
        held = [("your", mine, [holding_of(entry) for entry in self._ledger.held_since(_since(mine, now), user)])]
        for group in groups:
            if group in self._quotas.groups:
                theirs = self._quotas.groups[group]
                entries = self._ledger.held_since(_since(theirs, now))
                held.append((f"group {group}'s", theirs, [holding_of(e) for e in entries if group in e.groups]))
        return [(use_of(whose, quota, holdings, now), holdings) for whose, quota, holdings in held]


def _since(quota: Quota, now: float) -> datetime:
    """Return from when on what has ended counts for a quota."""
    return datetime.fromtimestamp(now - (0 if quota.gpu_hours is None else quota.window_seconds), timezone.utc)
