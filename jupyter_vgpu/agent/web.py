"""What the agent's HTTP sockets share: JSON, errors, and bounds on what a caller costs.

The API itself is fixed in docs/contracts.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import IOStream
from tornado.web import Application, HTTPError, RequestHandler

from jupyter_vgpu.agent import peers
from jupyter_vgpu.agent.accepting import Acceptor
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.errors import VGPUError

log = logging.getLogger(__name__)
# It has a line for each request that is no HTTP: whoever sends garbage would fill the log.
logging.getLogger("tornado.general").setLevel(logging.ERROR)

_LARGEST_BODY_BYTES = 64 << 10
_PATIENCE_SECONDS = 10.0
_MOST_CONNECTIONS_PER_USER = 64
_MOST_REMOTE_CONNECTIONS = 512  # of all hosts together


class JsonHandler(RequestHandler):
    """JSON in, JSON out; a `VGPUError` becomes its status."""

    def initialize(self, agent: Agent, hub_token: str = "") -> None:
        """Take what the rules of `make_server` give."""
        self.agent = agent
        self.hub_token = hub_token

    @property
    def is_remote(self) -> bool:
        """Whether it was asked over a port, where the kernel does not say by whom."""
        return is_remote(self._socket())

    def peer(self) -> peers.Peer:
        """Return who asks, over a Unix socket."""
        return peers.peer_of(self._socket())

    def _socket(self) -> socket.socket:
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection)
        stream_socket: socket.socket = connection.stream.socket
        return stream_socket

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


class UnknownHandler(JsonHandler):
    """Answers for paths that are not part of the API."""

    def prepare(self) -> None:
        """Refuse."""
        raise HTTPError(404, f"{self.request.path} is not part of this API")


def is_remote(connection: socket.socket) -> bool:
    """Return whether a connection came to a port, from wherever; otherwise it is of a process of this host."""
    return connection.family != socket.AF_UNIX


class FairServer(HTTPServer):
    """Bounds the connections of one host user, or of one other host, so that nobody uses up the agent's descriptors."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Start with no connections."""
        super().initialize(*args, **kwargs)
        self._owners: dict[int, Hashable] = {}
        self._counts: Counter[Hashable] = Counter()
        self._remote: dict[int, tuple[str, IOStream]] = {}  # oldest first

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Serve listening sockets, also while there are no descriptors left: tornado's own loop would spin then."""
        loop = asyncio.get_running_loop()
        for listener in sockets:
            acceptor = Acceptor(loop, listener, self._welcome)
            self._sockets[listener.fileno()] = listener
            self._handlers[listener.fileno()] = acceptor.close

    def _welcome(self, connection: socket.socket) -> None:
        try:
            self._handle_connection(connection, connection.getpeername() if is_remote(connection) else "")
        except OSError:
            connection.close()  # gone already

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Serve a new connection, or close it when who made it has too many."""
        try:
            owner = address[0] if is_remote(stream.socket) else peers.peer_of(stream.socket).uid
        except OSError:
            stream.close()
            return
        if isinstance(owner, str):
            self._make_room(owner)
            self._remote[id(stream)] = owner, stream
        elif owner != os.geteuid() and self._counts[owner] >= _MOST_CONNECTIONS_PER_USER:
            stream.close()
            return
        self._owners[id(stream)] = owner
        self._counts[owner] += 1
        super().handle_stream(stream, address)

    def _make_room(self, host: str) -> None:
        """Close the oldest connection where a host, or all, have too many.

        Not the newest: a hub's users can be on the hub's host, and hold connections open that say nothing.
        """
        of_host = [key for key, (owner, _) in self._remote.items() if owner == host]
        if len(of_host) >= _MOST_CONNECTIONS_PER_USER:
            self._remote.pop(of_host[0])[1].close()
        elif len(self._remote) >= _MOST_REMOTE_CONNECTIONS:
            self._remote.pop(next(iter(self._remote)))[1].close()

    def on_close(self, server_conn: object) -> None:
        """Forget a connection."""
        assert isinstance(server_conn, HTTP1ServerConnection)
        self._remote.pop(id(server_conn.stream), None)
        owner = self._owners.pop(id(server_conn.stream), None)
        if owner is not None:
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]
        super().on_close(server_conn)


def make_server(rules: list[Any], listeners: Iterable[socket.socket], tls: ssl.SSLContext | None = None) -> HTTPServer:
    """Return a server of `rules` (path, handler, what its `initialize` gets), serving `listeners`."""
    application = Application(
        rules, default_handler_class=UnknownHandler, default_handler_args=rules[0][2], log_function=_log
    )
    server = FairServer(
        application,
        ssl_options=tls,
        idle_connection_timeout=_PATIENCE_SECONDS,
        body_timeout=_PATIENCE_SECONDS,
        max_body_size=_LARGEST_BODY_BYTES,
        max_header_size=_LARGEST_BODY_BYTES,
    )
    server.add_sockets(listeners)
    return server


def _log(handler: RequestHandler) -> None:
    request: HTTPServerRequest = handler.request
    log.debug("%s %s %d %.1f ms", request.method, request.path, handler.get_status(), request.request_time() * 1e3)
