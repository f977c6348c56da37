"""Write into the ledger what claims use, a few times a minute, summed by the hour."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import datetime, timezone

from jupyter_vgpu.client import UsageInfo
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.ledger import Part, Reading, parts_between
from jupyter_vgpu.service.holdings import Held
from jupyter_vgpu.service.lookout import Lookout

log = logging.getLogger(__name__)

_TIDY_SECONDS = 3600.0
# What is held between two readings that are further apart than this many samples is not known.
_GAP_SAMPLES = 20


def reading_of(usage: UsageInfo) -> Reading:
    """Return a claim's counters, summed over its devices."""
    devices = usage["devices"]
    return Reading(
        at=usage["time"],
        gpu_seconds=sum(device["gpu_time_seconds"] for device in devices),
        waited_seconds=sum(device["waited_seconds"] for device in devices),
        memory_bytes=sum(device["memory_used_bytes"] for device in devices),
    )


def samples(
    held: Mapping[str, Held],
    usages: Mapping[str, UsageInfo],
    before: Mapping[int, Reading],
    agent_started_at: float,
    longest_gap_seconds: float,
) -> list[tuple[int, Reading, list[Part]]]:
    """Return what to write down: entry, its new reading, and what was used since the one before.

    Args:
        held: Claims by their ids; those that the ledger does not know are left out.
        usages: What they use now.
        before: The last reading of each entry. One that has none began with its claim, at nothing.
        agent_started_at: Since when the agent counts, Unix seconds; it counts from nothing again when it is restarted.
        longest_gap_seconds: See `parts_between`.
    """
    found = []
    for claim_id, usage in usages.items():
        one = held.get(claim_id)
        if one is None or one.entry_id is None:
            continue
        last = before.get(one.entry_id) or Reading(one.since_at, 0.0, 0.0, 0)
        now = reading_of(usage)
        parts = parts_between(last, now, agent_started_at > last.at, longest_gap_seconds)
        found.append((one.entry_id, now, parts))
    return found


class Sampler:
    """Samples for ever; what fails is logged once and tried again."""

    def __init__(self, lookout: Lookout, sample_seconds: float) -> None:
        """Take where to look and how often."""
        self._lookout = lookout
        self._sample_seconds = sample_seconds
        self._before: dict[int, Reading] | None = None
        self._tidied_at = float("-inf")
        self._trouble = ""

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            try:
                await self.sample()
                await self._tidy()
                self._trouble = ""
            except VGPUError as error:
                self._before = None  # whether it was written down is not known: look
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    log.warning("what claims use cannot be written down now: %s", error)
            except Exception:
                self._before = None
                log.exception("sampling failed; trying again")
            await asyncio.sleep(self._sample_seconds)

    async def sample(self) -> None:
        """Take one sample.

        Raises:
            VGPUError: The agent or the ledger does not answer; what was used meanwhile is in the next sample.
        """
        if self._before is None:
            self._before = await self._lookout.in_ledger(lambda ledger: ledger.usage.last_readings)
        client = self._lookout.client
        healths = await asyncio.to_thread(client.healths)
        overview = await self._lookout.look(0)
        held = {one.claim: one for one in overview.held if not one.hub}
        gap_seconds = self._sample_seconds * _GAP_SAMPLES
        found = []
        for node, health in healths.items():
            usages = {claim: usage for claim, usage in self._lookout.usages.items() if client.node_of(claim) == node}
            found += samples(held, usages, self._before, health["started_at"], gap_seconds)
        await self._lookout.in_ledger(lambda ledger: ledger.usage.record, found)
        self._before.update({entry_id: reading for entry_id, reading, _ in found})

    async def _tidy(self) -> None:
        if time.monotonic() - self._tidied_at > _TIDY_SECONDS:
            await self._lookout.in_ledger(lambda ledger: ledger.usage.tidy, datetime.now(timezone.utc))
            self._tidied_at = time.monotonic()
            self._before = None  # forget those that have ended
