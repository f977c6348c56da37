"""The service's process: serve, sample, and end with the hub."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from jupyterhub.services.auth import HubOAuth
from tornado.httpserver import HTTPServer
from tornado.web import Application

from jupyter_vgpu.client import agents_at
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.ledger import Ledger
from jupyter_vgpu.service.handlers import HANDLERS, Unknown
from jupyter_vgpu.service.lookout import Lookout
from jupyter_vgpu.service.revocation import Revoker
from jupyter_vgpu.service.sampling import Sampler
from jupyter_vgpu.service.settings import ServiceSettings, read_settings

log = logging.getLogger("jupyter_vgpu.service")

# What somebody may do is asked again after as long.
_RIGHTS_KEPT_SECONDS = 30
_AGENT_TIMEOUT_SECONDS = 4.0
_LARGEST_BODY_BYTES = 64 << 10


def main(listen: Callable[[], socket.socket]) -> None:
    """Serve until the hub ends, or says so.

    Args:
        listen: Gives a listening socket, once there is something to serve.
    """
    logging.basicConfig(level=logging.INFO, format="[%(levelname).1s %(asctime)s jupyter_vgpu.service] %(message)s")
    logging.getLogger("tornado.access").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        asyncio.run(_serve_and_end(read_settings(os.environ), listen))
    except VGPUError as error:
        sys.exit(f"jupyter_vgpu.service: {error}")


async def _serve_and_end(settings: ServiceSettings, listen: Callable[[], socket.socket]) -> None:
    await serve(settings, listen)
    # Threads may still wait for an agent that hangs, and asyncio for them: the hub's end is not held up by that.
    logging.shutdown()
    os._exit(0)


async def serve(settings: ServiceSettings, listen: Callable[[], socket.socket]) -> None:
    """Serve until told to end, by a signal or by the end of the hub."""
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    if settings.hub_pid and not _watch(settings.hub_pid, end):
        return
    lookout = Lookout(
        agents_at(settings.agent, settings.endpoints, _AGENT_TIMEOUT_SECONDS),
        lambda: Ledger(settings.ledger_url, settings.hub_name),
        settings.hub_name,
    )
    server = HTTPServer(make_application(lookout), max_body_size=_LARGEST_BODY_BYTES, xheaders=True)
    server.add_socket(listen())
    sampling = asyncio.ensure_future(Sampler(lookout, settings.sample_seconds).run())
    log.info("serving %s", HubOAuth.instance().base_url)
    try:
        await end.wait()
    finally:
        server.stop()
        sampling.cancel()
        lookout.close()


def make_application(lookout: Lookout) -> Application:
    """Return the service, for the hub that the environment names."""
    auth = HubOAuth.instance()
    auth.cache_max_age = _RIGHTS_KEPT_SECONDS
    return Application(
        [(f"{auth.base_url}{path}", handler) for path, handler in HANDLERS],
        default_handler_class=Unknown,
        template_path=str(Path(__file__).with_name("templates")),
        cookie_secret=os.urandom(32),
        lookout=lookout,
        revoker=Revoker(lookout, auth.api_url, auth.api_token),
        streams=Counter(),
    )


def _watch(pid: int, end: asyncio.Event) -> bool:
    """End with a process, however it ends; return whether it is our parent and lives.

    A hub that is killed leaves its services behind, and the next hub starts its own.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    if os.getppid() != pid:
        return False
    asyncio.get_running_loop().add_reader(pidfd, end.set)
    return True
