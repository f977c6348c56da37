"""A real hub for a real browser: the one that tests/hub starts, with a queue, quotas and a profile without a GPU."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

_HUB_TESTS = Path(__file__).parents[2] / "hub" / "conftest.py"
_spec = importlib.util.spec_from_file_location("running_hubs", _HUB_TESTS)
assert _spec is not None
assert _spec.loader is not None
_running = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_running)

PROFILES = {
    "1/4 GPU": {"share": "1/4", "description": "Enough for the course."},
    "1/2 GPU": {"share": "1/2", "max_hours": 8},
    "whole GPU": {"backend": "whole"},
    "no GPU": {"gpu": False},
}
SETTINGS = {
    "queue_timeout_seconds": 120.0,
    "quotas": {"members": {"course": {"slices": 2, "gpu_hours": 20}}, "users": {"quick-spent": {"gpu_hours": 0.001}}},
}

agent_of_the_run = _running.agent_of_the_run


@pytest.fixture(scope="session")
def hub_of_the_browser(agent_of_the_run: Any) -> Iterator[Any]:
    hub = agent_of_the_run.hub(HUB_TEST_SETTINGS=json.dumps(SETTINGS), HUB_TEST_PROFILES=json.dumps(PROFILES))
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()
        shutil.rmtree(hub.folder)


@pytest.fixture
def hub(hub_of_the_browser: Any, agent_of_the_run: Any) -> Iterator[Any]:
    """The hub without a server, and every quarter free; checked to be so again after the test."""
    yield hub_of_the_browser
    hub_of_the_browser.stop_all()
    _running.wait_until(lambda: not agent_of_the_run.claims(), "all claims are released")


@pytest.fixture
def log_in() -> Callable[..., None]:
    def log_in(page: Page, hub: Any, user: str, path: str = "/hub/spawn") -> None:
        """Go to a page of the hub by way of its login page."""
        page.goto(f"{hub.url}{path}")
        page.get_by_label("Username").fill(user)
        page.get_by_label("Password").fill("pass")
        page.get_by_role("button", name="Sign in").click()

    return log_in


@pytest.fixture
def page_without_scripts(browser: Browser) -> Iterator[Page]:
    with browser.new_context(java_script_enabled=False) as context:
        context.set_default_timeout(120_000)
        yield context.new_page()
