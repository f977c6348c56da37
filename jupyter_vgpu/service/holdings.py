"""Who holds what on which device: agent and ledger put together, and the part of it that somebody may see. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_vgpu.client import ClaimInfo, DeviceInfo, GuaranteedInfo, UsageInfo
from jupyter_vgpu.ledger import Entry, Place
from jupyter_vgpu.service.rights import Viewer


@dataclass(frozen=True)
class HeldDevice:
    """One device's part of a claim; what is not known now is `None`.

    Attributes:
        index: As NVML counts; -1 = not known.
        memory_bytes: Promised, and the limit.
        share: Promised part of the time, 0..1.
        memory_used_bytes: In use now.
        gpu_time_fraction: Of the last second, 0..1.
        waiting_fraction: Part of the last second in which work waited for its turn, 0..1.
        guarantee: Least part of the time in each second in which that much is wanted, 0..1; 0 = none is given.
        guaranteed: How that was kept.
    """

    uuid: str
    name: str
    index: int
    memory_bytes: int
    share: float
    memory_used_bytes: int | None = None
    gpu_time_fraction: float | None = None
    waiting_fraction: float | None = None
    guarantee: float = 0.0
    guaranteed: GuaranteedInfo | None = None


@dataclass(frozen=True)
class Held:
    """One claim.

    Attributes:
        claim: The agent's id.
        entry_id: The ledger's; `None` = it does not know the claim.
        hub: Name of the hub that made it; empty = this one.
        user: Hub user; empty where another hub made it.
        since_at: When it was granted, Unix seconds.
        enforced_by: Backend and level, as verified; empty = not known now.
        revoked_by: Who is taking it away; empty = nobody.
        node: Where it is; empty where there is only one node, or it is not known.
    """

    claim: str
    entry_id: int | None
    hub: str
    user: str
    server: str
    groups: tuple[str, ...]
    profile: str
    since_at: float
    enforced_by: str
    revoked_by: str
    devices: tuple[HeldDevice, ...]
    node: str = ""


@dataclass(frozen=True)
class Overview:
    """What there is at one moment.

    Attributes:
        at: Unix seconds.
        held: Claims, oldest first.
        devices: The node's devices; empty for who may not see everything.
        waiting: Who waits for a slice, in order of arrival.
        troubles: What could not be read, in words.
    """

    at: float
    held: tuple[Held, ...]
    devices: tuple[DeviceInfo, ...]
    waiting: tuple[Place, ...]
    troubles: tuple[str, ...]

    def seen_by(self, viewer: Viewer) -> Overview:
        """Return the part that somebody may see; of other hubs' claims, what they take up and not whose they are."""
        held = tuple(
            one
            for one in self.held
            if (viewer.reads_all if one.hub else viewer.may_read(one.user, one.server, one.groups))
        )
        waiting = tuple(place for place in self.waiting if viewer.may_read(place.user, place.server, ()))
        return Overview(self.at, held, self.devices if viewer.reads_all else (), waiting, self.troubles)

    def find(self, claim: str) -> Held | None:
        """Return a claim by its id; `None` when there is none."""
        return next((one for one in self.held if one.claim == claim), None)


def held_claims(
    hub_name: str,
    claims: Sequence[ClaimInfo] | None,
    entries: Sequence[Entry],
    devices: Sequence[DeviceInfo],
    usages: Mapping[str, UsageInfo],
    nodes: Collection[str] = ("",),
    silent: Collection[str] = (),
) -> tuple[Held, ...]:
    """Return the claims that are held, oldest first.

    Args:
        hub_name: This hub's; other hubs' claims are shown without names.
        claims: What the agent says; `None` = it does not answer, and the ledger has to do.
        entries: Open entries of the ledger; empty when it does not answer.
        devices: The node's devices; empty when the agent does not answer.
        usages: What each claim uses now, where that is known.
        nodes: Names of the nodes; `""` = the only one.
        silent: Those that do not answer, for which the ledger has to do.
    """
    by_claim = {entry.claim_id: entry for entry in entries if entry.claim_id}
    indices = {device["uuid"]: device["index"] for device in devices}
    if claims is None:
        found = [_from_ledger(entry, nodes) for entry in by_claim.values()]
    else:
        found = [
            _from_agent(claim, hub_name, by_claim.get(claim["claim"]), indices, usages.get(claim["claim"]))
            for claim in claims
        ]
        known = {claim["claim"] for claim in claims}
        unseen = [entry for entry in by_claim.values() if entry.node in silent and entry.claim_id not in known]
        found += [_from_ledger(entry, nodes) for entry in unseen]
    return tuple(sorted(found, key=lambda one: (one.since_at, one.claim)))


def _from_agent(
    claim: ClaimInfo, hub_name: str, entry: Entry | None, indices: Mapping[str, int], usage: UsageInfo | None
) -> Held:
    is_ours = claim["hub"] == hub_name
    user, _, server = claim["tenant"].partition("/")
    used = {device["uuid"]: device for device in usage["devices"]} if usage else {}
    enforced = usage["enforced_by"] if usage else None
    return Held(
        claim=claim["claim"],
        entry_id=entry.entry_id if entry else None,
        hub="" if is_ours else claim["hub"],
        user=(entry.user if entry else user) if is_ours else "",
        server=(entry.server if entry else server) if is_ours else "",
        groups=entry.groups if entry else (),
        profile=claim["profile"] if is_ours else "",
        since_at=claim["created_at"],
        enforced_by=f"{enforced['backend']}, {enforced['level']}" if enforced else claim["backend"],
        revoked_by=entry.revoked_by if entry else "",
        devices=tuple(
            HeldDevice(
                uuid=device["uuid"],
                name=device["name"],
                index=indices.get(device["uuid"], -1),
                memory_bytes=device["memory_bytes"],
                share=device["share"],
                memory_used_bytes=used[device["uuid"]]["memory_used_bytes"] if device["uuid"] in used else None,
                gpu_time_fraction=used[device["uuid"]]["gpu_time_fraction"] if device["uuid"] in used else None,
                waiting_fraction=used[device["uuid"]]["waiting_fraction"] if device["uuid"] in used else None,
                guarantee=device.get("guarantee", 0.0),
                guaranteed=used[device["uuid"]].get("guaranteed") if device["uuid"] in used else None,
            )
            for device in claim["devices"]
        ),
        node=claim.get("node", ""),
    )


def _from_ledger(entry: Entry, nodes: Collection[str]) -> Held:
    return Held(
        claim=entry.claim_id or "",
        entry_id=entry.entry_id,
        hub="",
        user=entry.user,
        server=entry.server,
        groups=entry.groups,
        profile=entry.profile,
        since_at=(entry.bound_at or entry.requested_at).timestamp(),
        enforced_by="",
        revoked_by=entry.revoked_by,
        devices=tuple(
            HeldDevice(
                uuid=str(device.get("uuid", "")),
                name=str(device.get("name", "")),
                index=-1,
                memory_bytes=int(device.get("memory_bytes", 0)),
                share=float(device.get("share", 0.0)),
                guarantee=float(device.get("guarantee", 0.0)),
            )
            for device in entry.devices
        ),
        node=entry.node if entry.node in nodes else "",
    )


def held_to_wire(one: Held, viewer: Viewer) -> dict[str, Any]:
    """Return a claim as the service's API shows it; see docs/contracts.md."""
    return {
        "claim": one.claim,
        "hub": one.hub or None,
        "user": one.user or None,
        "server": one.server,
        "profile": one.profile,
        "since_at": one.since_at,
        "enforced_by": one.enforced_by,
        "node": one.node or None,
        "revoked_by": one.revoked_by or None,
        "may_revoke": may_revoke(one, viewer),
        "devices": [
            {
                "uuid": device.uuid,
                "name": device.name,
                "memory_limit_bytes": device.memory_bytes,
                "share": device.share,
                "memory_used_bytes": device.memory_used_bytes,
                "gpu_time_fraction": device.gpu_time_fraction,
                "waiting_fraction": device.waiting_fraction,
                **({"guarantee": device.guarantee} if device.guarantee else {}),
                **({} if device.guaranteed is None else {"guaranteed": device.guaranteed}),
            }
            for device in one.devices
        ],
    }


def may_revoke(one: Held, viewer: Viewer) -> bool:
    """Return whether somebody may take a claim away: another hub's is that hub's."""
    return not one.hub and viewer.may_revoke(one.user, one.server, one.groups)
