"""What a start asks of the agent and of the ledger's database, counted: with a real agent and a real ledger."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.hub.admission import Ask
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.hub.queue import WaitingRoom
from jupyter_vgpu.ledger import Ledger
from jupyter_vgpu.quotas import parse_quotas

QUARTER, WHOLE = parse_profiles({"1/4 GPU": {"share": "1/4"}, "whole GPU": {"backend": "whole"}})
LOOK_AGAIN_SECONDS = 0.05
UID = os.getuid()


class CountedClient(HubClient):
    """A client of the agent that notes each question."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.asked: list[str] = []

    def _ask(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(f"{method} {url}")
        return super()._ask(method, url, *args, **kwargs)


class Room:
    """A queue at a real agent, and what is done in its ledger: each statement by its first words, and `commit`."""

    def __init__(self, runtime_dir: Path, folder: Path) -> None:
        self.ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")
        self.client = CountedClient(runtime_dir, timeout_seconds=60)
        self.desk = ClaimDesk(self.client, self.ledger, "here", parse_quotas({"everyone": {"slices": 1}}))
        self.waiting = WaitingRoom(self.desk, timeout_seconds=600.0)
        self.done: list[str] = []
        engine = self.ledger._engine
        event.listen(engine, "commit", lambda connection: self.done.append("commit"))
        event.listen(
            engine,
            "after_cursor_execute",
            lambda connection, cursor, statement, *_: self.done.append(" ".join(statement.split()[:3])),
        )

    def forget(self) -> None:
        """Count from here on."""
        self.done.clear()
        self.client.asked.clear()

    async def clear(self, *users: str) -> None:
        """Give back what users hold."""
        for user in users:
            await self.desk.give_back((user, ""), "", "the test is over")


@pytest.fixture
def room(agent: Any, tmp_path: Path) -> Iterator[Room]:
    """Return a queue at the agent of the run."""
    room = Room(agent.runtime_dir, tmp_path)
    yield room
    room.ledger.close()


@pytest.mark.asyncio
async def test_a_start_that_need_not_wait_asks_the_agent_twice_and_commits_three_times(room: Room) -> None:
    await room.waiting.claim(("ada", ""), UID, QUARTER)
    counts, asked = Counter(room.done), room.client.asked
    await room.clear("ada")

    assert asked[:2] == ["GET /v1/devices", "POST /v1/claims"]
    assert counts["commit"] == 3, room.done  # what it held; who it is, and that quotas let it; what it got
    assert counts.total() - counts["commit"] == 6, room.done


@pytest.mark.asyncio
async def test_those_who_are_served_by_one_look_are_let_in_by_one_commit(room: Room) -> None:
    users = [f"user-{number}" for number in range(4)]
    await room.waiting.claim(("all", ""), UID, WHOLE)
    starts = [asyncio.ensure_future(room.waiting.claim((user, ""), UID, QUARTER)) for user in users]
    while any(room.waiting.position((user, "")) is None for user in users):
        await asyncio.sleep(LOOK_AGAIN_SECONDS)

    room.forget()
    await room.clear("all")
    turns = await asyncio.gather(*starts)
    done, asked = list(room.done), Counter(room.client.asked)
    await room.clear(*users)

    assert len({turn.granted.claim["claim"] for turn in turns}) == 4
    assert asked["POST /v1/claims"] == 4
    transactions = [list(group) for is_end, group in groupby(done, lambda one: one == "commit") if not is_end]
    letting_in = [one for one in transactions if "INSERT INTO vgpu_claims" in one]
    assert [one.count("INSERT INTO vgpu_claims") for one in letting_in] == [4]
    assert sum("UPDATE vgpu_claims SET" in one for one in transactions) == 5  # what each got, and what was given back


@pytest.mark.asyncio
async def test_who_is_served_with_others_and_may_have_no_more_is_refused_and_the_others_are_not(room: Room) -> None:
    users = [f"user-{number}" for number in range(3)]
    await room.waiting.claim(("all", ""), UID, WHOLE)
    starts = [asyncio.ensure_future(room.waiting.claim((user, ""), UID, QUARTER)) for user in users]
    second = asyncio.ensure_future(room.waiting.claim(("user-1", "second"), UID, QUARTER))
    keys = [*((user, "") for user in users), ("user-1", "second")]
    while any(room.waiting.position(key) is None for key in keys):
        await asyncio.sleep(LOOK_AGAIN_SECONDS)

    await room.clear("all")
    ended = await asyncio.gather(*starts, second, return_exceptions=True)
    held = {entry.user for entry in await room.desk.in_ledger(room.ledger.open_entries)}
    await room.clear(*users)
    await room.desk.give_back(("user-1", "second"), "", "the test is over")

    refused = [end for end in ended if isinstance(end, BaseException)]
    assert [getattr(error, "reason", repr(error)) for error in refused] == ["quota"]
    assert held == set(users)


@pytest.mark.asyncio
async def test_where_no_agent_answers_those_after_are_not_asked_for_and_hold_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path / "nobody-is-there", tmp_path)
    users = [f"user-{number}" for number in range(3)]

    claims = room.desk.take_in_turn([Ask((user, ""), UID, QUARTER) for user in users])
    ended = await asyncio.gather(*claims, return_exceptions=True)

    assert [getattr(end, "reason", repr(end)) for end in ended] == ["agent-unreachable"] * 3
    assert room.client.asked == ["POST /v1/claims"]
    assert room.ledger.open_entries() == []
    (last,) = room.ledger.history("user-2")
    assert last.ended_because == "not asked for: agent-unreachable"
    room.ledger.close()
