"""What the agent shows, in the shapes of docs/contracts.md."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_vgpu.agent.claims import ClaimBook
from jupyter_vgpu.agent.events import Event
from jupyter_vgpu.agent.figures import NS, Governed, Rates
from jupyter_vgpu.agent.peers import process_name
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.agent.subslices import merged
from jupyter_vgpu.agent.tenant import Process, Tenant
from jupyter_vgpu.backends import BACKENDS, Enforcement
from jupyter_vgpu.backends.intercept import InterceptBackend
from jupyter_vgpu.client import (
    ClaimInfo,
    DeviceInfo,
    EnforcedBy,
    EventInfo,
    GovernedInfo,
    GuaranteeInfo,
    OfGuarantee,
    PressureInfo,
    ProcessDeviceInfo,
    ProcessInfo,
    SliceInfo,
    UsageDeviceInfo,
    UsageInfo,
)
from jupyter_vgpu.model import Claim, Grant
from jupyter_vgpu.placement import Room
from jupyter_vgpu.units import PPM


def claim_view(claim: Claim, book: ClaimBook) -> ClaimInfo:
    """Return CLAIM: a claim without its secret."""
    return {
        "claim": claim.claim_id,
        "tenant": claim.tenant,
        "hub": claim.hub,
        "uid": claim.uid,
        "profile": claim.profile_name,
        "backend": claim.backend,
        "state": claim.state,
        "created_at": claim.created_at,
        "priority": claim.priority,
        "devices": [
            {
                "uuid": grant.uuid,
                "name": _device_name(grant.uuid, book),
                "memory_bytes": grant.memory_bytes,
                "share": grant.share_ppm / PPM,
                "ceiling": grant.ceiling_ppm / PPM,
                **_guarantee_view(grant),
            }
            for grant in claim.grants
        ],
    }


def _guarantee_view(grant: Grant) -> GuaranteeInfo:
    return {"guarantee": grant.guarantee_ppm / PPM} if grant.guarantee_ppm else {}


def device_views(book: ClaimBook, rooms: Sequence[Room]) -> list[DeviceInfo]:
    """Return DEVICE for each device: what it is and what no claim has been promised of it."""
    return [
        {
            "uuid": device.uuid,
            "name": device.name,
            "index": device.index,
            "total_bytes": device.total_bytes,
            "sm_count": device.sm_count,
            "driver_version": device.driver_version,
            "simulated": device.is_simulated,
            "free_bytes": max(0, room.free_bytes),
            "free_share": max(0, room.free_share_ppm) / PPM,
            "drained": not room.is_usable,
            "isolation": sorted(room.isolation),
            "claims": [
                claim.claim_id for claim in book.slices if any(grant.uuid == device.uuid for grant in claim.grants)
            ],
        }
        for device, room in zip(book.devices, rooms, strict=True)
    ]


def enforced_by_view(tenant: Tenant, agent: Agent) -> EnforcedBy:
    """Return how strongly a claim is enforced, as last seen by its backend and by the audit."""
    backend = BACKENDS[tenant.claim.backend]
    seen = tenant.verification if tenant.processes else None
    if seen is not None:
        enforcement = seen.enforcement
    elif tenant.processes:
        enforcement = Enforcement(backend.level, False, "a process has just attached and was not looked at yet")
    else:
        enforcement = backend.observe(tenant.claim, ())
    level, note = enforcement.level, enforcement.note
    if backend.name == InterceptBackend.name:
        if agent.is_audited(tenant):
            level = f"{level}, audited"
        elif agent.oversight is not None and agent.oversight.trouble:
            note = f"{note}; not audited: {agent.oversight.trouble}"
    is_isolated = agent.is_isolated_from(tenant.claim)
    if not is_isolated:
        note = f"demo, not isolated: tenants run as the agent's own user; {note}"
    return {
        "backend": tenant.claim.backend,
        "level": level,
        "verified": enforcement.is_verified,
        "verified_at": seen.at if seen and enforcement.is_verified else None,
        "isolated": is_isolated,
        "note": note,
    }


def slice_view(tenant: Tenant, agent: Agent) -> SliceInfo:
    """Return SLICE: what a tenant has."""
    claim, book = tenant.claim, agent.book
    devices = {device.uuid: device for device in book.devices}
    return {
        "claim": claim.claim_id,
        "tenant": claim.tenant,
        "profile": claim.profile_name,
        "state": claim.state,
        "backend": claim.backend,
        "enforced_by": enforced_by_view(tenant, agent),
        "devices": [
            {
                "uuid": grant.uuid,
                "name": _device_name(grant.uuid, book),
                "index": devices[grant.uuid].index if grant.uuid in devices else -1,
                "simulated": grant.uuid in devices and devices[grant.uuid].is_simulated,
                "memory_limit_bytes": grant.memory_bytes,
                "share": grant.share_ppm / PPM,
                "ceiling": grant.ceiling_ppm / PPM,
                **_guarantee_view(grant),
                "total_bytes": devices[grant.uuid].total_bytes if grant.uuid in devices else 0,
            }
            for grant in claim.grants
        ],
        "agent": agent.info,
    }


def usage_view(tenant: Tenant, agent: Agent, now: float) -> UsageInfo:
    """Return USAGE: what a tenant's processes use now (Unix seconds)."""
    return {
        "claim": tenant.claim.claim_id,
        "time": now,
        "devices": [_used_view(tenant, index, agent) for index in range(len(tenant.claim.grants))],
        "processes": [_process_view(process, tenant) for process in tenant.processes.values()],
        "enforced_by": enforced_by_view(tenant, agent),
    }


def usage_with_parts(tenant: Tenant, agent: Agent, now: float) -> UsageInfo:
    """Return USAGE of a slice, its parts included; see `subslices.merged`."""
    parts = [usage_view(part, agent, now) for part in agent.parts(tenant.claim.claim_id)]
    return merged(usage_view(tenant, agent, now), parts)


def _used_view(tenant: Tenant, index: int, agent: Agent) -> UsageDeviceInfo:
    grant, rates = tenant.claim.grants[index], tenant.rates(index)
    totals = tenant.totals(index) + tenant.of_ended_parts(index)[0]
    return {
        "uuid": grant.uuid,
        "name": _device_name(grant.uuid, agent.book),
        "memory_used_bytes": tenant.memory_bytes(index),
        "memory_limit_bytes": grant.memory_bytes,
        "memory_overhead_bytes": tenant.overhead_bytes(index),
        "memory_drift_bytes": agent.drift_bytes(tenant, index),
        "launches": totals.launches,
        "launches_per_second": rates.launches_per_second,
        "gpu_time_seconds": totals.busy_ns / NS,
        "gpu_time_fraction": rates.gpu_time_fraction,
        "waited_seconds": totals.waited_ns / NS,
        "waiting_fraction": rates.waiting_fraction,
        "sm_usage": rates.sm_usage,
        "throttled_launches": totals.throttled,
        "gated_seconds": totals.gated_ns / NS,
        "governed": _governed_view(tenant, index),
        **_guaranteed_view(tenant, index),
        "pressure": _pressure_view(tenant, grant.uuid, agent),
    }


def _governed_view(tenant: Tenant, index: int) -> GovernedInfo | None:
    steered = tenant.steered(index)
    if steered is None:
        return None
    governed = _governed_in_all(tenant, index)
    return {
        "entitled": steered.entitled,
        "windows": governed.windows,
        "overruns": governed.overruns,
        "violations": governed.violations,
        "closed_seconds": governed.closed_ns / NS,
    }


def _governed_in_all(tenant: Tenant, index: int) -> Governed:
    """Return what the governor counted of a slice, and of those of its parts that are no more."""
    return tenant.governed(index) + tenant.of_ended_parts(index)[1]


def _guaranteed_view(tenant: Tenant, index: int) -> OfGuarantee:
    kept = tenant.guaranteed(index)
    if kept is None:
        return {}
    return {
        "guaranteed": {
            "least": kept.least,
            "violations": _governed_in_all(tenant, index).missed,
            "in_a_row": kept.in_a_row,
            "raised": kept.is_raised,
        }
    }


def _pressure_view(tenant: Tenant, uuid: str, agent: Agent) -> PressureInfo:
    """Return what the other slices on a device do there; the parts of a slice are no neighbours of one another."""
    own = tenant.claim.part_of or tenant.claim.claim_id
    busy: dict[str, float] = {}
    for other in agent.tenants:
        whole = other.claim.part_of or other.claim.claim_id
        for index, grant in enumerate(other.claim.grants):
            rates = other.rates(index)
            if grant.uuid == uuid and whole != own and rates != Rates():
                busy[whole] = busy.get(whole, 0.0) + rates.gpu_time_fraction
    return {"neighbours": len(busy), "gpu_time_fraction": min(1.0, sum(busy.values()))}


def _process_view(process: Process, tenant: Tenant) -> ProcessInfo:
    return {
        "pid": process.pid,
        "name": process_name(process.pid),
        "attached_at": process.attached_at,
        "devices": [_process_device_view(process, tenant, index) for index in range(len(tenant.claim.grants))],
    }


def _process_device_view(process: Process, tenant: Tenant, index: int) -> ProcessDeviceInfo:
    reading = tenant.reading(process, index)
    return {
        "uuid": tenant.claim.grants[index].uuid,
        "memory_bytes": reading.granted_bytes,
        "memory_overhead_bytes": tenant.overhead_bytes(index, process.pid),
        "allocations": reading.allocations,
        "launches": reading.launches,
        "gpu_time_seconds": reading.busy_ns / NS,
        "charged_ahead_seconds": reading.ahead_ns / NS,
        "waited_seconds": reading.waited_ns / NS,
        "sm_seconds": reading.sm_ns / NS,
        "throttled_launches": reading.throttled,
        "gated_seconds": reading.gated_ns / NS,
    }


def event_views(events: Sequence[Event]) -> list[EventInfo]:
    """Return EVENT for each event, in the same order."""
    return [
        {"at": event.at, "kind": event.kind, "claim": event.claim_id, "pid": event.pid, "message": event.message}
        for event in events
    ]


def _device_name(uuid: str, book: ClaimBook) -> str:
    device = book.device(uuid)
    return device.name if device else "(gone)"
