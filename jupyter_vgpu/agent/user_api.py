"""`user.sock`: for tenants, who get to see their own slice and nothing else."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

from tornado.httpserver import HTTPServer

from jupyter_vgpu.agent import views
from jupyter_vgpu.agent.bodies import parse_subslice
from jupyter_vgpu.agent.changes import parse_wait, usage_mark
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.agent.subslices import subslice_view
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.agent.web import JsonHandler, make_server
from jupyter_vgpu.errors import BadValueError, NotAuthorizedError, VGPUError


class _UserHandler(JsonHandler):
    """For a tenant: the secret says which claim, the kernel says whether it is theirs."""

    def own(self) -> Tenant:
        """Return the caller's tenant.

        Raises:
            NotAuthorizedError: No secret, or another user's.
            UnknownClaimError: The claim has been released, or never was.
        """
        secret = self.bearer()
        if not secret:
            raise NotAuthorizedError("user.sock asks for the claim secret as `Authorization: Bearer …`")
        return self.agent.tenant_of(secret, self.peer().uid)


class _Slice(_UserHandler):
    def get(self) -> None:
        self.send(views.slice_view(self.own(), self.agent))


class _Usage(_UserHandler):
    """Answers at once, or, where the caller knows all but the time already, when there is something else to say."""

    _mark = ""
    _wait: asyncio.Future[None] | None = None
    _is_gone = False

    async def get(self) -> None:
        own, known = self.own(), self.get_query_argument("unlike", "")
        seconds = parse_wait(self.get_query_argument("wait_seconds", "0"))
        if known:
            self._wait = self.agent.changes.wait(own.claim.claim_id, self._marker(), known, seconds)
            await self._wait
            if self._is_gone:
                return
            own = self.own()
        usage = views.usage_with_parts(own, self.agent, time.time())
        self._mark = usage_mark(usage)
        self.send(usage)

    def _marker(self) -> Callable[[], str]:
        agent, secret, uid = self.agent, self.bearer(), self.peer().uid

        def mark() -> str:
            try:
                return usage_mark(views.usage_with_parts(agent.tenant_of(secret, uid), agent, time.time()))
            except VGPUError:  # it was released, which is a change too
                return ""

        return mark

    def compute_etag(self) -> str | None:
        """Return the header `Etag`: the mark, which `unlike` takes; `None` where there is no usage."""
        return f'"{self._mark}"' if self._mark else None

    def on_connection_close(self) -> None:
        """Wait no more: nobody listens."""
        self._is_gone = True
        if self._wait is not None and not self._wait.done():
            self._wait.set_result(None)


class _Events(_UserHandler):
    def get(self) -> None:
        self.send({"events": views.event_views(self.agent.events.of(self.own().claim.claim_id))})


class _Subslices(_UserHandler):
    def get(self) -> None:
        parts = self.agent.book.parts_of(self.own().claim.claim_id)
        self.send({"subslices": [subslice_view(part) for part in parts]})

    async def post(self) -> None:
        whole, holder = self.own(), self.peer().pid
        if holder <= 0:
            raise BadValueError("process", holder, "only one that the agent can see is: the part lasts as long as it")
        new = await self.agent.divide(whole, parse_subslice(self.request.body), holder)
        self.send({"subslice": subslice_view(new.claim), "secret": new.secret}, 201)


class _Subslice(_UserHandler):
    async def delete(self, claim_id: str) -> None:
        own = self.own().claim.claim_id
        if all(part.claim_id != claim_id for part in self.agent.book.parts_of(own)):
            self.send({"subslice": None})
            return
        released = await self.agent.release(claim_id)
        self.send({"subslice": None if released is None else subslice_view(released)})


def serve_users(agent: Agent, listener: socket.socket) -> HTTPServer:
    """Return the server of `user.sock`, serving."""
    given = {"agent": agent}
    rules = [
        (r"/v1/slice", _Slice, given),
        (r"/v1/usage", _Usage, given),
        (r"/v1/events", _Events, given),
        (r"/v1/subslices", _Subslices, given),
        (r"/v1/subslices/([0-9A-Za-z-]{1,64})", _Subslice, given),
    ]
    return make_server(rules, [listener])
