"""Stop servers that have held their slice for as long as their profile allows; say so before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.settings import VGPUHub
from jupyter_vgpu.ledger import Entry

WARNED = "max-hours-warning"  # an event in the ledger

_WARN_SECONDS = 600.0


def due(
    entries: Iterable[Entry],
    max_hours: Callable[[Entry], float | None],
    now: float,
    warn_seconds: float = _WARN_SECONDS,
) -> tuple[list[Entry], list[Entry]]:
    """Return the claims that are over, and those that soon will be.

    Args:
        entries: Claims that are held.
        max_hours: Longest time of a claim in hours, `None` = not limited.
        now: The time, Unix seconds. A clock that was put back makes nothing due earlier.
        warn_seconds: How long before its end a claim is soon over.
    """
    over, soon = [], []
    for entry in entries:
        hours = max_hours(entry)
        if hours is None or entry.bound_at is None:
            continue
        left = entry.bound_at.timestamp() + hours * 3600 - now
        if left <= 0:
            over.append(entry)
        elif left <= warn_seconds:
            soon.append(entry)
    return over, soon


async def stop_overdue(app: Any, settings: VGPUHub) -> None:
    """Stop the servers of this hub whose time is over. Never raises a `VGPUError`.

    Args:
        app: The running hub.
        settings: Its settings.
    """
    desk, max_hours = settings.desk, settings.max_hours
    try:
        over, soon = due(await desk.in_ledger(desk.ledger.open_entries), max_hours, time.time())
        for entry in soon:
            if WARNED not in [kind for _, kind, _ in await desk.in_ledger(desk.ledger.events, entry.entry_id)]:
                settings.log.warning("%s must give back claim %s soon: max_hours", entry.tenant, entry.claim_id)
                await desk.in_ledger(desk.ledger.note, entry.entry_id, WARNED, f"of {max_hours(entry):.10g} hours")
    except VGPUError as error:
        settings.log.warning("servers whose time is over cannot be looked up now: %s", error)
        return
    for entry in over:
        await _stop(app, settings, entry, f"its {max_hours(entry):.10g} hours (max_hours) were over")


async def _stop(app: Any, settings: VGPUHub, entry: Entry, because: str) -> None:
    user = app.users.get(entry.user)
    spawner = user.spawners.get(entry.server) if user is not None else None
    if spawner is None or not spawner.ready or spawner.pending:
        return  # it is on its way already, or reconciliation finds the claim
    settings.log.info("the server of %s is stopped: %s", entry.tenant, because)
    spawner.vgpu_stopped_because = because
    try:
        await app.proxy.delete_user(user, entry.server)
        await user.stop(entry.server)
    except Exception:  # whatever a spawner raises; the next round tries again
        settings.log.exception("the server of %s cannot be stopped now", entry.tenant)
