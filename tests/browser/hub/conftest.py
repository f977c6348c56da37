"""A real hub for a real browser: the one that tests/hub starts, with a queue, quotas and a profile without a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from harness.hubs import Agent, Hub

PROFILES = {
    "1/4 GPU": {"share": "1/4", "description": "Enough for the course."},
    "1/2 GPU": {"share": "1/2", "max_hours": 8},
    "whole GPU": {"backend": "whole"},
    "no GPU": {"gpu": False},
}
SETTINGS = {
    "queue_timeout_seconds": 120.0,
    "quotas": {
        "members": {"course": {"slices": 2, "gpu_hours": 20}},
        "users": {"quick-spent": {"gpu_hours": 0.001}, "lab-spent": {"gpu_hours": 0.0001}},
    },
}


@pytest.fixture(scope="session")
def agent_of_the_run() -> Iterator[Agent]:
    with Agent().running() as agent:
        yield agent


@pytest.fixture(scope="session")
def hub_of_the_browser(agent_of_the_run: Agent) -> Iterator[Hub]:
    settings = {"HUB_TEST_SETTINGS": json.dumps(SETTINGS), "HUB_TEST_PROFILES": json.dumps(PROFILES)}
    with Hub(agent_of_the_run, **settings).running() as hub:
        yield hub


@pytest.fixture
def hub(hub_of_the_browser: Hub) -> Iterator[Hub]:
    """The hub without a server, and every quarter free; checked to be so again after the test."""
    yield hub_of_the_browser
    hub_of_the_browser.clear()


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
