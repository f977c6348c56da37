"""The agent as a service: from options to a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pwd
import resource
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_vgpu.agent.hub_api import serve_hubs
from jupyter_vgpu.agent.listening import ListenOptions, Port, open_port
from jupyter_vgpu.agent.node import find_devices, refuse_inside_slice, simulated_board
from jupyter_vgpu.agent.oversight import AuditRules, OnBypass, OnExcess
from jupyter_vgpu.agent.runtime import RuntimeDir
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.agent.user_api import serve_users
from jupyter_vgpu.client import SYSTEM_RUNTIME_DIR
from jupyter_vgpu.errors import BadValueError

log = logging.getLogger(__name__)

SYSTEM_STATE_DIR = Path("/var/lib/jupyter-vgpu")


@dataclass(frozen=True)
class ServeOptions:
    """What `jupyter vgpu agent` was told.

    Attributes:
        runtime_dir: Where the sockets go.
        state_dir: Where the claims are kept; `None` = /var/lib/jupyter-vgpu for a system agent, else the runtime
            directory.
        simulate: Board to simulate, as `"2xa100-80"`; `None` = the NVIDIA driver's devices.
        devices: Numbers or UUIDs of the devices to serve, with commas between; `None` = those that
            `JUPYTER_VGPU_DEVICES` names, or all.
        hub_user: Host user that the hub runs as; `None` = the agent's own.
        on_bypass: What happens to a process of a slice that uses the device without the library.
        on_excess: What happens when a slice has had more memory than it may for two seconds.
        govern: Whether GPU time is governed; otherwise the driver's own time-slicing is all there is.
        listen: A port for hubs on other nodes.
    """

    runtime_dir: Path = SYSTEM_RUNTIME_DIR
    state_dir: Path | None = None
    simulate: str | None = None
    devices: str | None = None
    hub_user: str | None = None
    on_bypass: OnBypass = "report"
    on_excess: OnExcess = "report"
    govern: bool = True
    listen: ListenOptions = field(default_factory=ListenOptions)

    @property
    def state_path(self) -> Path:
        """File of the claims."""
        if self.state_dir is not None:
            return self.state_dir / "state.json"
        is_system = self.runtime_dir.absolute() == SYSTEM_RUNTIME_DIR
        return (SYSTEM_STATE_DIR if is_system else self.runtime_dir) / "state.json"


def _uid_of(user: str | None) -> int | None:
    if user is None:
        return None
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise BadValueError("--hub-user", user, "the name of a user of this host is") from None


def _raise_descriptor_limit() -> None:
    """Every attached process costs a descriptor: use what the admin allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tell_systemd(state: str) -> None:
    """Report to the service manager, where there is one. source: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out,
        ):
            out.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


def serve(options: ServeOptions) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        VGPUError: Why it cannot serve; nothing is left behind.
    """
    refuse_inside_slice()
    _raise_descriptor_limit()
    hub_uid = _uid_of(options.hub_user)
    state_path = options.state_path
    port = open_port(options.listen)
    with contextlib.ExitStack() as stack:
        for listener in port.sockets if port is not None else ():
            stack.callback(listener.close)
        runtime = RuntimeDir(options.runtime_dir)
        stack.callback(runtime.close)
        state_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        simulated = stack.enter_context(simulated_board(options.simulate, runtime.path / "board.sim"))
        found = find_devices(simulated, options.devices)
        rules = AuditRules(on_bypass=options.on_bypass, on_excess=options.on_excess)
        agent = Agent(found.devices, runtime, state_path, found.simulated_state, found.nvml, rules, options.govern)
        asyncio.run(_serve(agent, hub_uid, port))


async def _serve(agent: Agent, hub_uid: int | None, port: Port | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runtime = agent.runtime
    agent.start()
    users = serve_users(agent, runtime.listen("user.sock", socket.SOCK_STREAM, 0o666))
    token = runtime.hub_token(hub_uid)
    # A hub's user owns the socket; root needs no permission.
    servers = [users, serve_hubs(agent, [runtime.listen("hub.sock", socket.SOCK_STREAM, 0o600, hub_uid)], token)]
    if port is not None:
        servers.append(serve_hubs(agent, port.sockets, port.token or token, port.tls))
        log.info("hubs on other nodes may ask at %s", port.url)
    for device in agent.book.devices:
        log.info("device %d: %s, %s, %d MiB", device.index, device.uuid, device.name, device.total_bytes >> 20)
    if not agent.is_isolated:
        log.warning("demo, not isolated: not running as root, so tenants of the same user could interfere")
    log.info("serving %d claims in %s", len(agent.book.claims), runtime.path)
    _tell_systemd("READY=1")
    try:
        await stop.wait()
    finally:
        _tell_systemd("STOPPING=1")
        for server in servers:
            server.stop()
            await server.close_all_connections()
        await agent.stop()
        log.info("stopped")
