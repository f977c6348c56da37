"""Who uses a device without the library is found, and whose process it is. CASES 1."""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from jupyter_vgpu.agent.runtime import RuntimeDir
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import NoDriverError
from jupyter_vgpu.model import ClaimRequest, Device
from jupyter_vgpu.nvml import Nvml
from jupyter_vgpu.sim import create_boards

GIB = 1 << 30
NOBODY = 65534
SLICE = ("LD_PRELOAD", "JUPYTER_VGPU_SECRET", "JUPYTER_VGPU_SOCKET", "JUPYTER_VGPU_API")
Start = Callable[..., Any]


def event(agent: Any, kind: str, pid: int) -> Any:
    """Return the event of a kind about a process; wait for it."""
    deadline = time.monotonic() + 60
    while True:
        found = [each for each in agent.hub.events() if each["kind"] == kind and each["pid"] == pid]
        if found:
            return found[0]
        assert time.monotonic() < deadline, agent.hub.events()
        time.sleep(0.02)


def said_of(agent: Any, granted: Any, kind: str) -> Any:
    """Return the first event of a kind about a claim; wait for it."""
    deadline = time.monotonic() + 60
    while not (found := [each for each in agent.user(granted).events() if each["kind"] == kind]):
        assert time.monotonic() < deadline, agent.hub.events()
        time.sleep(0.02)
    return found[0]


def until_drift(agent: Any, granted: Any, drift_bytes: int) -> None:
    deadline = time.monotonic() + 60
    while agent.user(granted).usage()["devices"][0]["memory_drift_bytes"] != drift_bytes:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def after_two_looks(agent: Any) -> None:
    """Let the audit look at claimed devices at least twice from now on."""
    looks = agent.looks()
    deadline = time.monotonic() + 60
    while agent.looks() < looks + 3:  # one may have been on its way
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def killing_agent(agent_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with agent_with("--on-bypass", "kill") as agent:
        yield agent


def test_processes_that_attach_are_never_flagged(agent: Any, device_user: Start) -> None:
    one, other = agent.claim("one"), agent.claim("other")
    before = agent.hub.events()

    users = [device_user(one), device_user(one), device_user(other)]
    assert [user.asked(f"hold {GIB}") for user in users] == ["held"] * 3
    after_two_looks(agent)

    assert agent.hub.events() == before


def test_a_process_that_dropped_the_library_is_its_tenants(agent: Any, device_user: Start) -> None:
    granted, other = agent.claim("one"), agent.claim("other")

    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))

    found = event(agent, "bypass", dropped.pid)
    assert found["claim"] == granted.claim["claim"]
    assert "without the library: it carries the slice's secret" in found["message"]
    assert agent.user(granted).events() == [found]
    assert agent.hub.events(granted.claim["claim"]) == [found]
    assert agent.user(other).events() == []


def test_it_is_flagged_on_a_device_it_was_not_granted_too(agent: Any, device_user: Start) -> None:
    granted = agent.claim()

    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=1 - agent.ordinal(granted))

    assert event(agent, "bypass", dropped.pid)["claim"] == granted.claim["claim"]


def test_a_child_without_any_of_the_environment_is_known_by_its_parent(agent: Any, device_user: Start) -> None:
    """`env -i python`, from a terminal in the slice."""
    granted = agent.claim()
    parent = device_user(granted)

    child = int(parent.asked(f"bare {agent.ordinal(granted)}"))

    found = event(agent, "bypass", child)
    assert found["claim"] == granted.claim["claim"]
    assert f"it descends from process {parent.pid}" in found["message"]
    os.kill(child, signal.SIGKILL)


def test_a_process_of_no_slice_is_a_stranger(agent: Any, device_user: Start) -> None:
    granted = agent.claim()

    stranger = device_user(granted, without=SLICE, ordinal=agent.ordinal(granted))

    found = event(agent, "stranger", stranger.pid)
    assert (found["claim"], "outside of any slice" in found["message"]) == (None, True)
    assert agent.user(granted).events() == []


def test_each_process_is_flagged_once(agent: Any, device_user: Start) -> None:
    granted = agent.claim()
    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))
    event(agent, "bypass", dropped.pid)

    after_two_looks(agent)

    assert len(agent.user(granted).events()) == 1


def test_by_policy_it_is_ended_and_nobody_else_is(killing_agent: Any, device_user: Start) -> None:
    agent = killing_agent
    granted = agent.claim()
    good = device_user(granted)
    stranger = device_user(granted, without=SLICE, ordinal=agent.ordinal(granted))
    event(agent, "stranger", stranger.pid)

    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))

    assert dropped.process.wait(60) == -signal.SIGKILL
    assert "ended process" in event(agent, "kill", dropped.pid)["message"]
    assert [user.asked(f"hold {GIB}") for user in (good, stranger)] == ["held", "held"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to claim for another user")
def test_a_process_of_another_user_than_the_slices_is_not_ended(killing_agent: Any, device_user: Start) -> None:
    agent = killing_agent
    granted = agent.claim(uid=NOBODY)

    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))

    assert f"it is uid 0's, and the slice uid {NOBODY}'s" in event(agent, "kill", dropped.pid)["message"]
    assert dropped.asked(f"hold {GIB}") == "held"


def test_reporting_ends_nothing(agent: Any, device_user: Start) -> None:
    granted = agent.claim()

    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))
    event(agent, "bypass", dropped.pid)

    assert dropped.asked(f"hold {GIB}") == "held"


def test_one_that_attached_to_an_earlier_agent_is_not_flagged(
    agent_with: Callable[..., AbstractContextManager[Any]], device_user: Start, tmp_path: Path
) -> None:
    """It idles, so it has not noticed yet that there is a new one; what it has is charged all the same."""
    board = create_boards(tmp_path / "board.sim", "a100-80")
    with agent_with(board=board) as agent:
        granted = agent.claim(share="1/4", memory="10GiB")
        idle = device_user(granted)
        assert idle.asked(f"hold {4 * GIB}") == "held"

        agent.end(signal.SIGKILL)
        agent.start()
        deadline = time.monotonic() + 60
        while (used := agent.hub.usage(granted.claim["claim"])["devices"][0]["memory_used_bytes"]) < 4 * GIB:
            assert time.monotonic() < deadline, used
            time.sleep(0.02)

        assert agent.hub.events() == []
        assert idle.asked(f"hold {GIB}") == "held"
        assert idle.asked(f"hold {6 * GIB}") == "refused"


def test_a_zeroed_usage_page_is_flagged(agent: Any, device_user: Start) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    liar, honest = device_user(granted), device_user(granted)
    assert [user.asked(f"hold {GIB}") for user in (liar, honest)] == ["held", "held"]
    after_two_looks(agent)
    before = len(agent.user(granted).events())

    assert liar.asked("spoil 0") == "spoilt"

    found = event(agent, "usage", liar.pid)
    assert "its page gives up 1.0 GiB that the driver still holds" in found["message"]
    assert (found["claim"], before) == (granted.claim["claim"], 0)


def test_a_page_full_of_nonsense_is_flagged_and_not_believed(agent: Any, device_user: Start) -> None:
    granted = agent.claim()
    liar = device_user(granted)

    assert liar.asked("spoil 255") == "spoilt"

    assert "more memory than the device has" in event(agent, "usage", liar.pid)["message"]


def test_more_memory_than_the_limit_is_said(agent: Any, device_user: Start) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))
    assert dropped.asked(f"hold {12 * GIB}") == "held"

    found = said_of(agent, granted, "excess")

    assert "and may have 10.0 GiB" in found["message"]
    assert dropped.asked("give") == "given", "by default it is only said"


def test_by_policy_the_process_that_has_most_beyond_what_it_was_granted_is_ended(
    agent_with: Callable[..., AbstractContextManager[Any]], device_user: Start
) -> None:
    with agent_with("--on-excess", "kill") as agent:
        granted = agent.claim(share="1/4", memory="10GiB")
        honest = device_user(granted)
        assert honest.asked(f"hold {4 * GIB}") == "held"

        def takes_too_much() -> Any:
            """Return a process whose page said little and that got what others have; `None`: the agent was quicker."""
            liar = device_user(granted)
            if liar.asked(f"hold {5 * GIB}") == "held":
                assert liar.asked("spoil 0") == "spoilt"
                if liar.asked(f"hold {4 * GIB}") == "held":
                    return liar
            liar.close()
            return None

        deadline = time.monotonic() + 120
        while (liar := takes_too_much()) is None:
            assert time.monotonic() < deadline, agent.hub.usage(granted.claim["claim"])

        said = said_of(agent, granted, "kill")

        assert liar.process.wait(60) == -signal.SIGKILL
        assert said["pid"] == liar.pid
        # That it is gone is seen by its parent first.
        wait_until(lambda: honest.asked(f"hold {GIB}") == "held", "what the dead one held is free again")


def test_drift_is_shown(own_agent: Any, attach: Start) -> None:
    """A page that says more than the device has given: charged all the same, and shown as less than charged.

    An agent of its own: this process attaches, and what it starts in another test would be its tenant's.
    """
    agent = own_agent
    granted = agent.claim(share="1/4", memory="10GiB")
    attach(agent, granted).write_use(held=3 * GIB)

    until_drift(agent, granted, -3 * GIB)

    assert f"{-3.0 * GIB}" in agent.metrics() or "-3.221225472e+09" in agent.metrics()


def test_events_are_counted_for_prometheus(agent: Any, device_user: Start) -> None:
    granted = agent.claim()
    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))
    event(agent, "bypass", dropped.pid)

    text = agent.metrics()

    labels = f'claim="{granted.claim["claim"]}",hub="hub",kind="bypass",tenant="alice"'
    assert f"jupyter_vgpu_claim_events_total{{{labels}}} 1.0" in text
    assert 'jupyter_vgpu_events_total{kind="kill"}' in text


def audited_or_why(tmp_path: Path, nvml: Nvml) -> tuple[bool, str]:
    """Return whether an agent with this NVML audits, and what stands in its way, once it has looked and beaten on."""
    device = Device("GPU-d35acab6-c5d2-5f98-8ea6-6e43bcb00c79", "board", 0, 80 * GIB, 108, "8.0", True, "580")

    async def serve() -> tuple[bool, str]:
        with tempfile.TemporaryDirectory(prefix="a") as folder:
            agent = Agent([device], RuntimeDir(Path(folder)), nvml=nvml)
            agent.start()
            try:
                profile = parse_profiles({"offer": {"share": "1/4"}})[0]
                granted = await agent.claim(ClaimRequest("alice", "hub", os.getuid(), profile))
                tenant = agent.tenant(granted.claim.claim_id)
                assert agent.oversight is not None
                beats: set[int] = set()
                deadline = time.monotonic() + 60
                while len(beats) < 4 or agent.oversight.looks == 0:
                    assert time.monotonic() < deadline, "the agent's heart goes on beating"
                    with mmap.mmap(tenant.pages.control_fd, 64, prot=mmap.PROT_READ) as page:
                        beats.add(int.from_bytes(page[24:32], sys.byteorder))
                    await asyncio.sleep(0.02)
                return agent.is_audited(tenant), agent.oversight.trouble
            finally:
                await agent.stop()

    return asyncio.run(serve())


def test_without_nvml_nothing_is_called_audited(tmp_path: Path) -> None:
    is_audited, trouble = audited_or_why(tmp_path, Nvml(tmp_path / "nowhere.so"))

    assert not is_audited
    assert "nowhere.so" in trouble


def test_a_stalled_nvml_stops_neither_the_agent_nor_its_end(tmp_path: Path) -> None:
    stuck = threading.Event()
    nvml = Nvml(tmp_path / "nowhere.so", timeout_seconds=0.1)
    with pytest.raises(NoDriverError):
        nvml._ask(stuck.wait)

    is_audited, trouble = audited_or_why(tmp_path, nvml)

    stuck.set()
    assert not is_audited
    assert "stuck in one call" in trouble
