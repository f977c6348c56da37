"""What a start asks of the agent and of the ledger's database, counted: with a real agent and a real ledger."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import AgentUnreachableError
from jupyter_vgpu.hub.admission import Ask
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.hub.queue import WaitingRoom
from jupyter_vgpu.ledger import Ledger
from jupyter_vgpu.quotas import parse_quotas

QUARTER, WHOLE = parse_profiles({"1/4 GPU": {"share": "1/4"}, "whole GPU": {"backend": "whole"}})
LOOK_AGAIN_SECONDS = 0.05
GENEROUS_SECONDS = 120.0
UID = os.getuid()
BATCH = "POST /v1/claims/batch"


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

    def __init__(self, runtime_dir: Path, folder: Path, client: type[CountedClient] = CountedClient) -> None:
        self.ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")
        self.client: Any = client(runtime_dir, timeout_seconds=60)
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
async def test_those_who_are_served_by_one_look_are_let_in_by_one_commit_and_asked_for_by_one_question(
    room: Room,
) -> None:
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
    assert {question: count for question, count in asked.items() if question.startswith("POST")} == {BATCH: 1}
    transactions = [list(group) for is_end, group in groupby(done, lambda one: one == "commit") if not is_end]
    letting_in = [one for one in transactions if "INSERT INTO vgpu_claims" in one]
    assert [one.count("INSERT INTO vgpu_claims") for one in letting_in] == [4]
    # What they got is written down at once too, and before that what was given back.
    assert [one.count("UPDATE vgpu_claims SET") for one in transactions if "UPDATE vgpu_claims SET" in one] == [1, 4]


@pytest.mark.asyncio
async def test_who_comes_while_another_claim_is_being_made_goes_together_with_who_else_does(
    room: Room, agent: Any
) -> None:
    devices = await room.desk.devices()
    asks = [Ask((user, ""), UID, QUARTER, devices=devices) for user in ("ada", "bob", "eve", "ada")]
    room.forget()

    agent.process.send_signal(signal.SIGSTOP)
    try:
        claims = room.desk.take_in_turn(asks[:1])
        while not room.client.asked:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        for ask in asks[1:]:
            claims += room.desk.take_in_turn([ask])
    finally:
        agent.process.send_signal(signal.SIGCONT)
    ended = await asyncio.gather(*claims, return_exceptions=True)
    done, asked = list(room.done), list(room.client.asked)
    await room.clear("ada", "bob", "eve")

    assert [getattr(end, "reason", "") for end in ended] == ["", "", "", "quota"]
    assert asked == ["POST /v1/claims", BATCH]
    assert done.count("commit") == 4, (
        done
    )  # who they are, and what they got, once for the first and once for the others


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
    users = [f"user-{number}" for number in range(20)]

    claims = room.desk.take_in_turn([Ask((user, ""), UID, QUARTER) for user in users])
    ended = await asyncio.gather(*claims, return_exceptions=True)

    assert [getattr(end, "reason", repr(end)) for end in ended] == ["agent-unreachable"] * 20
    assert room.client.asked == [BATCH]
    assert room.ledger.open_entries() == []
    (last,) = room.ledger.history("user-19")
    assert last.ended_because.startswith("agent-unreachable: ")
    room.ledger.close()


class Interrupted(CountedClient):
    """A client to whom something happens when the agent has made claims, and before their answer is read."""

    happens: Callable[[], None] = staticmethod(lambda: None)

    def _ask(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        answer = super()._ask(method, url, *args, **kwargs)
        if method == "POST":
            self.happens()
        return answer


async def taken(room: Room, users: list[str]) -> list[str]:
    """Return how it ended when all of `users` were served together."""
    devices = await room.desk.devices()
    asks = [Ask((user, ""), UID, QUARTER, devices=devices) for user in users]
    ended = await asyncio.gather(*room.desk.take_in_turn(asks), return_exceptions=True)
    return [getattr(end, "reason", repr(end)) for end in ended]


@pytest.mark.asyncio
@pytest.mark.parametrize("users", [["ada"], ["ada", "bob", "eve"]], ids=["one", "several together"])
async def test_what_cannot_be_written_down_is_given_back(agent: Any, tmp_path: Path, users: list[str]) -> None:
    room = Room(agent.runtime_dir, tmp_path, Interrupted)
    file, away = tmp_path / "ledger.sqlite", tmp_path / "away"
    room.client.happens = lambda: file.rename(away) and None

    ended = await taken(room, users)

    assert ended == ["ledger"] * len(users)
    assert agent.claims() == []
    away.rename(file)
    assert {entry.state for entry in room.ledger.open_entries()} == {"pending"}
    assert await room.desk.reconcile(dict)
    assert room.ledger.open_entries() == []
    room.ledger.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("users", [["ada"], ["ada", "bob", "eve"]], ids=["one", "several together"])
async def test_claims_of_which_the_hub_has_not_heard_are_found_and_released(
    agent: Any, tmp_path: Path, users: list[str]
) -> None:
    """As when the hub ends, or the answer is lost, between the agent's making them and their being written down."""
    room = Room(agent.runtime_dir, tmp_path, Interrupted)

    def lost() -> None:
        raise AgentUnreachableError("the answer is lost")

    room.client.happens = lost
    ended = await taken(room, users)
    held = sorted(claim["tenant"] for claim in agent.claims())
    reconciled = await room.desk.reconcile(dict)

    assert ended == ["agent-unreachable"] * len(users)
    assert (held, reconciled) == (users, True)
    assert (agent.claims(), room.ledger.open_entries()) == ([], [])
    room.ledger.close()


@pytest.mark.asyncio
async def test_who_waits_on_because_an_answer_is_lost_is_not_kept_out_by_what_was_granted(
    agent: Any, tmp_path: Path
) -> None:
    """As when an agent takes longer than its hub waits: its claims took all the room that their users waited for."""
    room = Room(agent.runtime_dir, tmp_path, Interrupted)
    users = [f"user-{number}" for number in range(4)]
    await room.waiting.claim(("all", ""), UID, WHOLE)
    starts = [asyncio.ensure_future(room.waiting.claim((user, ""), UID, QUARTER)) for user in users]
    while any(room.waiting.position((user, "")) is None for user in users):
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    lost: list[int] = []

    def lose_the_first() -> None:
        lost.append(1)
        if len(lost) == 1:
            raise AgentUnreachableError("the answer is lost")

    room.client.happens = lose_the_first
    await room.clear("all")
    turns = await asyncio.wait_for(asyncio.gather(*starts), GENEROUS_SECONDS)
    held = {claim["claim"] for claim in agent.claims()}
    await room.clear(*users)

    assert {turn.granted.claim["claim"] for turn in turns} == held
    assert (len(held), agent.claims()) == (4, [])
    room.ledger.close()


class Older(CountedClient):
    """A client of an agent that does not know of batches yet, and says so."""

    def _ask(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        url = url.replace("batch", "no-such-path/batch")
        return super()._ask(method, url, *args, **kwargs)


@pytest.mark.asyncio
async def test_an_older_agent_is_asked_for_one_after_the_other(agent: Any, tmp_path: Path) -> None:
    room = Room(agent.runtime_dir, tmp_path, Older)
    users = ["ada", "bob", "eve"]

    ended = await taken(room, users)
    held = sorted(claim["tenant"] for claim in agent.claims())
    await room.clear(*users)

    assert all("GrantedClaim" in end for end in ended)
    assert held == users
    room.ledger.close()
