"""What a running server may ask the hub about its own end: `/hub/vgpu/session`, read with the server's API token."""

from __future__ import annotations

import json
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from tornado import web

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.settings import VGPUHub


class SessionPage(APIHandler):  # type: ignore[misc]  # jupyterhub is untyped
    """`/hub/vgpu/session?server=NAME`: until when the caller's own server may go on (docs/contracts.md)."""

    async def get(self) -> None:
        """Answer with what limits the server; what does not is left out."""
        user = self.current_user
        if user is None or not hasattr(user, "spawners"):
            raise web.HTTPError(403, "a server's own API token is asked for: JUPYTERHUB_API_TOKEN")
        try:
            session = await session_of(VGPUHub.instance(), user, self.get_argument("server", ""))
        except VGPUError as error:
            raise web.HTTPError(503, str(error)) from error
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(session))


async def session_of(settings: VGPUHub, user: Any, server: str) -> dict[str, float]:
    """Return what limits a server of `user`, in the form of the page.

    Raises:
        LedgerError: The ledger does not answer.
    """
    desk = settings.desk
    session: dict[str, float] = {}
    for entry in await desk.in_ledger(desk.ledger.open_entries, user.name, server):
        hours = settings.max_hours(entry)
        if hours is not None and entry.bound_at is not None:
            session["ends_at"] = entry.bound_at.timestamp() + hours * 3600
    uses = await desk.uses(user.name, [group.name for group in user.groups])
    left = [
        (use.quota.gpu_hours - use.gpu_hours, use.quota.gpu_hours) for use in uses if use.quota.gpu_hours is not None
    ]
    if left:
        hours_left, limit = min(left)
        session |= {"gpu_hours_left": max(0.0, hours_left), "gpu_hours_limit": limit}
    return session


HANDLERS: list[tuple[str, Any]] = [("/vgpu/session", SessionPage)]
