"""The benchmark's C client on a simulated board: each kind of work finishes units and says when."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.agent import NodeAgent
from bench.machine import Card
from governor.stage import NATIVE, Stage, native_environment
from governor.work import (
    BURN,
    CELL,
    COOPERATIVE,
    EXTENDED,
    GPT,
    GRAPHS,
    MATMUL,
    QUEUED,
    RESNET,
    SMALL,
    STREAMS,
    Work,
    equal,
    on_and_off,
)

from jupyter_vgpu.sim import create_boards

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    environment = native_environment(create_boards(folder / "boards", "h200"))
    # Nobody is in a claim: the agent is not started.
    yield Stage(Card("simulated h200", "simulated", 1), folder, NodeAgent(folder, environment), environment, True)


@pytest.mark.parametrize(
    "work",
    [BURN, EXTENDED, COOPERATIVE, GRAPHS, SMALL, CELL, MATMUL, GPT, RESNET, STREAMS, QUEUED, on_and_off(50)],
    ids=lambda work: work.name,
)
def test_each_kind_of_work_finishes_units_and_says_when(stage: Stage, work: Work) -> None:
    with stage.crew(NATIVE, equal(work, 1)) as crew:
        crew.wait_ready()
        solo_ns = crew.solo_ns(0)

        # However slow the machine is: until something was finished within a run.
        deadline = time.monotonic() + WAIT_SECONDS
        (answer,) = crew.run(0.3)
        while answer.progress.at(0.3) == 0 and time.monotonic() < deadline:
            (answer,) = crew.run(0.3)

    assert solo_ns >= 1e3 * stage.resolved(work).launch_us
    assert answer.progress.at(0.3) > 0


def test_a_tenant_that_pauses_says_from_when_to_when(stage: Stage) -> None:
    work = dataclasses.replace(on_and_off(50), name="on and off")
    with stage.crew(NATIVE, equal(work, 1)) as crew:
        crew.wait_ready()

        deadline = time.monotonic() + WAIT_SECONDS
        (answer,) = crew.run(0.3)
        while not answer.pauses and time.monotonic() < deadline:
            (answer,) = crew.run(0.3)

    begin, end = answer.pauses[0]
    assert 0.05 <= begin < end


def test_a_tenant_that_waits_for_each_launch_says_how_long(stage: Stage) -> None:
    with stage.crew(NATIVE, equal(CELL, 1)) as crew:
        crew.wait_ready()

        deadline = time.monotonic() + WAIT_SECONDS
        (answer,) = crew.run(0.3)
        while not answer.waits and time.monotonic() < deadline:
            (answer,) = crew.run(0.3)

    begins, took_us = zip(*answer.waits, strict=True)
    assert min(took_us) >= CELL.launch_us
    assert list(begins) == sorted(begins)
    assert 0 <= begins[0] < begins[-1] < 0.3


def test_a_program_that_is_ended_leaves_its_log_and_nothing_else(stage: Stage) -> None:
    with stage.crew(NATIVE, equal(BURN, 2)) as crew:
        crew.wait_ready()
        pids = [worker.process.pid for worker in crew.all_workers()]

    assert all(not Path(f"/proc/{pid}").exists() for pid in pids)
