"""A look at some seconds of scheduling: what the governor saw and did, as records."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.client import TraceInfo, TraceRunnerInfo
from jupyter_vgpu.errors import BadValueError, BusyError
from jupyter_vgpu.steering import Record, Steering

MOST_SECONDS = 30.0
# The ring holds a good deal more than what happens in this time.
_TAKE_SECONDS = 0.2


class Tracer:
    """Keeps records for one caller at a time."""

    def __init__(self, agent: Agent) -> None:
        """Trace what `agent` governs."""
        self._agent = agent
        self._is_tracing = False

    async def trace(self, seconds: float) -> TraceInfo:
        """Return what happens in the next `seconds`, 0.01..30.

        Raises:
            BadValueError: Not that long; or the agent leaves GPU time to the driver, so that nothing is decided.
            BusyError: Another trace is being made.
        """
        if not 0.01 <= seconds <= MOST_SECONDS:
            raise BadValueError("seconds", seconds, f"0.01 to {MOST_SECONDS:g} are")
        steering = self._agent.steering
        if steering is None:
            raise BadValueError("trace", seconds, "only where an agent governs is (it was started with --time driver)")
        records: list[Record] = []
        lost = 0
        with self._recording(steering):
            loop = asyncio.get_running_loop()
            until = loop.time() + seconds
            while (left := until - loop.time()) > 0:
                await asyncio.sleep(min(left, _TAKE_SECONDS))
                more, missed = steering.take()
                records += more
                lost += missed
        return {
            "seconds": seconds,
            "lost": lost,
            "runners": self._runners(steering),
            "records": [(record.time_ns, record.runner, record.kind, record.value_ns) for record in records],
        }

    @contextlib.contextmanager
    def _recording(self, steering: Steering) -> Iterator[None]:
        if self._is_tracing:
            raise BusyError("another trace is being made; try again when it is done")
        self._is_tracing = True
        steering.record(True)
        try:
            yield
        finally:
            steering.record(False)
            self._is_tracing = False

    def _runners(self, steering: Steering) -> list[TraceRunnerInfo]:
        tenants = {id(tenant.pages): tenant for tenant in self._agent.all_tenants()}
        return [
            {
                "runner": number,
                "claim": tenant.claim.claim_id,
                "tenant": tenant.claim.tenant,
                "profile": tenant.claim.profile_name,
                "uuid": tenant.claim.grants[index].uuid,
            }
            for number, (pages, index) in steering.numbers.items()
            if (tenant := tenants.get(id(pages))) is not None
        ]
