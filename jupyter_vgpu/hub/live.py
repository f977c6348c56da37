"""Newer figures for open spawn pages, and the links that lead to one with a profile chosen."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import quote, urlencode

from jupyterhub.handlers import BaseHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.user import User
from jupyterhub.utils import url_path_join
from tornado import web
from tornado.iostream import StreamClosedError

from jupyter_vgpu.hub.choices import KEY
from jupyter_vgpu.hub.form import SCRIPT, how_many, state
from jupyter_vgpu.hub.settings import VGPUHub
from jupyter_vgpu.hub.spawn_page import offers_of
from jupyter_vgpu.hub.watch import Sight

_KEEPALIVE_LOOKS = 8


class LivePage(BaseHandler):  # type: ignore[misc]  # jupyterhub is untyped
    """`/hub/vgpu/live?user=NAME`: what is free for a user, as server-sent events, whenever it changes.

    For who may start that user's servers; without a name for oneself.

    One event is `{"state", "is_known", "offers": [{"name", "note", "can_be_chosen"}, …]}`: texts, whether the agent
    answers, and one offer for each profile.
    """

    @web.authenticated
    async def get(self) -> None:
        """Send events until the reader is gone."""
        await self._get(user_name=self.get_argument("user", "") or self.current_user.name)

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _get(self, user_name: str) -> None:
        user = self.find_user(user_name)
        if user is None:
            raise web.HTTPError(404, f"no user {user_name!r}")
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache")
        settings = VGPUHub.instance()
        sight, seen = await settings.watch.look(), None
        sent, silent = "", 0
        # The reader goes away, or the hub ends: both end the stream, and neither is an error.
        with contextlib.suppress(StreamClosedError, asyncio.CancelledError):
            while True:
                silent += 1
                event = json.dumps(self._event(settings, user, sight)) if sight is not seen else sent
                if event != sent:
                    self.write(f"data: {event}\n\n")
                    sent, silent = event, 0
                elif silent % _KEEPALIVE_LOOKS == 0:
                    self.write(":\n\n")  # a reader that is gone is noticed, one behind a proxy kept
                await self.flush()
                seen, sight = sight, await settings.watch.later()

    @staticmethod
    def _event(settings: VGPUHub, user: Any, sight: Sight) -> dict[str, Any]:
        groups = [group.name for group in user.groups]
        offers = [
            {"name": offer.profile.name, "note": how_many(offer), "can_be_chosen": offer.can_be_chosen}
            for offer in offers_of(settings, user.name, groups, sight)
        ]
        is_known = sight.devices is not None
        return {"state": state(sight.devices, sight.trouble), "is_known": is_known, "offers": offers}


class ChosenPage(BaseHandler):  # type: ignore[misc]  # jupyterhub is untyped
    """`/hub/vgpu/spawn?vgpu_profile=NAME[&server=NAME]`: the spawn page with a profile chosen, nothing started.

    JupyterHub's own `/hub/spawn?vgpu_profile=NAME` starts a server at once. What is chosen stands behind the `#` there,
    which would not survive the login page; here it does.
    """

    @web.authenticated
    async def get(self) -> None:
        """Lead to the spawn page."""
        path = url_path_join(self.hub.base_url, "spawn")
        if not isinstance(self.current_user, User):
            raise web.HTTPError(403, "this page is for people, who have a spawn page")
        if server := self.get_argument("server", ""):
            path = url_path_join(path, self.current_user.escaped_name, quote(server, safe=""))
        chosen = self.get_argument(KEY, "", strip=False)
        self.redirect(f"{path}#{urlencode({KEY: chosen})}")


class ScriptPage(web.RequestHandler):
    """`/hub/vgpu/spawn_page.js`: the same for everyone."""

    def get(self) -> None:
        """Send the script."""
        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "public, max-age=31536000, immutable")
        self.finish(SCRIPT)


HANDLERS: list[tuple[str, Any]] = [
    ("/vgpu/live", LivePage),
    ("/vgpu/spawn", ChosenPage),
    ("/vgpu/spawn_page.js", ScriptPage),
]
