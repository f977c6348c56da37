"""Pages of ours inside the hub: who waits may give up waiting.

JupyterHub refuses to stop a server that is still starting, so this is the only way out of the queue besides patience.
"""

from __future__ import annotations

from html import escape
from typing import Any

from jupyterhub.handlers import BaseHandler
from jupyterhub.scopes import needs_scope
from tornado import web

from jupyter_vgpu.hub import live, session_page
from jupyter_vgpu.hub.reconciliation import tenant_name
from jupyter_vgpu.hub.settings import VGPUHub
from jupyter_vgpu.hub.waits import sentence

# In the dress of the hub's own pages, whichever templates it has.
_PAGE = """{% extends "page.html" %}
{% block title %}GPU queue{% endblock %}
{% block main %}
<div class="container"><h1>GPU queue</h1><p role="status">{{ state }}</p>{{ form | safe }}</div>
{% endblock %}
"""


def cancel_form(hub_url: str, user: str, server: str, xsrf: str = "") -> str:
    """Return a button that gives up a server's place in the queue.

    Args:
        hub_url: Path of the hub.
        user: The server's user.
        server: The server; empty = the default server.
        xsrf: The page's token; empty = taken when the button is pressed, on a page of the hub that runs scripts.
    """
    take_token = "" if xsrf else ' onclick="this.form._xsrf.value = window.jhdata.xsrf_token"'
    return (
        f'<form method="post" action="{escape(hub_url)}vgpu/queue">'
        f'<input type="hidden" name="_xsrf" value="{escape(xsrf)}">'
        f'<input type="hidden" name="user" value="{escape(user)}">'
        f'<input type="hidden" name="server" value="{escape(server)}">'
        f'<button class="btn btn-secondary btn-sm"{take_token}>Give up this place</button></form>'
    )


class QueuePage(BaseHandler):  # type: ignore[misc]  # jupyterhub is untyped
    """`/hub/vgpu/queue?server=NAME`: where one's own server stands, with a button that gives up the place.

    `&user=NAME` is for who may start and stop that user's servers.
    """

    @web.authenticated
    async def get(self) -> None:
        """Show where the server stands."""
        await self._get(user_name=self.get_argument("user", "") or self.current_user.name)

    @web.authenticated
    async def post(self) -> None:
        """Give up the place."""
        await self._post(user_name=self.get_argument("user", "") or self.current_user.name)

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _get(self, user_name: str) -> None:
        server = self.get_argument("server", "")
        position = VGPUHub.instance().room.position((user_name, server))
        if position is None:
            await self._show(f"The server {tenant_name(user_name, server)} does not wait for a GPU.")
            return
        xsrf = self.xsrf_token.decode() if isinstance(self.xsrf_token, bytes) else str(self.xsrf_token)
        await self._show(f"{sentence(position)}.", cancel_form(self.hub.base_url, user_name, server, xsrf))

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _post(self, user_name: str) -> None:
        server = self.get_argument("server", "")
        was_waiting = VGPUHub.instance().room.cancel((user_name, server), self.current_user.name)
        await self._show("The place was given up." if was_waiting else "The server does not wait for a GPU.")

    async def _show(self, state: str, form: str = "") -> None:
        template = self.settings["jinja2_env"].from_string(_PAGE)
        self.finish(await template.render_async(**self.template_namespace, state=state, form=form))


HANDLERS: list[tuple[str, Any]] = [("/vgpu/queue", QueuePage), *live.HANDLERS, *session_page.HANDLERS]
