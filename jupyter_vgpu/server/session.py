"""How long the user's server may go on: idle time, the hub's time limit, GPU-hours.

Lives in the event loop. The hub, where there is one, is asked once a minute and
only while somebody looks; what it does not offer is not shown.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, TypedDict, cast

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

IDLE_VARIABLE = "JUPYTER_VGPU_IDLE_SECONDS"

_ASK_SECONDS = 60.0
# A hub that knows no such page will hardly learn it while this server runs.
_ASK_AGAIN_SECONDS = 600.0
_TIMEOUT_SECONDS = 10.0


class SessionInfo(TypedDict, total=False):
    """SESSION of `docs/contracts.md`; what is not known is absent."""

    left_seconds: float
    idle_left_seconds: float
    gpu_hours_left: float
    gpu_hours_limit: float
    gpu_hours_again_at: float


class HubAnswer(TypedDict, total=False):
    """What the hub says of a server: see `docs/contracts.md`."""

    ends_at: float
    idle_seconds: float
    gpu_hours_left: float
    gpu_hours_limit: float
    gpu_hours_again_at: float


class HubPage:
    """The hub's page about this server, as last read."""

    def __init__(self, log: logging.Logger, environment: Mapping[str, str] | None = None) -> None:
        """Ask nothing yet.

        Args:
            log: Where an answer that is not understood is told.
            environment: Where JupyterHub says how to reach it; `None` = `os.environ`.
        """
        self._environment = os.environ if environment is None else environment
        self._log = log
        self._answer: HubAnswer = {}
        self._next_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def now(self) -> HubAnswer:
        """Return what is known, at once; ask anew in the background where that is old."""
        is_free = self._asking is None or self._asking.done()
        if is_free and time.monotonic() >= self._next_at and self._environment.get("JUPYTERHUB_API_URL"):
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return self._answer

    def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self) -> None:
        self._next_at = time.monotonic() + _ASK_SECONDS
        given = self._environment
        request = HTTPRequest(
            f"{given['JUPYTERHUB_API_URL'].rstrip('/').removesuffix('/api')}/vgpu/session"
            f"?server={given.get('JUPYTERHUB_SERVER_NAME', '')}",
            headers={"Authorization": f"token {given.get('JUPYTERHUB_API_TOKEN', '')}"},
            request_timeout=_TIMEOUT_SECONDS,
            follow_redirects=False,
            # Where the hub speaks TLS within: its own names for the files.
            client_key=given.get("JUPYTERHUB_SSL_KEYFILE") or None,
            client_cert=given.get("JUPYTERHUB_SSL_CERTFILE") or None,
            ca_certs=given.get("JUPYTERHUB_SSL_CLIENT_CA") or None,
        )
        try:
            answer = await AsyncHTTPClient().fetch(request)
            self._answer = parse_answer(answer.body)
        except HTTPClientError as error:
            self._answer = {}
            if error.code != 599:
                self._next_at = time.monotonic() + _ASK_AGAIN_SECONDS
        except (OSError, ValueError) as error:
            self._answer = {}
            self._log.warning("jupyter_vgpu: the hub does not say how long this server may go on: %s", error)


def parse_answer(content: bytes) -> HubAnswer:
    """Return what a hub's page says; what is no finite number that is not negative is left out.

    Raises:
        ValueError: It is no JSON object.
    """
    decoded = json.loads(content)
    if not isinstance(decoded, dict):
        raise ValueError(f"an object was expected, not {type(decoded).__name__}")
    known = {key: number for key in HubAnswer.__annotations__ if (number := _number(decoded.get(key))) is not None}
    return cast(HubAnswer, known)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value >= 0 else None


def idle_limit(environment: Mapping[str, str], hub: HubAnswer) -> float | None:
    """Return after how many idle seconds the server is stopped from outside; `None` when nobody says.

    Args:
        environment: Of the server; the admin, or the spawner, may say it in `JUPYTER_VGPU_IDLE_SECONDS`.
        hub: What the hub says, which counts first.
    """
    if "idle_seconds" in hub:
        return hub["idle_seconds"] or None
    try:
        seconds = float(environment.get(IDLE_VARIABLE, ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


class Session:
    """What is known about this server's end."""

    def __init__(self, application: Any, hub: HubPage) -> None:
        """Take what to look at.

        Args:
            application: The `ServerApp`.
            hub: The hub's page.
        """
        self._application = application
        self._hub = hub

    def now(self) -> SessionInfo:
        """Return SESSION as it is now."""
        hub = self._hub.now()
        now = time.time()
        session: SessionInfo = {}
        if "ends_at" in hub:
            session["left_seconds"] = max(0.0, round(hub["ends_at"] - now))
        for key in ("gpu_hours_left", "gpu_hours_limit", "gpu_hours_again_at"):
            if key in hub:
                session[key] = hub[key]
        limits = [limit for limit in (idle_limit(os.environ, hub), self._own_limit()) if limit is not None]
        if limits:
            session["idle_left_seconds"] = max(0.0, round(min(limits) - self._idle_seconds()))
        return session

    def _own_limit(self) -> float | None:
        """Return Jupyter Server's own limit, which counts only while there is neither Jupyter kernel nor terminal."""
        application = self._application
        seconds = float(application.shutdown_no_activity_timeout)
        if seconds <= 0:
            return None
        is_in_use = len(application.kernel_manager) > 0 or application.extension_manager.any_activity()
        return None if is_in_use else seconds

    def _idle_seconds(self) -> float:
        last: datetime = self._application.web_app.last_activity()
        return max(0.0, (datetime.now(timezone.utc) - last).total_seconds())
