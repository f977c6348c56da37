"""`hub.sock`, and the port for hubs on other nodes: for hubs and admins."""

from __future__ import annotations

import hmac
import os
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tornado.httpserver import HTTPServer

from jupyter_vgpu._version import __version__
from jupyter_vgpu.agent import views
from jupyter_vgpu.agent.bodies import DeviceBody, parse_body, parse_claim_body, parse_claims_body
from jupyter_vgpu.agent.claims import NewClaim
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.agent.tracing import Tracer
from jupyter_vgpu.agent.web import JsonHandler, make_server
from jupyter_vgpu.errors import BadValueError, NotAuthorizedError, VGPUError


class _HubHandler(JsonHandler):
    """For hubs: the agent's own user and root by who they are, others by the hub token."""

    def prepare(self) -> None:
        if not self.is_remote and self.peer().uid in (0, os.geteuid()):
            return
        if not hmac.compare_digest(self.bearer().encode(), self.hub_token.encode()):
            if self.is_remote:
                raise NotAuthorizedError("that is not the token of this agent: hubs send what its admin gave them")
            raise NotAuthorizedError("hub.sock is for hubs: send the token in hub.token as `Authorization: Bearer …`")


class _Health(_HubHandler):
    def get(self) -> None:
        agent = self.agent
        devices = agent.book.devices
        self.send(
            {
                "version": __version__,
                "pid": os.getpid(),
                "started_at": agent.started_at,
                "isolated": agent.is_isolated,
                "note": "" if agent.is_isolated else "demo, not isolated: the agent does not run as root",
                "driver_version": devices[0].driver_version,
                "simulated": any(device.is_simulated for device in devices),
                "devices": len(devices),
                "claims": len(agent.book.slices),
            }
        )


class _Devices(_HubHandler):
    def get(self) -> None:
        self.send({"devices": views.device_views(self.agent.book, self.agent.rooms())})


class _Device(_HubHandler):
    async def put(self, uuid: str) -> None:
        await self.agent.drain(uuid, parse_body(DeviceBody, self.request.body).drained)
        views_of_all = views.device_views(self.agent.book, self.agent.rooms())
        self.send({"device": next(view for view in views_of_all if view["uuid"] == uuid)})


def _granted_view(new: NewClaim, agent: Agent) -> dict[str, Any]:
    return {
        "claim": views.claim_view(new.claim, agent.book),
        "secret": new.secret,
        "edits": asdict(new.edits),
    }


class _Claims(_HubHandler):
    def get(self) -> None:
        book = self.agent.book
        self.send({"claims": [views.claim_view(claim, book) for claim in book.slices]})

    async def post(self) -> None:
        body = parse_claim_body(self.request.body)
        holder = None
        if body.while_peer_lives:
            holder = 0 if self.is_remote else self.peer().pid
            if holder <= 0:
                raise BadValueError("while_peer_lives", True, "only for a process that the agent can see is")
        self.send(_granted_view(await self.agent.claim(body.request(), holder), self.agent), 201)


class _ManyClaims(_HubHandler):
    async def post(self) -> None:
        ended = await self.agent.claim_all(parse_claims_body(self.request.body))
        self.send(
            {
                "granted": [
                    {"error": one.reason, "message": str(one)}
                    if isinstance(one, VGPUError)
                    else _granted_view(one, self.agent)
                    for one in ended
                ]
            },
            201,
        )


class _Claim(_HubHandler):
    def get(self, claim_id: str) -> None:
        self.send({"claim": views.claim_view(self.agent.book.get(claim_id), self.agent.book)})

    async def delete(self, claim_id: str) -> None:
        released = await self.agent.release(claim_id)
        self.send({"claim": None if released is None else views.claim_view(released, self.agent.book)})


class _ClaimUsage(_HubHandler):
    def get(self, claim_id: str) -> None:
        self.send(views.usage_with_parts(self.agent.tenant(claim_id), self.agent, time.time()))


class _ClaimEvents(_HubHandler):
    def get(self, claim_id: str) -> None:
        claim = self.agent.book.get(claim_id)
        self.send({"events": views.event_views(self.agent.events.of(claim.claim_id))})


class _Events(_HubHandler):
    def get(self) -> None:
        self.send({"events": views.event_views(self.agent.events.all())})


class _Trace(_HubHandler):
    def initialize(self, agent: Agent, hub_token: str = "", tracer: Tracer | None = None) -> None:
        super().initialize(agent, hub_token)
        self.tracer = tracer or Tracer(agent)

    async def get(self) -> None:
        text = self.get_query_argument("seconds", "1")
        try:
            seconds = float(text)
        except ValueError:
            raise BadValueError("seconds", text, "a number of seconds is") from None
        self.send(dict(await self.tracer.trace(seconds)))


class _Metrics(_HubHandler):
    def get(self) -> None:
        from jupyter_vgpu.agent.metrics import CONTENT_TYPE, render

        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(render(self.agent))


def serve_hubs(
    agent: Agent, listeners: Sequence[socket.socket], hub_token: str, tls: ssl.SSLContext | None = None
) -> HTTPServer:
    """Return the server for hubs, serving `listeners`: `hub.sock`, or ports, there by `tls` where that is given."""
    given = {"agent": agent, "hub_token": hub_token}
    rules = [
        (r"/v1/health", _Health, given),
        (r"/v1/devices", _Devices, given),
        (r"/v1/devices/([0-9A-Za-z-]{1,64})", _Device, given),
        (r"/v1/claims", _Claims, given),
        (r"/v1/claims/batch", _ManyClaims, given),
        (r"/v1/claims/([0-9A-Za-z-]{1,64})", _Claim, given),
        (r"/v1/claims/([0-9A-Za-z-]{1,64})/usage", _ClaimUsage, given),
        (r"/v1/claims/([0-9A-Za-z-]{1,64})/events", _ClaimEvents, given),
        (r"/v1/events", _Events, given),
        (r"/v1/trace", _Trace, {**given, "tracer": Tracer(agent)}),
        (r"/metrics", _Metrics, given),
    ]
    return make_server(rules, listeners, tls)
