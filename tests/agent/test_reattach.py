"""The agent hangs, dies and comes back under working tenants: nothing is forgotten, and limits hold at every moment."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.sim import create_boards

GIB, MIB = 1 << 30, 1 << 20
CONTEXT = 450 * MIB  # jupyter_vgpu/boards/a100-80.json
STALE_SECONDS = 2.0  # native/src/attach.c: without a heartbeat for so long a process looks for another agent
PATIENCE_SECONDS = 60.0
Start = Callable[..., Any]


@pytest.fixture
def agent_on_board(agent_with: Callable[..., AbstractContextManager[Any]], tmp_path: Path) -> Iterator[Any]:
    """An agent on a board that outlives it, as a real one does."""
    with agent_with(board=create_boards(tmp_path / "board.sim", "a100-80")) as agent:
        yield agent


def ten_gib(agent: Any) -> Any:
    return agent.claim(share="1/4", memory="10GiB")


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return answer


def granted_bytes(agent: Any, granted: Any) -> dict[int, int]:
    """Return what each attached process says it holds."""
    usage = agent.hub.usage(granted.claim["claim"])
    return {process["pid"]: process["devices"][0]["memory_bytes"] for process in usage["processes"]}


def replace(agent: Any) -> None:
    """Kill the agent at whatever it is, and start the next at once."""
    agent.end(signal.SIGKILL)
    agent.start()


def test_an_agent_that_was_only_slow_forgets_nothing(own_agent: Any, device_user: Start) -> None:
    """Catches a bug where a process that looked for a new agent, and found the old one, lost what it held."""
    granted = ten_gib(own_agent)
    user = device_user(granted)
    assert user.asked(f"hold {5 * GIB}") == "held"

    os.kill(own_agent.pid, signal.SIGSTOP)
    try:
        time.sleep(STALE_SECONDS + 0.2)
        user.tell(f"hold {6 * GIB}")  # it misses the heartbeat, and asks
        time.sleep(0.3)
    finally:
        os.kill(own_agent.pid, signal.SIGCONT)

    assert user.answer() == "refused"
    assert granted_bytes(own_agent, granted) == {user.pid: 5 * GIB}
    assert user.asked("give") == "given"
    assert granted_bytes(own_agent, granted) == {user.pid: 0}
    assert own_agent.user(granted).events() == []


def test_what_an_idle_process_holds_is_counted_before_anyone_else_is_let_in(
    agent_on_board: Any, device_user: Start, attach: Start
) -> None:
    """Catches a bug where a new process had the whole limit to itself until the idle one made a call."""
    granted = ten_gib(agent_on_board)
    idle = device_user(granted)
    assert idle.asked(f"hold {5 * GIB}") == "held"

    replace(agent_on_board)
    attach(agent_on_board, granted)  # waits for the door as long as that takes on a busy machine; a program, 8 s
    newcomer = device_user(granted)

    assert newcomer.asked(f"hold {5 * GIB}") == "refused"
    assert newcomer.asked(f"hold {4 * GIB - CONTEXT}") == "held"


def test_a_process_that_moves_to_a_new_page_is_neither_counted_twice_nor_not_at_all(
    agent_on_board: Any, device_user: Start, attach: Start
) -> None:
    granted = ten_gib(agent_on_board)
    user = device_user(granted)
    assert user.asked(f"hold {5 * GIB}") == "held"

    replace(agent_on_board)
    attach(agent_on_board, granted)  # so the next agent lets processes in
    # The first call that it makes there is refused or answered by what it held before.
    answers = [user.asked(f"hold {5 * GIB}"), user.asked(f"hold {4 * GIB - CONTEXT}")]

    assert granted_bytes(agent_on_board, granted)[user.pid] == 9 * GIB - CONTEXT
    assert answers == ["refused", "held"]
    assert user.asked(f"hold {GIB + 2 * MIB}") == "refused"
    assert user.asked("give") == "given"
    assert granted_bytes(agent_on_board, granted)[user.pid] == 0


def is_at_the_door() -> bool:
    """Return whether a program that this process has started is about to ask for a device, or has."""
    mine = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    maps = [Path(f"/proc/{pid}/maps") for children in mine for pid in children.read_text().split()]
    with contextlib.suppress(OSError):  # one that has ended meanwhile
        return any("/libcuda.so.1" in each.read_text() for each in maps)
    return False


def test_a_program_that_starts_while_the_agent_is_away_waits_for_the_next(
    agent_on_board: Any, device_user: Start
) -> None:
    """It waits for eight seconds, which an agent on a busy machine may take to start: the next one is there already."""
    granted = ten_gib(agent_on_board)
    door = agent_on_board.attach_socket
    agent_on_board.end(signal.SIGKILL)
    left, next_door = door.with_name("left"), door.with_name("next")
    os.link(door, left)
    agent_on_board.start()
    os.link(door, next_door)
    left.rename(door)

    with ThreadPoolExecutor(1) as meanwhile:
        starting = meanwhile.submit(device_user, granted)
        until(is_at_the_door, "the program has opened the driver")
        time.sleep(0.2)  # so that it has looked, as a rule; the answer is the same if not
        next_door.rename(door)
        user = starting.result(PATIENCE_SECONDS)

    assert user.asked(f"hold {GIB}") == "held"


def test_no_byte_is_lost_when_threads_allocate_and_free_while_their_process_moves(
    agent_on_board: Any, device_user: Start
) -> None:
    granted = ten_gib(agent_on_board)
    user = device_user(granted)

    replace(agent_on_board)

    def has_moved_at_work() -> bool:
        assert int(user.asked(f"churn 1 4 {64 * MIB}")) > 0
        return user.pid in granted_bytes(agent_on_board, granted)

    # Whichever thread comes first once the next agent lets processes in takes all along, in the midst of their work.
    until(has_moved_at_work, "it is in the new page")
    # The next call carries over what came late into the page that was left.
    assert user.asked(f"hold {2 * MIB}") == "held"
    assert granted_bytes(agent_on_board, granted) == {user.pid: 2 * MIB}
    # What NVML saw while memory came and went is believed less and less; then all of the slice is there again.
    until(lambda: user.asked(f"hold {10 * GIB - CONTEXT - 2 * MIB}") == "held", "all that is free can be had")


def test_the_limit_holds_at_every_moment_while_agents_come_and_go(agent_on_board: Any, device_user: Start) -> None:
    """Three processes take and give back in turns, through a restart, until all are in the new pages."""
    seed = random.randrange(1 << 30)
    dice = random.Random(seed)
    granted = ten_gib(agent_on_board)
    users = [device_user(granted) for _ in range(3)]
    held = {user.pid: 0 for user in users}

    def take_turns(is_over: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_over():
            assert time.monotonic() < deadline
            user = dice.choice(users)
            size = dice.randrange(1, 6) * GIB
            if dice.random() < 0.3:
                assert user.asked("give") == "given"
                held[user.pid] = 0
            elif user.asked(f"hold {size}") == "held":
                held[user.pid] += size
            assert sum(held.values()) <= 10 * GIB, (held, seed)

    take_turns(lambda: sum(held.values()) >= 6 * GIB)
    replace(agent_on_board)
    take_turns(lambda: len(granted_bytes(agent_on_board, granted)) == len(users))

    assert granted_bytes(agent_on_board, granted) == held
