"""Parts of a slice, each for one notebook: claims of their own, taken out of the slice they are part of.

While a part lasts, the slice's other processes have that much less; both together never have more than the slice.
A part is a claim whose `part_of` names the slice's. Hubs are not told of parts: they gave out the slice, whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from jupyter_vgpu.agent.figures import NS
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.client import GovernedInfo, GuaranteedInfo, SubsliceInfo, UsageInfo
from jupyter_vgpu.errors import BadValueError, NoCapacityError
from jupyter_vgpu.model import Claim, Grant
from jupyter_vgpu.units import PPM, format_bytes

if TYPE_CHECKING:
    from jupyter_vgpu.agent.bodies import SubsliceBody

_MIB = 1 << 20
MOST_PARTS = 64


def part_of(whole: Claim, body: SubsliceBody, taken: Sequence[Grant], used: Sequence[int]) -> tuple[Grant, ...]:
    """Return what a new part gets of each device of a slice.

    Args:
        whole: The slice.
        body: What is asked for, of each device.
        taken: What earlier parts have.
        used: Bytes that the slice's own processes use, per device; what they use now stays theirs.

    Returns:
        Grants, memory rounded down to 1 MiB. Without a wish, the share is the same part as the memory. Of what the
        slice is guaranteed, the part has as much as of its share.

    Raises:
        BadValueError: The slice is itself a part, or is not enforced by memory and share.
        NoCapacityError: The slice has not that much left; the message names the largest part that would fit.
    """
    if whole.part_of:
        raise BadValueError("slice", whole.claim_id, "only a whole slice can be divided, and this is a part of one")
    if whole.backend != "intercept":
        raise BadValueError("backend", whole.backend, "only slices that `intercept` enforces can be divided")
    grants = []
    memory = body.memory_bytes // _MIB * _MIB
    for grant, used_bytes in zip(whole.grants, used, strict=True):
        here = [part for part in taken if part.uuid == grant.uuid]
        free = grant.memory_bytes - sum(part.memory_bytes for part in here) - used_bytes
        if memory > free:
            raise NoCapacityError(
                f"memory_bytes: {format_bytes(memory)} does not fit into what is left of this slice; the largest part "
                f"that would fit now is {format_bytes(max(0, free) // _MIB * _MIB)}"
            )
        # One millionth stays for the rest of the slice: no share at all means something else.
        left_ppm = grant.share_ppm - sum(part.share_ppm for part in here) - 1
        wished = grant.share_ppm * memory // grant.memory_bytes if body.share is None else int(body.share * PPM)
        share_ppm = max(1, min(wished, left_ppm) if body.share is None else wished)
        if share_ppm > left_ppm:
            raise NoCapacityError(
                f"share: {share_ppm / PPM:.1%} does not fit into what is left of this slice: "
                f"{max(0, left_ppm) / PPM:.1%}"
            )
        guarantee_ppm = grant.guarantee_ppm * share_ppm // grant.share_ppm
        grants.append(Grant(grant.uuid, memory, share_ppm, grant.ceiling_ppm, guarantee_ppm=guarantee_ppm))
    return tuple(grants)


def part_claim(whole: Claim, name: str, grants: tuple[Grant, ...], claim_id: str, secret_sha256: str) -> Claim:
    """Return the claim of a new part of a slice."""
    return replace(
        whole,
        claim_id=claim_id,
        profile_name=name,
        grants=grants,
        created_at=time.time(),
        secret_sha256=secret_sha256,
        part_of=whole.claim_id,
    )


def leave_the_rest(tenant: Tenant, taken: Sequence[Grant]) -> None:
    """Give the processes of a slice what its parts, which have `taken`, leave."""
    for index, grant in enumerate(tenant.claim.grants):
        tenant.limit_to(index, remaining(grant, taken))


def remaining(grant: Grant, parts: Iterable[Grant]) -> Grant:
    """Return what is left of one device's part of a slice beside `parts` of any device."""
    here = [part for part in parts if part.uuid == grant.uuid]
    return replace(
        grant,
        memory_bytes=max(0, grant.memory_bytes - sum(part.memory_bytes for part in here)),
        share_ppm=max(1, grant.share_ppm - sum(part.share_ppm for part in here)),
        guarantee_ppm=max(0, grant.guarantee_ppm - sum(part.guarantee_ppm for part in here)),
    )


def subslice_view(claim: Claim) -> SubsliceInfo:
    """Return SUBSLICE: a part as its owner sees it."""
    return {
        "claim": claim.claim_id,
        "name": claim.profile_name,
        "created_at": claim.created_at,
        "devices": [
            {
                "uuid": grant.uuid,
                "memory_limit_bytes": grant.memory_bytes,
                "share": grant.share_ppm / PPM,
                "ceiling": grant.ceiling_ppm / PPM,
            }
            for grant in claim.grants
        ],
    }


def merged(whole: UsageInfo, parts: Sequence[UsageInfo]) -> UsageInfo:
    """Return the use of a slice together with that of its parts.

    Limits are the slice's; everything else is added up, fractions to 1 at most. Of guarantees the longest row of
    violations counts.
    """
    total: dict[str, Any] = {**whole, "processes": [*whole["processes"]]}
    total["devices"] = [dict(device) for device in whole["devices"]]
    for part in parts:
        total["processes"] += [{**process, "subslice": part["claim"]} for process in part["processes"]]
        by_uuid = {device["uuid"]: device for device in part["devices"]}
        for device in total["devices"]:
            other = cast("dict[str, Any]", by_uuid.get(device["uuid"], {}))
            for key, value in device.items():
                if isinstance(value, (int, float)) and key in other and key != "memory_limit_bytes":
                    device[key] = _added(key, value, other[key])
            device["governed"] = _governed_together(device["governed"], other.get("governed"))
            if "guaranteed" in device and "guaranteed" in other:
                device["guaranteed"] = _together(device["guaranteed"], other["guaranteed"])
    return cast(UsageInfo, total)


def _added(key: str, one: float, other: float) -> float:
    if key.endswith("_fraction") or key == "sm_usage":
        return min(1.0, one + other)
    return added_seconds(one, other) if key.endswith("_seconds") else one + other


def added_seconds(one: float, other: float) -> float:
    """Return the sum of two counters that are whole nanoseconds, as one counter of both would say it.

    Exact up to 2**51 nanoseconds, 26 days. Added as they are they may be a unit in the last place more, and would fall
    once the part is counted with the whole, which Prometheus takes for a restart.
    """
    return (round(one * NS) + round(other * NS)) / NS


def _governed_together(one: GovernedInfo | None, other: GovernedInfo | None) -> GovernedInfo | None:
    if one is None or other is None:
        return one or other
    return {
        "entitled": min(1.0, one["entitled"] + other["entitled"]),
        "windows": one["windows"] + other["windows"],
        "overruns": one["overruns"] + other["overruns"],
        "violations": one["violations"] + other["violations"],
        "closed_seconds": added_seconds(one["closed_seconds"], other["closed_seconds"]),
    }


def _together(one: GuaranteedInfo, other: GuaranteedInfo) -> GuaranteedInfo:
    return {
        "least": one["least"] + other["least"],
        "violations": one["violations"] + other["violations"],
        "in_a_row": max(one["in_a_row"], other["in_a_row"]),
        "raised": one["raised"] or other["raised"],
    }
