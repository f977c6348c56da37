"""A real hub with its real proxy, real servers and a real agent on a simulated board, shared by the tests of a run.

A test finds all four quarters free and no server, and is checked to leave it so.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.hubs import Agent, Hub


@pytest.fixture(scope="session")
def agent_of_the_run() -> Iterator[Agent]:
    with Agent().running() as agent:
        yield agent


@pytest.fixture(scope="session")
def hub_of_the_run(agent_of_the_run: Agent) -> Iterator[Hub]:
    with Hub(agent_of_the_run).running() as hub:
        yield hub


@pytest.fixture
def agent(agent_of_the_run: Agent) -> Agent:
    """The agent, running."""
    return agent_of_the_run


@pytest.fixture
def hub(agent: Agent, hub_of_the_run: Hub) -> Iterator[Hub]:
    """The hub without a server, and every quarter free; checked to be so again after the test."""
    yield hub_of_the_run
    agent.revive()
    hub_of_the_run.revive()
    hub_of_the_run.clear()
