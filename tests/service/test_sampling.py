"""What a claim's processes use reaches the ledger, and nothing is lost or counted twice when parts are restarted."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub import LocalInjector
from jupyter_vgpu.ledger import Ledger, Used
from jupyter_vgpu.model import ClaimRequest, Edits
from jupyter_vgpu.service.lookout import Lookout
from jupyter_vgpu.service.sampling import Sampler

DEVICE_USER = Path(__file__).parents[1] / "agent" / "device_user.py"
GIB = 1 << 30


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield ledger
    ledger.close()


@pytest.fixture
def edits(agent: Any, ledger: Ledger) -> Iterator[Edits]:
    """A quarter for ada, in agent and ledger; what its processes need."""
    (profile,) = parse_profiles({"1/4 GPU": {"share": "1/4"}})
    entry_id = ledger.open_entry("ada", "", "ada", profile.name, "node")
    granted = agent.hub.create_claim(ClaimRequest("ada", ledger.hub_name, os.getuid(), profile))
    ledger.bind(entry_id, granted.claim["claim"], "intercept", granted.claim["devices"])
    yield granted.edits
    agent.hub.release_claim(granted.claim["claim"])


@contextmanager
def device_user(edits: Edits) -> Iterator[Callable[[str], str]]:
    """A process in the slice, with a context; give what asks it to do something."""
    environment = LocalInjector(as_hub_user=True).environment(edits, dict(os.environ))
    with subprocess.Popen(
        [sys.executable, str(DEVICE_USER), "0"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()

        def ask(line: str) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield ask
        process.stdin.close()


def lookout_of(agent: Any, ledger: Ledger) -> Lookout:
    return Lookout(agent.hub, lambda: ledger)


def all_used(ledger: Ledger) -> list[Used]:
    now = datetime.now(timezone.utc)
    return ledger.usage.used(now - timedelta(days=1), now + timedelta(days=1))


def gpu_seconds_in(ledger: Ledger) -> float:
    return sum(one.gpu_seconds for one in all_used(ledger))


def gpu_seconds_seen_by(lookout: Lookout) -> float:
    (usage,) = lookout.usages.values()
    return usage["devices"][0]["gpu_time_seconds"]


def test_gpu_time_and_memory_of_a_slice_reach_the_ledger_and_outlive_every_restart(
    agent: Any, ledger: Ledger, edits: Edits
) -> None:
    lookout = lookout_of(agent, ledger)
    sampler = Sampler(lookout, 15.0)

    def sample() -> float:
        asyncio.run(sampler.sample())
        return gpu_seconds_seen_by(lookout)

    with device_user(edits) as ask:
        assert ask(f"hold {GIB}") == "held"
        ask("spin 1000 0.3")
        wait_until(lambda: sample() > 0, "GPU time is seen")
        sample()
    first = gpu_seconds_in(ledger)

    assert first == pytest.approx(gpu_seconds_seen_by(lookout))
    used = all_used(ledger)[0]
    assert (used.user, used.profile, used.span_seconds) == ("ada", "1/4 GPU", 3600)
    assert sum(one.memory_byte_seconds for one in all_used(ledger)) > 0

    # A service that is restarted goes on where the last one was.
    lookout = lookout_of(agent, ledger)
    sampler = Sampler(lookout, 15.0)
    sample()
    assert gpu_seconds_in(ledger) == pytest.approx(gpu_seconds_seen_by(lookout))
    before = gpu_seconds_in(ledger)

    # An agent that is restarted counts from nothing.
    agent.stop()
    with pytest.raises(VGPUError):
        sample()
    agent.start()
    with device_user(edits) as ask:
        ask("spin 1000 0.3")
        wait_until(lambda: sample() > 0, "GPU time is seen again")

    assert gpu_seconds_in(ledger) == pytest.approx(before + gpu_seconds_seen_by(lookout))
    agent_counts = gpu_seconds_seen_by(lookout)
    assert 0 < agent_counts < gpu_seconds_in(ledger)


@pytest.mark.slow  # it samples every 15 seconds
def test_the_services_own_sampler_answers_for_its_user_and_no_other(hub: Any) -> None:
    hub.spawn("quick-ada")
    entry_id = hub.ledger().open_entries("quick-ada")[0].entry_id

    hub.wait_until(lambda: entry_id in hub.ledger().usage.last_readings(), "the service has taken a sample")
    with hub.as_user("quick-ada") as ada, hub.as_user("quick-bob") as bob:
        mine, theirs = (one.get("/api/usage", params={"days": 1}).json()["usage"] for one in (ada, bob))

    assert {one["user"] for one in mine} == {"quick-ada"}
    assert hub.claim_of("quick-ada") in [one["claim"] for one in mine]
    assert {one["user"] for one in theirs} <= {"quick-bob"}  # who may have had a slice in another test
