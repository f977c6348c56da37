"""A real hub with the service, its real proxy, real servers and a real agent on a simulated board."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import httpx
import pytest

from harness.hubs import Agent, ServedHub


@pytest.fixture
def xsrf_of() -> Callable[[httpx.Response], str]:
    """Return a function that reads from a page what its form sends besides."""

    def xsrf_of(page: httpx.Response) -> str:
        found = re.search(r'name="_xsrf" value="([^"]+)"', page.text)
        assert found, page.text
        return found[1]

    return xsrf_of


@pytest.fixture(scope="session")
def agent_of_the_run() -> Iterator[Agent]:
    with Agent().running() as agent:
        yield agent


@pytest.fixture(scope="session")
def hub_of_the_run(agent_of_the_run: Agent) -> Iterator[ServedHub]:
    with ServedHub(agent_of_the_run).running() as hub:
        yield hub


@pytest.fixture
def agent(agent_of_the_run: Agent) -> Agent:
    return agent_of_the_run


@pytest.fixture
def hub(agent: Agent, hub_of_the_run: ServedHub) -> Iterator[ServedHub]:
    """The hub, every quarter free; checked to be so again after the test."""
    yield hub_of_the_run
    agent.revive()
    hub_of_the_run.revive()
    hub_of_the_run.clear()
