"""A real hub with the service, its real proxy, real servers and a real agent on a simulated board."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

_HARNESS = Path(__file__).parents[1] / "hub" / "conftest.py"


def _load_harness() -> Any:
    spec = importlib.util.spec_from_file_location("hub_harness", _HARNESS)
    assert spec is not None
    assert spec.loader is not None
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    return harness


harness = _load_harness()


class ServedHub(harness.Hub):  # type: ignore[misc, name-defined]
    """The hub of tests/hub with the service; its administrator is `quick-root`."""

    def start(self) -> None:
        """Start the hub, which does not wait until its service can do more than answer."""
        super().start()
        page = f"{self.url}/services/vgpu/"
        harness.wait_until(lambda: httpx.get(page, timeout=240.0).status_code == 302, f"it serves (see {self.log})")

    def token_of(self, user: str, *scopes: str) -> str:
        """Return a token of a user; without scopes, one that may do what they may."""
        self.api.post(f"/users/{user}")
        wish = {"scopes": [*scopes, "access:services!service=vgpu"]} if scopes else {}
        answer = self.api.post(f"/users/{user}/tokens", json=wish)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    @contextmanager
    def by_token(self, token: str) -> Iterator[httpx.Client]:
        """A script that asks the service with a token, through the proxy."""
        with httpx.Client(
            base_url=f"{self.url}/services/vgpu", headers={"Authorization": f"token {token}"}, timeout=240.0
        ) as client:
            yield client

    def as_user(self, user: str, *scopes: str) -> AbstractContextManager[httpx.Client]:
        return self.by_token(self.token_of(user, *scopes))

    def claim_of(self, user: str, server: str = "") -> str:
        """Return the id of the claim that a server holds, which the ledger knows."""
        (entry,) = self.ledger().open_entries(user, server)
        assert entry.claim_id
        return str(entry.claim_id)


@pytest.fixture
def xsrf_of() -> Callable[[httpx.Response], str]:
    """Return a function that reads from a page what its form sends besides."""

    def xsrf_of(page: httpx.Response) -> str:
        found = re.search(r'name="_xsrf" value="([^"]+)"', page.text)
        assert found, page.text
        return found[1]

    return xsrf_of


@pytest.fixture(scope="session")
def agent_of_the_run() -> Iterator[Any]:
    with harness.Agent().running() as agent:
        yield agent


@pytest.fixture(scope="session")
def hub_of_the_run(agent_of_the_run: Any) -> Iterator[ServedHub]:
    with ServedHub(agent_of_the_run, HUB_TEST_SERVICE="1", HUB_TEST_ADMINS="quick-root").running() as hub:
        yield hub


@pytest.fixture
def agent(agent_of_the_run: Any) -> Any:
    return agent_of_the_run


@pytest.fixture
def hub(agent: Any, hub_of_the_run: ServedHub) -> Iterator[ServedHub]:
    """The hub, every quarter free; checked to be so again after the test."""
    yield hub_of_the_run
    if agent.process is None or agent.process.poll() is not None:
        agent.start()
    hub_of_the_run.revive()
    hub_of_the_run.stop_all()
    harness.wait_until(lambda: not agent.claims(), "all claims are released")


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    """Return what returns the first true answer, within a minute."""
    wait: Callable[..., Any] = harness.wait_until
    return wait
