"""The pages of `/services/vgpu/` and the API beside them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from jupyterhub.services.auth import HubOAuthCallbackHandler
from tornado import web

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.ledger import Event, Used
from jupyter_vgpu.service.devices import UUID, DeviceApi, DevicePage
from jupyter_vgpu.service.holdings import Held, held_to_wire, may_revoke
from jupyter_vgpu.service.live import Live
from jupyter_vgpu.service.pages import Api, KnownHandler, Page
from jupyter_vgpu.service.revocation import LONGEST_REASON, checked_reason
from jupyter_vgpu.service.showing import overview_values, shown_event

STATIC = Path(__file__).with_name("static")
_STATIC_TYPES = {".js": "text/javascript", ".css": "text/css"}

_EVENTS_SHOWN = 20
_MOST_EVENTS = 1000
_MOST_DAYS = 800

_DEVICE_KEYS = ("uuid", "name", "index", "total_bytes", "free_bytes", "free_share", "drained", "node")

CLAIM_ID = r"([0-9A-Za-z-]{1,64})"


class OverviewPage(Page):
    """`/`: who holds what, of what one may see."""

    async def get(self) -> None:
        """Show it."""
        overview = (await self.lookout.look(0)).seen_by(self.viewer)
        events = [] if overview.troubles else await events_for(self, _EVENTS_SHOWN)
        xsrf = self.xsrf_token
        self.show(
            "overview.html",
            xsrf=xsrf.decode() if isinstance(xsrf, bytes) else xsrf,
            events=[shown_event(event) for event in events],
            **overview_values(overview, self.viewer),
        )


class RevokePage(Page):
    """`/claims/ID/revoke`: says what it will do; POST does it."""

    async def get(self, claim_id: str) -> None:
        """Ask whether that is meant."""
        one = await self._claim(claim_id)
        self.show("revoke.html", one=one, longest=LONGEST_REASON, xsrf=self.xsrf_form_html())

    async def post(self, claim_id: str) -> None:
        """Revoke the claim, and say what became of it."""
        one = await self._claim(claim_id)
        why = checked_reason(self.form("because").get("because"))
        outcome = await self.revoker.revoke(one, self.viewer.name, why)
        self.show("revoked.html", one=one, outcome=outcome)

    async def _claim(self, claim_id: str) -> Held:
        return await revocable(self, claim_id)


class ClaimsApi(Api):
    """`GET /api/claims`."""

    async def get(self) -> None:
        """Answer with who holds what, of what one may see."""
        overview = (await self.lookout.look(0)).seen_by(self.viewer)
        self.send(
            {
                "at": overview.at,
                "claims": [held_to_wire(one, self.viewer) for one in overview.held],
                "devices": [
                    {key: value for key, value in device.items() if key in _DEVICE_KEYS} for device in overview.devices
                ],
                "waiting": [
                    {
                        "user": place.user,
                        "server": place.server,
                        "profile": place.profile,
                        "arrived_at": place.arrived_at.timestamp(),
                    }
                    for place in overview.waiting
                ],
                "troubles": overview.troubles,
            }
        )


class ClaimApi(Api):
    """`GET` and `DELETE /api/claims/ID`."""

    async def get(self, claim_id: str) -> None:
        """Answer with one claim."""
        self.send({"claim": held_to_wire(await visible(self, claim_id), self.viewer)})

    async def delete(self, claim_id: str) -> None:
        """Revoke it."""
        because = checked_reason(self.body(("because",)).get("because"))
        one = await revocable(self, claim_id)
        outcome = await self.revoker.revoke(one, self.viewer.name, because)
        self.send(
            {
                "claim": claim_id,
                "is_released": outcome.is_released,
                "server": outcome.server,
                "message": " ".join(outcome.messages),
            }
        )


class EventsApi(Api):
    """`GET /api/events?limit=N&before=ID`: newest first."""

    async def get(self) -> None:
        """Answer with what happened, of what one may see."""
        limit = number(self, "limit", 100, 1, _MOST_EVENTS)
        before = number(self, "before", 0, 0, 1 << 62)
        self.send({"events": [event_to_wire(event) for event in await events_for(self, limit, before or None)]})


class UsageApi(Api):
    """`GET /api/usage?days=N`: by claim and hour; by day where that is more than a month ago."""

    async def get(self) -> None:
        """Answer with what was used, of what one may see."""
        days = number(self, "days", 7, 1, _MOST_DAYS)
        now = datetime.now(timezone.utc)
        viewer = self.viewer
        own = viewer.name if viewer.reads_only_own else None
        used = await self.lookout.in_ledger(lambda ledger: ledger.usage.used, now - timedelta(days=days), now, own)
        self.send({"usage": [used_to_wire(one) for one in used if viewer.may_read(one.user, one.server, one.groups)]})


class StaticFile(KnownHandler):
    """`/static/…`: script and style of the page."""

    sends_to_log_in = False

    def get(self, name: str) -> None:
        """Answer with the file."""
        path = STATIC / name
        self.set_header("Content-Type", f"{_STATIC_TYPES[path.suffix]}; charset=utf-8")
        self.set_header("Cache-Control", "private, max-age=300")
        self.finish(path.read_bytes())


class Unknown(Page):
    """Answers for all other paths."""

    sends_to_log_in = False

    async def prepare(self) -> None:
        """Refuse.

        Raises:
            web.HTTPError: 404, or 403 for whom the hub does not know.
        """
        await super().prepare()
        raise web.HTTPError(404, "there is no such page")


async def visible(handler: KnownHandler, claim_id: str) -> Held:
    """Return a claim that one may see.

    Raises:
        web.HTTPError: 404: there is none, or it is not for the one who asks; which of the two is not told.
    """
    one = (await handler.lookout.look(0)).seen_by(handler.viewer).find(claim_id)
    if one is None:
        raise web.HTTPError(404, "there is no such claim, or you may not see it")
    return one


async def revocable(handler: KnownHandler, claim_id: str) -> Held:
    """Return a claim that one may revoke.

    Raises:
        web.HTTPError: 404 as for `visible`; 403 when one may see it and no more.
    """
    one = await visible(handler, claim_id)
    if one.hub:
        raise web.HTTPError(403, f"the claim is another hub's ({one.hub}): only that hub may release it")
    if not may_revoke(one, handler.viewer):
        raise web.HTTPError(403, "you may see this claim and not revoke it: that takes custom:jupyter-vgpu:admin")
    return one


async def events_for(handler: KnownHandler, limit: int, before: int | None = None) -> list[Event]:
    """Return the newest events that one may see; see `AuditBook.recent`."""
    viewer = handler.viewer
    own = viewer.name if viewer.reads_only_own else None
    return await handler.lookout.in_ledger(
        lambda ledger: ledger.audit.recent,
        limit,
        own,
        lambda event: viewer.may_read(event.user, event.server, event.groups),
        before,
    )


def number(handler: KnownHandler, key: str, default: int, least: int, most: int) -> int:
    """Return a whole number of the query.

    Raises:
        BadValueError: It is none, or out of range.
    """
    given = handler.get_query_argument(key, str(default))
    if not (given.isascii() and given.isdigit() and len(given) < 20 and least <= int(given) <= most):
        raise BadValueError(key, given, f"a whole number from {least} to {most} is")
    return int(given)


def event_to_wire(event: Event) -> dict[str, Any]:
    """Return an event as the API shows it; see docs/contracts.md."""
    return {
        "event": event.event_id,
        "at": event.at.timestamp(),
        "kind": event.kind,
        "user": event.user,
        "server": event.server,
        "by": event.by or None,
        "detail": event.detail,
        "claim": event.claim_id or None,
        "profile": event.profile or None,
    }


def used_to_wire(used: Used) -> dict[str, Any]:
    """Return what was used in one hour or day as the API shows it; see docs/contracts.md."""
    return {
        "claim": used.claim_id,
        "user": used.user,
        "server": used.server,
        "profile": used.profile,
        "starts_at": used.starts_at.timestamp(),
        "span_seconds": used.span_seconds,
        "gpu_seconds": used.gpu_seconds,
        "memory_byte_seconds": used.memory_byte_seconds,
        "waited_seconds": used.waited_seconds,
    }


# Path below the service's prefix, handler. All but the first refuse whom the hub does not know.
HANDLERS: list[tuple[str, Any]] = [
    (r"oauth_callback", HubOAuthCallbackHandler),
    (r"", OverviewPage),
    (r"live", Live),
    (rf"claims/{CLAIM_ID}/revoke", RevokePage),
    (r"api/claims", ClaimsApi),
    (rf"api/claims/{CLAIM_ID}", ClaimApi),
    (rf"devices/{UUID}", DevicePage),
    (rf"api/devices/{UUID}", DeviceApi),
    (r"api/events", EventsApi),
    (r"api/usage", UsageApi),
    (r"static/(page\.js|page\.css)", StaticFile),
]
