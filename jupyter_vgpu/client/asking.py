"""One question to an agent: over a Unix socket, or a port with or without TLS."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_vgpu.errors import AgentUnreachableError, NotAuthorizedError, error_from_reason

_LONGEST_ANSWER_BYTES = 256 << 20  # a trace of half a minute
_CROWDED_SECONDS = 0.01


class UnixConnection(http.client.HTTPConnection):
    """HTTP/1.1 over a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        """Take the socket's path and the time limit of each wait; nothing is opened yet."""
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect, and wait for a place where too many wait already."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        deadline = time.monotonic() + (self.timeout or 0)
        while True:
            try:
                self.sock.connect(os.fspath(self._path))
                return
            except BlockingIOError:
                # Too many wait already. source: connect(2), EAGAIN for Unix sockets that do not block
                if time.monotonic() > deadline:
                    raise TimeoutError from None
                time.sleep(_CROWDED_SECONDS)


def ask(
    connection: http.client.HTTPConnection,
    where: str,
    method: str,
    url: str,
    token: str,
    body: Mapping[str, Any] | None = None,
) -> Any:
    """Return the decoded answer of the agent behind `connection`, which is closed.

    Args:
        connection: Not opened yet; its time limit is that of each wait.
        where: The agent, for messages: a path or a URL.
        method: As of HTTP.
        url: What is asked for.
        token: Sent along unless empty.
        body: Sent as JSON.

    Raises:
        VGPUError: The one that the agent's answer stands for.
        AgentUnreachableError: No answer in time, one that is no answer of an agent, or no certificate of the agent's.
        NotAuthorizedError: This user may not open the socket.
    """
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    started = time.monotonic()
    try:
        connection.request(method, url, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read(_LONGEST_ANSWER_BYTES)
        decoded = json.loads(content)
    except TimeoutError as error:
        waited = time.monotonic() - started
        raise AgentUnreachableError(
            f"the node agent at {where} has not answered within {waited:.1f} s: see its log, or restart it"
        ) from error
    except PermissionError as error:
        raise NotAuthorizedError(
            f"this user may not open {where}: the agent's admin decides who may (hub.sock: root, and whom "
            "`jupyter vgpu agent --hub-user NAME` names)"
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise AgentUnreachableError(
            f"the certificate of the node agent at {where} is not accepted ({error.verify_message}): its authority's "
            "belongs in `ca_file`, and the name it is for in the URL"
        ) from error
    except ssl.SSLError as error:
        raise AgentUnreachableError(
            f"no TLS with the node agent at {where} ({error.reason or error}): it may speak plain HTTP, or ask for a "
            "certificate (`certificate`, `key`)"
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise AgentUnreachableError(
            f"no node agent answers at {where} ({reason(error)}): start it with `jupyter vgpu agent`"
        ) from error
    finally:
        connection.close()
    if answer.status >= 400:
        known = decoded if isinstance(decoded, dict) else {}
        raise error_from_reason(str(known.get("error")), str(known.get("message") or f"status {answer.status}"))
    return decoded


def reason(error: Exception) -> str:
    """Return why nobody answered, without the number of the error."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
