"""A real hub whose GPU is full: who waits, who may, and who gets in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from html import unescape
from typing import Any

import httpx
import pytest

from harness.hubs import Hub

QUARTER = {"vgpu_profile": "1/4 GPU"}


@pytest.fixture(scope="module")
def own_hub(agent_of_the_run: Any) -> Iterator[Any]:
    settings = {
        "queue_timeout_seconds": 600.0,
        "queue_length": 3,
        "group_overrides": {
            "01": {"groups": ["staff"], "profiles": {"1/8 GPU": {"share": "1/8", "priority": "high"}}},
            "02": {"groups": ["hurry"], "profiles": {"short": {"share": "1/4", "max_hours": 0.001}}},
        },
        "quotas": {
            "everyone": {"slices": 1},
            "groups": {"course": {"slices": 1}, "promised": {"guaranteed_throughput": "3/8"}},
            "users": {"quick-spent": {"gpu_hours": 0}, "quick-many": {}},
        },
    }
    with Hub(agent_of_the_run, HUB_TEST_SETTINGS=json.dumps(settings)).running() as hub:
        yield hub


@pytest.fixture
def busy(own_hub: Any) -> Iterator[Any]:
    """The hub with its four quarters taken by one user who may; free again after the test."""
    for server in ("a", "b", "c", "d"):
        own_hub.spawn("quick-many", server=server)
    yield own_hub
    own_hub.revive()
    own_hub.clear()


@pytest.fixture
def idle(own_hub: Any) -> Iterator[Any]:
    yield own_hub
    own_hub.clear()


def wait_in_line(hub: Any, users: list[str]) -> None:
    waiting = lambda: [place.user for place in hub.ledger().places.all()]  # noqa: E731
    hub.wait_until(lambda: waiting() == users, f"{users} wait")


def test_the_fifth_waits_and_gets_in_when_one_stops_without_asking_again(busy: Any, agent: Any) -> None:
    with ThreadPoolExecutor(1) as person:
        asked = person.submit(busy.ask, "quick-fifth", QUARTER)
        wait_in_line(busy, ["quick-fifth"])
        assert "quick-fifth" not in agent.tenants()

        busy.stop_server("quick-many", "b")

        assert asked.result().status_code in (201, 202)
    busy.wait_ready("quick-fifth")
    assert agent.tenants() == ["quick-fifth", "quick-many/a", "quick-many/c", "quick-many/d"]
    assert busy.ledger().places.all() == []


def test_two_who_wait_are_served_in_the_order_they_came(busy: Any, agent: Any) -> None:
    with ThreadPoolExecutor(2) as people:
        people.submit(busy.ask, "quick-one", QUARTER)
        wait_in_line(busy, ["quick-one"])
        people.submit(busy.ask, "quick-two", QUARTER)
        wait_in_line(busy, ["quick-one", "quick-two"])

        busy.stop_server("quick-many", "a")
        busy.wait_ready("quick-one")
        assert "quick-two" not in agent.tenants()
        busy.stop_server("quick-many", "b")
        busy.wait_ready("quick-two")


def test_the_progress_page_says_the_position_and_the_place_can_be_given_up(busy: Any) -> None:
    with busy.browser("quick-waiter") as browser, ThreadPoolExecutor(1) as person:
        page = browser.get("/hub/spawn")
        assert "None of 4 free now: all is taken. You can wait for one." in unescape(page.text)
        submitted = person.submit(busy.submit, browser, QUARTER)
        wait_in_line(busy, ["quick-waiter"])
        page = submitted.result()

        events = busy.api.stream("GET", "/users/quick-waiter/server/progress")
        with events as stream:
            said = next(line for line in stream.iter_lines() if "number 1 of 1" in line)
        assert "Give up this place" in json.loads(said.removeprefix("data: "))["html_message"]

        queue = browser.get("/hub/vgpu/queue")
        assert "number 1 of 1 in the queue" in queue.text
        token = re.search(r'name="_xsrf" value="([^"]+)"', queue.text)
        assert token
        assert browser.post("/hub/vgpu/queue").status_code == 403  # another site's form
        done = browser.post("/hub/vgpu/queue", data={"_xsrf": unescape(token[1]), "server": ""})
        assert "The place was given up." in done.text
    wait_in_line(busy, [])
    busy.wait_until(lambda: not busy.servers("quick-waiter"), "the start ends")


def test_nobody_sees_or_cancels_anothers_wait(busy: Any) -> None:
    with ThreadPoolExecutor(1) as person:
        person.submit(busy.ask, "quick-waiter", QUARTER)
        wait_in_line(busy, ["quick-waiter"])
        with busy.browser("mallory") as browser:
            assert "does not wait for a GPU" in browser.get("/hub/vgpu/queue", params={"server": ""}).text
            hostile = browser.get("/hub/vgpu/queue", params={"server": "<script>alert(1)</script>"}).text
            assert "<script>alert" not in hostile
        assert httpx.get(f"{busy.url}/hub/vgpu/queue", timeout=240).status_code == 302
        busy.stop_server("quick-many", "a")
        busy.wait_ready("quick-waiter")


def test_a_full_queue_refuses_at_once(busy: Any) -> None:
    users = ["quick-1", "quick-2", "quick-3"]
    with ThreadPoolExecutor(3) as people:
        for number, user in enumerate(users):
            people.submit(busy.ask, user, QUARTER)
            wait_in_line(busy, users[: number + 1])

        refused = busy.ask("quick-4", QUARTER)

        assert refused.status_code == 409
        assert "3 servers wait for a GPU already" in refused.json()["message"]
        for server in ("a", "b", "c"):
            busy.stop_server("quick-many", server)
        for user in users:
            busy.wait_ready(user)


@pytest.mark.slow
def test_a_wait_goes_on_by_itself_after_a_crash_of_the_hub_in_the_place_it_had(busy: Any, agent: Any) -> None:
    with ThreadPoolExecutor(3) as people:
        for number, user in enumerate(("quick-first", "quick-second")):
            people.submit(busy.ask, user, QUARTER)
            wait_in_line(busy, ["quick-first", "quick-second"][: number + 1])
        busy.kill()
        busy.start()

        people.submit(busy.ask, "quick-late", QUARTER)
        wait_in_line(busy, ["quick-first", "quick-second", "quick-late"])
        for server, user in (("a", "quick-first"), ("b", "quick-second"), ("c", "quick-late")):
            before = agent.tenants()
            busy.stop_server("quick-many", server)
            busy.wait_ready(user)
            assert agent.tenants() == sorted({*before, user} - {f"quick-many/{server}"})
    assert busy.ledger().places.all() == []
    assert busy.api.get("/users/quick-first/tokens").json()["api_tokens"][0]["note"].startswith("Server at")


def test_a_start_that_had_its_slice_when_the_hub_crashed_is_not_begun_again(busy: Any, agent: Any) -> None:
    """It might be what ended the hub."""
    with ThreadPoolExecutor(1) as person:
        person.submit(busy.ask, "slow-one", QUARTER)
        wait_in_line(busy, ["slow-one"])
        busy.stop_server("quick-many", "a")
        busy.wait_until(lambda: "slow-one" in agent.tenants(), "the claim is made")
        wait_in_line(busy, [])
        busy.kill()
        busy.start()

    busy.wait_until(lambda: "slow-one" not in agent.tenants(), "its slice is given back")
    busy.wait_until(lambda: not busy.servers("slow-one"), "the hub knows that it does not run")
    assert [entry.ended_because for entry in busy.ledger().history("slow-one")][-1:] != [""]


def test_the_place_of_a_user_who_is_gone_is_given_up_after_a_crash_of_the_hub(busy: Any) -> None:
    busy.kill()
    busy.ledger().places.take("quick-nobody", "", "1/4 GPU")

    busy.start()

    wait_in_line(busy, [])


def test_an_agent_that_is_away_for_a_moment_costs_nobody_their_place(busy: Any, agent: Any) -> None:
    """Catches a bug where the first in line was thrown out with every call that the agent did not answer."""
    with ThreadPoolExecutor(1) as person:
        asked = person.submit(busy.ask, "quick-patient", QUARTER)
        wait_in_line(busy, ["quick-patient"])
        agent.stop()
        said = "nobody who waits can be served now: no node agent answers"
        busy.wait_until(lambda: said in busy.log.read_text(), "the hub misses its agent")

        agent.start()
        busy.stop_server("quick-many", "a")

        assert asked.result().status_code in (201, 202)
    busy.wait_ready("quick-patient")


def test_a_quota_refuses_with_limit_and_use_and_does_not_count_as_a_failure(idle: Any, agent: Any) -> None:
    idle.spawn("quick-modest")
    before = idle.failures()

    refused = idle.ask("quick-modest", QUARTER, server="second")

    assert refused.status_code == 403
    assert "your quota is 1 slice at once, and 1 is held now: stop a server" in refused.json()["message"]
    assert idle.failures() == before
    assert agent.tenants() == ["quick-modest"]
    with idle.browser("quick-modest") as browser:
        page = unescape(browser.get("/hub/spawn/quick-modest/second").text)
        assert "Your quota, used: 1 of 1 slices." in page
        assert "Not for you now: your quota is 1 slice at once" in page


def test_two_starts_at_once_do_not_share_the_last_of_a_quota(idle: Any, agent: Any) -> None:
    with ThreadPoolExecutor(4) as people:
        answers = list(people.map(lambda n: idle.ask("quick-modest", QUARTER, server=f"s{n}").status_code, range(4)))

    assert answers.count(403) == 3
    assert len(agent.claims()) == 1


def test_what_a_group_is_guaranteed_is_in_its_members_claims_as_far_as_it_goes(idle: Any, agent: Any) -> None:
    """Of three eighths one has its quarter, the next an eighth, the third nothing; nor has who is in no group."""
    users = ["quick-sure", "quick-surer", "quick-surest"]
    for user in users:
        idle.api.post(f"/users/{user}")
    idle.api.post("/groups/promised")
    idle.api.post("/groups/promised/users", json={"users": users})

    def guarantees() -> dict[str, list[float | None]]:
        return {claim["tenant"]: [device.get("guarantee") for device in claim["devices"]] for claim in agent.claims()}

    for user in ("quick-sure", "quick-surer", "quick-modest"):
        idle.spawn(user)
    assert guarantees() == {"quick-sure": [0.25], "quick-surer": [0.125], "quick-modest": [None]}
    with idle.browser("quick-surer") as browser:
        page = unescape(browser.get("/hub/spawn/quick-surer/second").text)
    assert "Group promised's quota, used: 37.5 % of 37.5 % of a GPU's time guaranteed." in page

    # The ledger remembers what is held, over a crash of the hub too; what one gives back the next has.
    idle.kill()
    idle.start()
    idle.spawn("quick-surest")
    assert guarantees()["quick-surest"] == [None]
    for user in ("quick-surest", "quick-sure"):
        idle.stop_server(user)
    idle.wait_until(lambda: sorted(guarantees()) == ["quick-modest", "quick-surer"], "both are given back")
    idle.spawn("quick-surest")
    assert guarantees() == {"quick-surer": [0.125], "quick-modest": [None], "quick-surest": [0.25]}


def test_a_group_has_its_quota_together_and_an_administrator_may_lift_it_once(idle: Any, agent: Any) -> None:
    for user in ("quick-ann", "quick-ben"):
        idle.api.post(f"/users/{user}")
    idle.api.post("/groups/course")
    idle.api.post("/groups/course/users", json={"users": ["quick-ann", "quick-ben"]})
    idle.spawn("quick-ann")

    refused = idle.ask("quick-ben", QUARTER)
    assert refused.status_code == 403
    assert "group course's quota is 1 slice at once" in refused.json()["message"]

    lifted = idle.ask("quick-ben", {**QUARTER, "vgpu_over_quota": True})
    assert lifted.status_code in (201, 202), lifted.text
    idle.wait_ready("quick-ben")
    idle.stop_server("quick-ben")
    again = idle.ask("quick-ben")  # the options of last time, without the lifting
    assert again.status_code == 403


def test_a_user_may_not_lift_their_own_quota(idle: Any, agent: Any) -> None:
    idle.api.post("/users/quick-spent")
    token = idle.api.post("/users/quick-spent/tokens").json()["token"]

    answer = httpx.post(
        f"{idle.url}/hub/api/users/quick-spent/server",
        json={**QUARTER, "vgpu_over_quota": True},
        headers={"Authorization": f"token {token}"},
        timeout=240,
    )

    assert answer.status_code == 403
    assert "vgpu_over_quota: only who may start everyone's servers" in answer.json()["message"]
    assert agent.claims() == []
    assert "0 GPU-hours in 7 days" in idle.ask("quick-spent", QUARTER).json()["message"]


def test_a_profile_of_a_group_is_offered_to_its_members_only(idle: Any) -> None:
    idle.api.post("/users/quick-prof")
    idle.api.post("/groups/staff")
    idle.api.post("/groups/staff/users", json={"users": ["quick-prof"]})

    assert idle.ask("quick-other", {"vgpu_profile": "1/8 GPU"}).status_code == 400
    idle.spawn("quick-prof", "1/8 GPU")


def test_what_would_never_fit_is_refused_and_not_waited_for(busy: Any) -> None:
    answer = busy.ask("quick-dreamer", {"vgpu_profile": "two GPUs"})

    assert answer.status_code == 409
    assert "does not fit, however long you wait: it needs 2 GPUs, this node has 1" in answer.json()["message"]


def test_a_server_is_warned_of_and_then_stopped_when_its_hours_are_over(idle: Any, agent: Any) -> None:
    idle.api.post("/users/quick-hasty")
    idle.api.post("/groups/hurry")
    idle.api.post("/groups/hurry/users", json={"users": ["quick-hasty"]})

    def started_and_ended() -> Any:
        earlier = len(idle.ledger().history("quick-hasty"))
        assert idle.ask("quick-hasty", {"vgpu_profile": "short"}).status_code in (201, 202)

        def ended() -> Any:
            entries = idle.ledger().history("quick-hasty")[earlier:]
            return entries[-1] if entries and entries[-1].released_at is not None else None

        # As the ledger has it: the agent has no claim before the start is through either, and none before the end.
        entry = idle.wait_until(ended, "the slice is released, and that is written down")
        idle.wait_until(lambda: not idle.servers("quick-hasty"), "the server is gone")
        return entry, [kind for _, kind, _ in idle.ledger().events(entry.entry_id)]

    for _ in range(20):
        entry, kinds = started_and_ended()
        # A hub that a busy machine lets look only when the hours are over has nobody to warn.
        if "max-hours-warning" in kinds:
            break

    assert agent.claims() == []
    assert entry.ended_because == "its 0.001 hours (max_hours) were over"
    assert entry.released_at - entry.bound_at >= timedelta(seconds=3.5)
    assert kinds == ["requested", "bound", "max-hours-warning", "released"]


def test_who_asks_again_after_a_crash_does_not_wait_for_what_their_own_broken_start_holds(
    idle: Any, agent: Any
) -> None:
    with ThreadPoolExecutor(2) as people:
        people.submit(idle.ask, "slow-one", {"vgpu_profile": "whole GPU"})
        (before,) = idle.wait_until(agent.claims, "the claim is made")
        idle.kill()
        idle.start()

        people.submit(idle.ask, "slow-one", {"vgpu_profile": "whole GPU"})

        idle.wait_until(
            lambda: [c["tenant"] for c in agent.claims() if c["claim"] != before["claim"]] == ["slow-one"],
            "it has a new claim",
            seconds=60,
        )
        idle.kill()
        idle.start()
