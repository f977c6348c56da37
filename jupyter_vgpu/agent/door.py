"""The door that tenants' processes come in by: when it is opened, and shut."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Sequence

from jupyter_vgpu.agent.attach import AttachServer, Decider
from jupyter_vgpu.agent.oversight import Oversight
from jupyter_vgpu.agent.runtime import BACKLOG
from jupyter_vgpu.agent.tenant import Tenant

log = logging.getLogger(__name__)

# After this long without a heartbeat a process looks for another agent before it takes any more (native/src/attach.c).
STALE_SECONDS = 2.0
# For a process put aside between its look at the heartbeat and what it then took; and for what is in the driver.
_MARGIN_SECONDS = 0.5
_IN_DRIVER_SECONDS = 0.2
_FIRST_LOOK_SECONDS = 1.5


class Door:
    """The attach socket of one agent."""

    def __init__(self, listener: socket.socket, decide: Decider) -> None:
        """Keep a bound socket that does not listen yet, and who says what those who come are given."""
        self._listener = listener
        self._decide = decide
        self._server: AttachServer | None = None
        self._opening: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Let tenants' processes attach."""
        self._listener.listen(BACKLOG)
        self._server = AttachServer(asyncio.get_running_loop(), self._listener, self._decide)

    def open_after_another(
        self, taken_at: float, oversight: Oversight | None, tenants: Callable[[], Sequence[Tenant]]
    ) -> None:
        """Let tenants' processes attach once nothing is granted any more that this agent would not know of.

        Processes of an earlier agent's time grant themselves memory by its pages until they miss its heartbeat; from
        then on they come here first. So nobody is given a page of this agent's before they do, and before what they
        have is known and counted. Who comes meanwhile tries again, or waits in the socket's queue.

        Args:
            taken_at: When the runtime directory was taken over, monotonic seconds.
            oversight: Who asks NVML what processes have; `None` = nobody does.
            tenants: Whose processes may be there still.
        """
        self._opening = asyncio.get_running_loop().create_task(self._wait_and_open(taken_at, oversight, tenants))

    async def _wait_and_open(
        self, taken_at: float, oversight: Oversight | None, tenants: Callable[[], Sequence[Tenant]]
    ) -> None:
        try:
            await asyncio.sleep(max(0.0, taken_at + STALE_SECONDS + _MARGIN_SECONDS - time.monotonic()))
            self._listener.listen(BACKLOG)
            since = time.monotonic() + _IN_DRIVER_SECONDS
            of_before = tenants()
            while oversight is not None and not all(oversight.has_seen(each, since) for each in of_before):
                if time.monotonic() - since > _FIRST_LOOK_SECONDS:
                    log.warning("NVML does not say what processes have; those of before are counted once they attach")
                    break
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            self._listener.close()
            raise
        self.open()

    async def shut(self) -> None:
        """Let nobody in any more."""
        if self._opening is not None:
            self._opening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._opening
        if self._server is not None:
            self._server.close()
