"""The desk by itself, at a real agent: what it makes of claims that an earlier hub left behind half made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.ledger import Ledger

(QUARTER,) = parse_profiles({"1/4 GPU": {"share": "1/4"}})


@pytest.fixture
def ledger(agent: Any, tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", "a hub of this test")
    yield opened
    for claim in agent.claims():
        if claim["hub"] == opened.hub_name:
            agent.client.release_claim(claim["claim"])
    opened.close()


def take(agent: Any, ledger: Ledger, *keys: tuple[str, str]) -> None:
    async def all_of_them() -> None:
        desk = ClaimDesk(agent.client, ledger, "node")
        for key in keys:
            await desk.take(key, os.getuid(), QUARTER)

    asyncio.run(all_of_them())


def test_a_claim_that_was_granted_and_not_written_down_is_given_back_before_another_is_made(
    agent: Any, ledger: Ledger
) -> None:
    """CASES 51, to the millisecond: the hub was killed between the agent's answer and the ledger."""
    ledger.open_entry("ada", "", "ada", "1/4 GPU", "node")
    torn = agent.make_claim("ada", ledger.hub_name)

    take(agent, ledger, ("ada", ""))

    held = [claim["claim"] for claim in agent.claims() if claim["tenant"] == "ada"]
    assert len(held) == 1
    assert torn not in held
    assert [entry.claim_id for entry in ledger.open_entries()] == held


def test_what_another_server_or_another_hub_holds_is_left_alone(agent: Any, ledger: Ledger) -> None:
    ledger.open_entry("ada", "", "ada", "1/4 GPU", "node")
    others = [agent.make_claim("ada/two", ledger.hub_name), agent.make_claim("ada", "another hub")]

    take(agent, ledger, ("ada", ""))

    assert set(others) < {claim["claim"] for claim in agent.claims()}
    agent.client.release_claim(others[1])


def test_a_second_start_gives_back_what_the_first_held(agent: Any, ledger: Ledger) -> None:
    take(agent, ledger, ("ada", ""), ("ada", ""))

    assert agent.tenants() == ["ada"]
    assert [entry.ended_because for entry in ledger.history("ada")] == ["superseded by a new start", ""]
