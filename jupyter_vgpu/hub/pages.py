"""Pages of ours inside the hub: who waits may give up waiting.

JupyterHub refuses to stop a server that is still starting, so this is the only way out of the queue besides patience.
"""

from __future__ import annotations

from html import escape
from typing import Any

from jupyterhub.handlers import BaseHandler
from tornado import web

from jupyter_vgpu.hub.queue import sentence
from jupyter_vgpu.hub.reconciliation import tenant_name
from jupyter_vgpu.hub.settings import VGPUHub

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>GPU queue</title></head>
<body><main><h1>GPU queue</h1><p role="status">{state}</p>{form}<p><a href="{home}">Home</a></p></main></body></html>
"""


class QueuePage(BaseHandler):  # type: ignore[misc]  # jupyterhub is untyped
    """`/hub/vgpu/queue?server=NAME`: where one's own server stands, with a button that gives up the place."""

    @web.authenticated
    async def get(self) -> None:
        """Show where the server stands."""
        server = self.get_argument("server", "")
        position = VGPUHub.instance().room.position((self.current_user.name, server))
        if position is None:
            self._show(f"Your server {tenant_name(self.current_user.name, server)} does not wait for a GPU.")
            return
        xsrf = self.xsrf_token.decode() if isinstance(self.xsrf_token, bytes) else str(self.xsrf_token)
        form = (
            f'<form method="post"><input type="hidden" name="_xsrf" value="{escape(xsrf)}">'
            f'<input type="hidden" name="server" value="{escape(server)}"><button>Give up this place</button></form>'
        )
        self._show(f"{sentence(position)}.", form)

    @web.authenticated
    async def post(self) -> None:
        """Give up the place."""
        server = self.get_argument("server", "")
        was_waiting = VGPUHub.instance().room.cancel((self.current_user.name, server), self.current_user.name)
        self._show("Your place was given up." if was_waiting else "Your server does not wait for a GPU.")

    def _show(self, state: str, form: str = "") -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(_PAGE.format(state=escape(state), form=form, home=escape(f"{self.hub.base_url}home")))


HANDLERS: list[tuple[str, Any]] = [("/vgpu/queue", QueuePage)]
