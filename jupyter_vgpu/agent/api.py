"""The agent's HTTP API on its two Unix sockets, as docs/contracts.md fixes it.

`hub.sock` serves hubs and admins, `user.sock` serves tenants their own slice and nothing else.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import socket
import time
from typing import Any

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import IOStream
from tornado.web import Application, HTTPError, RequestHandler

from jupyter_vgpu._version import __version__
from jupyter_vgpu.agent import peers, views
from jupyter_vgpu.agent.bodies import parse_claim_body
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.errors import BadValueError, NotAuthorizedError, VGPUError

log = logging.getLogger(__name__)

_LARGEST_BODY_BYTES = 64 << 10
_PATIENCE_SECONDS = 10.0
_MOST_CONNECTIONS_PER_USER = 64


class _Handler(RequestHandler):
    """JSON in, JSON out; a `VGPUError` becomes its status."""

    def initialize(self, agent: Agent, hub_token: str = "") -> None:
        self.agent = agent
        self.hub_token = hub_token

    def peer(self) -> peers.Peer:
        """Return who asks."""
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection)
        stream_socket: socket.socket = connection.stream.socket
        return peers.peer_of(stream_socket)

    def bearer(self) -> str:
        """Return the token in the `Authorization` header, or `""`."""
        scheme, _, token = self.request.headers.get("Authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    def send(self, content: Any, status: int = 200) -> None:
        """Answer with JSON."""
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(content))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with the reason and the message of what went wrong."""
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        if isinstance(error, VGPUError):
            self.send({"error": error.reason, "message": str(error)}, error.http_status)
        elif isinstance(error, HTTPError):
            self.send(
                {"error": "not-found" if status_code == 404 else "bad-request", "message": str(error)}, status_code
            )
        else:
            self.send({"error": "internal", "message": "the agent failed to answer; its log says why"}, status_code)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log what is the agent's own fault; a refusal is the caller's business."""
        if not isinstance(value, (VGPUError, HTTPError)):
            log.error("%s %s failed", self.request.method, self.request.path, exc_info=(typ, value, tb))


class _Unknown(_Handler):
    def prepare(self) -> None:
        raise HTTPError(404, f"{self.request.path} is not part of this API")


class _HubHandler(_Handler):
    """For hubs: the agent's own user and root by who they are, others by the hub token."""

    def prepare(self) -> None:
        if self.peer().uid in (0, os.geteuid()):
            return
        if not hmac.compare_digest(self.bearer().encode(), self.hub_token.encode()):
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
                "claims": len(agent.book.claims),
            }
        )


class _Devices(_HubHandler):
    def get(self) -> None:
        self.send({"devices": views.device_views(self.agent.book, self.agent.rooms())})


class _Claims(_HubHandler):
    def get(self) -> None:
        book = self.agent.book
        self.send({"claims": [views.claim_view(claim, book) for claim in book.claims]})

    async def post(self) -> None:
        body = parse_claim_body(self.request.body)
        holder = None
        if body.while_peer_lives:
            holder = self.peer().pid
            if holder <= 0:
                raise BadValueError("while_peer_lives", True, "only for a process that the agent can see is")
        new = await self.agent.claim(body.request(), holder)
        edits = new.edits
        self.send(
            {
                "claim": views.claim_view(new.claim, self.agent.book),
                "secret": new.secret,
                "edits": {
                    "env": edits.env,
                    "preload": edits.preload,
                    "library_path": edits.library_path,
                    "mounts": edits.mounts,
                    "devices": edits.devices,
                },
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
        tenant = self.agent.tenant(claim_id)
        isolated = self.agent.is_isolated_from(tenant.claim)
        self.send(views.usage_view(tenant, self.agent.book, isolated, time.time()))


class _Metrics(_HubHandler):
    def get(self) -> None:
        from jupyter_vgpu.agent.metrics import CONTENT_TYPE, render

        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(render(self.agent))


class _UserHandler(_Handler):
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
        tenant = self.own()
        isolated = self.agent.is_isolated_from(tenant.claim)
        self.send(views.slice_view(tenant, self.agent.book, isolated, self.agent.info))


class _Usage(_UserHandler):
    def get(self) -> None:
        tenant = self.own()
        isolated = self.agent.is_isolated_from(tenant.claim)
        self.send(views.usage_view(tenant, self.agent.book, isolated, time.time()))


class _FairServer(HTTPServer):
    """Bounds the connections of one host user, so that nobody uses up the agent's descriptors."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        super().initialize(*args, **kwargs)
        self._owners: dict[int, int] = {}

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        try:
            uid = peers.peer_of(stream.socket).uid
        except OSError:
            stream.close()
            return
        if uid != os.geteuid() and sum(owner == uid for owner in self._owners.values()) >= _MOST_CONNECTIONS_PER_USER:
            stream.close()
            return
        self._owners[id(stream)] = uid
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        assert isinstance(server_conn, HTTP1ServerConnection)
        self._owners.pop(id(server_conn.stream), None)
        super().on_close(server_conn)


def _server(rules: list[Any], listener: socket.socket) -> HTTPServer:
    application = Application(
        rules, default_handler_class=_Unknown, default_handler_args=rules[0][2], log_function=_log
    )
    server = _FairServer(
        application,
        idle_connection_timeout=_PATIENCE_SECONDS,
        body_timeout=_PATIENCE_SECONDS,
        max_body_size=_LARGEST_BODY_BYTES,
        max_header_size=_LARGEST_BODY_BYTES,
    )
    server.add_socket(listener)
    return server


def _log(handler: RequestHandler) -> None:
    request: HTTPServerRequest = handler.request
    log.debug("%s %s %d %.1f ms", request.method, request.path, handler.get_status(), request.request_time() * 1e3)


def serve_users(agent: Agent, listener: socket.socket) -> HTTPServer:
    """Return the server of `user.sock`, serving."""
    given = {"agent": agent}
    return _server([(r"/v1/slice", _Slice, given), (r"/v1/usage", _Usage, given)], listener)


def serve_hubs(agent: Agent, listener: socket.socket, hub_token: str) -> HTTPServer:
    """Return the server of `hub.sock`, serving."""
    given = {"agent": agent, "hub_token": hub_token}
    rules = [
        (r"/v1/health", _Health, given),
        (r"/v1/devices", _Devices, given),
        (r"/v1/claims", _Claims, given),
        (r"/v1/claims/([0-9A-Za-z-]{1,64})", _Claim, given),
        (r"/v1/claims/([0-9A-Za-z-]{1,64})/usage", _ClaimUsage, given),
        (r"/metrics", _Metrics, given),
    ]
    return _server(rules, listener)
