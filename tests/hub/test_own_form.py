"""A spawner that has a form and options of its own keeps them; ours stand beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.hubs import Hub


@pytest.fixture(scope="module")
def hub_with_form(request: pytest.FixtureRequest, agent_of_the_run: Any) -> Iterator[Any]:
    with Hub(agent_of_the_run, HUB_TEST_OWN_FORM="yes").running() as hub:
        yield hub


@pytest.fixture
def hub(hub_with_form: Any) -> Iterator[Any]:
    yield hub_with_form
    hub_with_form.clear()


def test_both_forms_are_shown_and_each_is_read_by_its_owner(hub: Any, agent: Any) -> None:
    with hub.browser("quick") as browser:
        page = browser.get("/hub/spawn").text
        assert 'name="image"' in page
        assert 'name="vgpu_profile"' in page

        hub.submit(browser, {"image": "lab", "vgpu_profile": "1/2 GPU"})
        hub.wait_ready("quick")

    assert hub.servers("quick")[""]["user_options"] == {"image": "lab", "vgpu_profile": "1/2 GPU"}
    assert "IMAGE=lab" in hub.environment_of("quick")
    assert [claim["profile"] for claim in agent.claims()] == ["1/2 GPU"]


def test_a_key_of_the_spawners_own_passes_over_rest(hub: Any, agent: Any) -> None:
    assert hub.ask("quick-too", {"image": "lab"}).status_code in (201, 202)
    hub.wait_ready("quick-too")

    assert "IMAGE=lab" in hub.environment_of("quick-too")
    assert agent.tenants() == ["quick-too"]


def test_a_key_that_the_spawner_refuses_stays_refused(hub: Any, agent: Any) -> None:
    answer = hub.ask("quick", {"image": "lab", "colour": "red", "vgpu_profile": "1/4 GPU"})

    assert answer.status_code == 400
    assert agent.claims() == []


def test_a_profile_that_is_none_is_refused_here_too(hub: Any, agent: Any) -> None:
    answer = hub.ask("quick", {"image": "lab", "vgpu_profile": "9/4 GPU"})

    assert answer.status_code == 400
    assert "vgpu_profile: '9/4 GPU' is not allowed" in answer.json()["message"]
    assert agent.claims() == []
