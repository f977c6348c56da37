"""The desk itself, with a real agent and a real ledger, where a hub could not be stopped at the right moment."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.ledger import Ledger

(QUARTER,) = parse_profiles({"1/4 GPU": {"share": "1/4"}})
KEY = ("late-claimant", "")


@pytest.mark.asyncio
async def test_a_start_that_is_given_up_while_its_claim_is_being_made_gives_it_back(agent: Any, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    desk = ClaimDesk(HubClient(agent.runtime_dir, timeout_seconds=60), ledger, "here")
    devices = await desk.devices()

    agent.process.send_signal(signal.SIGSTOP)
    try:
        start = asyncio.ensure_future(desk.take(KEY, os.getuid(), QUARTER, devices=devices))
        while not await desk.in_ledger(ledger.open_entries, *KEY):
            await asyncio.sleep(0.05)
        start.cancel()
    finally:
        agent.process.send_signal(signal.SIGCONT)
    await desk.give_back(KEY, "", "its start did not come to an end")

    assert agent.claims() == []
    (entry,) = ledger.history("late-claimant")
    assert [kind for _, kind, _ in ledger.events(entry.entry_id)] == ["requested", "bound", "released"]
    assert entry.ended_because == "its start did not come to an end"
    ledger.close()
