"""Who follows a slice is answered when its use changes, and need not ask again and again."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.client import SliceFollower, UsageInfo
from jupyter_vgpu.client.asking import UnixConnection
from jupyter_vgpu.errors import UnknownClaimError

Ask = Callable[..., Any]

TIMEOUT_SECONDS = 60.0
WAIT_SECONDS = 30.0
SHORT_SECONDS = 1.0
MOST_ANSWERS = 60


def follower_of(granted: Any) -> SliceFollower:
    env = granted.edits.env
    return SliceFollower(env["JUPYTER_VGPU_API"], env["JUPYTER_VGPU_SECRET"], TIMEOUT_SECONDS)


def untimed(usage: UsageInfo) -> dict[str, Any]:
    """Return all but the time, and when the slice was last verified."""
    return {**usage, "time": 0, "enforced_by": {**usage["enforced_by"], "verified_at": 0}}


async def settle(follower: SliceFollower) -> tuple[UsageInfo, UsageInfo]:
    """Ask until an answer says nothing new and was kept back for all the time it may be; return it and the one before.

    What has changed at the very end of that time is in an answer too.
    """
    before = await follower.usage()
    for _ in range(MOST_ANSWERS):
        usage = await follower.usage(SHORT_SECONDS)
        if usage["time"] - before["time"] >= SHORT_SECONDS and untimed(usage) == untimed(before):
            return before, usage
        before = usage
    raise AssertionError(f"no answer was kept back, the last was {before}")


def test_an_answer_that_says_nothing_new_is_kept_back(agent: Any) -> None:
    before, usage = asyncio.run(settle(follower_of(agent.claim())))

    assert untimed(usage) == untimed(before)
    assert usage["time"] - before["time"] >= SHORT_SECONDS


def test_an_answer_comes_with_what_has_changed(agent: Any, attach: Ask) -> None:
    granted = agent.claim()

    async def attach_meanwhile() -> tuple[UsageInfo, UsageInfo, Any]:
        follower = follower_of(granted)
        _, before = await settle(follower)
        asked = asyncio.create_task(follower.usage(WAIT_SECONDS))
        attached = await asyncio.to_thread(attach, agent, granted)
        return before, await asked, attached

    before, after, _ = asyncio.run(attach_meanwhile())

    assert before["processes"] == []
    assert len(after["processes"]) == 1
    assert after["time"] - before["time"] < WAIT_SECONDS


def test_what_changed_before_the_question_is_answered_at_once(agent: Any, attach: Ask) -> None:
    granted = agent.claim()

    async def attach_before() -> tuple[UsageInfo, UsageInfo, Any]:
        follower = follower_of(granted)
        _, before = await settle(follower)
        attached = await asyncio.to_thread(attach, agent, granted)
        return before, await follower.usage(WAIT_SECONDS), attached

    before, after, _ = asyncio.run(attach_before())

    assert len(after["processes"]) == 1
    assert after["time"] - before["time"] < WAIT_SECONDS


def test_a_release_ends_the_wait(agent: Any) -> None:
    granted = agent.claim()

    async def release_meanwhile() -> None:
        follower = follower_of(granted)
        await settle(follower)
        asked = asyncio.create_task(follower.usage(WAIT_SECONDS))
        await asyncio.to_thread(agent.hub.release_claim, granted.claim["claim"])
        await asked

    with pytest.raises(UnknownClaimError):
        asyncio.run(release_meanwhile())


def test_who_hangs_up_meanwhile_harms_nobody(own_agent: Any, attach: Ask) -> None:
    granted = own_agent.claim()

    async def hang_up() -> UsageInfo:
        followers = [follower_of(granted) for _ in range(3)]
        for follower in followers:
            await settle(follower)
        asked = [asyncio.create_task(follower.usage(WAIT_SECONDS)) for follower in followers]
        for task in asked[:2]:
            task.cancel()
        await asyncio.wait(asked[:2])
        attached = await asyncio.to_thread(attach, own_agent, granted)
        assert attached is not None
        return await asked[2]

    after = asyncio.run(hang_up())

    assert len(after["processes"]) == 1
    assert "Traceback" not in own_agent.log


@pytest.mark.parametrize("wait", ["-1", "31", "nan", "inf", "soon", "1e9"])
def test_a_wait_that_is_none_is_refused(agent: Any, wait: str) -> None:
    env = agent.claim().edits.env
    connection: http.client.HTTPConnection = UnixConnection(Path(env["JUPYTER_VGPU_API"]), TIMEOUT_SECONDS)

    headers = {"Authorization": f"Bearer {env['JUPYTER_VGPU_SECRET']}"}
    connection.request("GET", f"/v1/usage?unlike=x&wait_seconds={wait}", headers=headers)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()

    assert answer.status == 400
    assert body["error"] == "bad-value"
    assert repr(wait) in body["message"]
    assert "from 0 to 30" in body["message"]
