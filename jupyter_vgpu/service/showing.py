"""How holdings read on the page: pretty units, UTC, words. Pure; the templates escape."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.ledger import Event
from jupyter_vgpu.service.holdings import Held, HeldDevice, Overview, may_revoke
from jupyter_vgpu.service.rights import Viewer
from jupyter_vgpu.units import format_bytes


def overview_values(overview: Overview, viewer: Viewer) -> dict[str, Any]:
    """Return what the template of the overview shows."""
    return {
        "rows": [row for one in overview.held for row in _rows(one, viewer)],
        "devices": [_device(device, viewer) for device in sorted(overview.devices, key=_place)],
        "waiting": [
            {"who": place.user, "server": place.server, "profile": place.profile, "since": moment(place.arrived_at)}
            for place in overview.waiting
        ],
        "has_guarantees": any(device.guarantee for one in overview.held for device in one.devices),
        "troubles": overview.troubles,
        "count": len(overview.held),
    }


def _rows(one: Held, viewer: Viewer) -> Iterator[dict[str, Any]]:
    """Give one row for each device of a claim; the first has what can be done about it."""
    for number, device in enumerate(one.devices):
        yield {
            "id": f"claim-{one.claim}-{number}",
            "claim": one.claim,
            "who": one.user or f"another hub ({one.hub})",
            "server": one.server,
            "profile": one.profile,
            "device": _named(one.node, device.index, device.name),
            "memory": _memory(device),
            "gpu_time": _percent(device.gpu_time_fraction),
            "waiting": _percent(device.waiting_fraction),
            "share": f"{device.share:.0%}",
            "guaranteed": _guaranteed(device),
            "enforced_by": one.enforced_by or "not known now",
            "since": moment(datetime.fromtimestamp(one.since_at, timezone.utc)),
            "may_revoke": number == 0 and may_revoke(one, viewer) and not one.revoked_by,
            "note": f"being revoked by {one.revoked_by}" if one.revoked_by else "",
        }


def _place(device: DeviceInfo) -> tuple[str, int]:
    return device.get("node", ""), device["index"]


def _named(node: str, index: int, name: str) -> str:
    """Return a device's name: with its node where there are several, with its number where that is known."""
    numbered = f"{index}: {name}" if index >= 0 else name
    return f"{node}, {numbered}" if node else numbered


def _memory(device: HeldDevice) -> str:
    limit = format_bytes(device.memory_bytes)
    return f"{format_bytes(device.memory_used_bytes)} of {limit}" if device.memory_used_bytes is not None else limit


def _guaranteed(device: HeldDevice) -> str:
    """Return what is guaranteed of a device's time, and in how many seconds it was missed where that is known."""
    if not device.guarantee:
        return "–"
    kept, least = device.guaranteed, f"{100 * device.guarantee:.3g}%"
    return f"{least}, missed in {kept['violations']} s" if kept is not None and kept["violations"] else least


def _device(device: DeviceInfo, viewer: Viewer) -> dict[str, Any]:
    return {
        "id": f"device-{device['uuid']}",
        "name": _named(device.get("node", ""), device["index"], device["name"]),
        "uuid": device["uuid"],
        "memory": f"{format_bytes(device['free_bytes'])} of {format_bytes(device['total_bytes'])}",
        "share": f"{device['free_share']:.0%}",
        "claims": str(len(device["claims"])),
        "index": device["index"],
        "state": "drained" if device["drained"] else "in use",
        "change": ("Put back…" if device["drained"] else "Drain…") if viewer.revokes_all else "",
    }


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{fraction:.0%}"


def shown_event(event: Event) -> dict[str, Any]:
    """Return an event as the page shows it."""
    return {
        "at": moment(event.at),
        "who": (event.user + (f"/{event.server}" if event.server else "")) or "–",
        "kind": event.kind,
        "profile": event.profile,
        "by": event.by,
        "detail": event.detail,
    }


def moment(at: datetime) -> dict[str, str]:
    """Return a moment for a `<time>`: for programs, and for people."""
    at = at.astimezone(timezone.utc)
    return {"iso": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "text": at.strftime("%Y-%m-%d %H:%M:%S UTC")}
