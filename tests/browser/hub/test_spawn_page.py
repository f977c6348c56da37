"""The spawn page in a real browser: what is free, now and later, by mouse, by keyboard and read aloud."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

LogIn = Callable[..., None]
Lab = Any


def row(page: Page, profile: str) -> Locator:
    return page.locator(f'[data-profile="{profile}"]')


def choice(page: Page, profile: str) -> Locator:
    return page.get_by_role("radio", name=profile, exact=True)


def test_one_users_start_changes_anothers_open_page(
    page: Page, lab: Lab, hub: Any, log_in: LogIn, keep_picture: Callable[[str], None]
) -> None:
    hub.api.post("/users/ann")
    hub.api.post("/groups/course")
    hub.api.post("/groups/course/users", json={"users": ["ann"]})
    log_in(page, hub, "ann")
    expect(row(page, "1/4 GPU")).to_contain_text("4 of 4 free now.")
    expect(row(page, "no GPU")).to_contain_text("No GPU. Always free.")
    expect(page.locator(".jupyter-vgpu-quota")).to_contain_text("0 of 20 GPU-hours in the last 7 days")
    expect(page.locator(".jupyter-vgpu-quota")).to_contain_text("20 GPU-hours left.")

    hub.spawn("quick-bob", "1/2 GPU")

    expect(row(page, "1/4 GPU")).to_contain_text("2 of 4 free now.")
    expect(row(page, "whole GPU")).to_contain_text(
        re.compile(r"None of 1 free now: too much is taken\. One is free by 20\d\d-.* at the latest\. You can wait")
    )
    expect(page.get_by_role("status")).to_contain_text("1/4 GPU: 2 of 4 free now.")
    assert lab.violations(".jupyter-vgpu-profiles") == []
    keep_picture("spawn-live")

    hub.stop_server("quick-bob")

    expect(row(page, "1/4 GPU")).to_contain_text("4 of 4 free now.")
    expect(row(page, "whole GPU")).to_contain_text("1 of 1 free now.")


def test_a_choice_that_can_no_longer_be_had_is_none_and_nothing_else_is_taken_for_it(
    page: Page, hub: Any, log_in: LogIn, agent_of_the_run: Any
) -> None:
    log_in(page, hub, "quick-ann")
    choice(page, "whole GPU").check()
    (device,) = agent_of_the_run.hub.devices()

    agent_of_the_run.hub.drain(device["uuid"])
    try:
        expect(choice(page, "whole GPU")).to_be_disabled()
        expect(choice(page, "whole GPU")).not_to_be_checked()
        expect(row(page, "whole GPU")).to_contain_text("Not available: all GPUs of this node are out of use.")
        expect(page.get_by_role("status")).to_contain_text("whole GPU can no longer be had; choose another.")
    finally:
        agent_of_the_run.hub.drain(device["uuid"], False)
    expect(choice(page, "whole GPU")).to_be_enabled()

    page.get_by_role("button", name="Start").click()
    assert page.locator("input:invalid").count()  # the browser asks for a choice
    assert not hub.servers("quick-ann")


def test_a_profile_is_chosen_and_started_with_the_keyboard_alone(
    page: Page, hub: Any, log_in: LogIn, agent_of_the_run: Any
) -> None:
    log_in(page, hub, "quick-keys")
    expect(choice(page, "1/4 GPU")).to_be_checked()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "vgpu_profile":
            break

    page.keyboard.press("ArrowDown")
    expect(choice(page, "1/2 GPU")).to_be_checked()
    expect(page).to_have_url(re.compile(r"#vgpu_profile=1%2F2\+GPU$"))
    page.keyboard.press("Enter")

    hub.wait_ready("quick-keys")
    assert [claim["profile"] for claim in agent_of_the_run.claims()] == ["1/2 GPU"]


def test_a_link_leads_through_the_login_to_the_page_with_that_profile_chosen_and_starts_nothing(
    page: Page, hub: Any, log_in: LogIn, agent_of_the_run: Any
) -> None:
    log_in(page, hub, "quick-linked", "/hub/vgpu/spawn?vgpu_profile=1/2+GPU")

    expect(choice(page, "1/2 GPU")).to_be_checked()
    assert agent_of_the_run.claims() == []
    assert hub.servers("quick-linked") == {} or not hub.is_ready("quick-linked")


def test_a_link_with_a_profile_that_is_none_says_so_as_text(page: Page, hub: Any, log_in: LogIn) -> None:
    log_in(page, hub, "quick-linked", "/hub/vgpu/spawn?vgpu_profile=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")

    expect(page.get_by_role("status")).to_have_text(
        "The link names <img src=x onerror=alert(1)>, which you are not offered."
    )
    assert page.locator("img[src=x]").count() == 0


def test_who_is_refused_by_a_quota_reads_when_there_is_room_again(
    page: Page, lab: Lab, hub: Any, log_in: LogIn, agent_of_the_run: Any, keep_picture: Callable[[str], None]
) -> None:
    log_in(page, hub, "quick-spent")
    expect(row(page, "1/4 GPU")).to_contain_text("4 of 4 free now.")
    hub.spawn("quick-spent", "whole GPU", server="other")
    with hub.browser("quick-spent") as other_window:
        used_up = lambda: "Not for you now" in other_window.get("/hub/spawn").text  # noqa: E731
        hub.wait_until(used_up, "the hours are used up")
    hub.stop_server("quick-spent", "other")

    page.get_by_role("button", name="Start").click()

    sentence = re.compile(r"GPU-hours are used: there is room again from 20\d\d-\d\d-\d\d \d\d:\d\d UTC")
    # On the form again, or, where the hub took longer than a second, on the progress page.
    expect(page.get_by_text(sentence).first).to_be_visible()
    if page.locator(".spawn-error-msg").count():
        keep_picture("spawn-refused")
    page.goto(f"{hub.url}/hub/spawn")
    expect(row(page, "1/4 GPU")).to_contain_text("Not for you now")
    expect(choice(page, "1/4 GPU")).to_be_disabled()
    expect(choice(page, "no GPU")).to_be_enabled()
    assert lab.violations(".jupyter-vgpu-profiles") == []
    assert agent_of_the_run.claims() == []


def test_who_waits_sees_their_position_and_gives_up_the_place_on_the_progress_page(
    page: Page, lab: Lab, hub: Any, log_in: LogIn, keep_picture: Callable[[str], None]
) -> None:
    for server in ("a", "b", "c", "d"):
        hub.spawn("quick-many", server=server)
    log_in(page, hub, "quick-waiter")
    expect(row(page, "1/4 GPU")).to_contain_text("None of 4 free now: all is taken.")

    choice(page, "1/4 GPU").check()
    page.get_by_role("button", name="Start").click()

    expect(page.locator("#progress-message")).to_contain_text("Waiting for a GPU: number 1 of 1 in the queue")
    assert lab.violations("#progress-message") == []
    keep_picture("queue")
    page.locator("#progress-message").get_by_role("button", name="Give up this place").click()

    expect(page.get_by_role("status")).to_have_text("The place was given up.")
    assert lab.violations("main, .container") == []
    hub.wait_until(lambda: not hub.servers("quick-waiter"), "the start has ended")
    assert hub.ledger().places.all() == []


def test_an_agent_that_goes_away_and_comes_back_is_seen_on_the_open_page(
    page: Page, hub: Any, log_in: LogIn, agent_of_the_run: Any
) -> None:
    log_in(page, hub, "quick-ann")
    expect(row(page, "1/4 GPU")).to_contain_text("4 of 4 free now.")

    agent_of_the_run.stop()
    expect(page.locator("#jupyter-vgpu-state")).to_contain_text("the GPU agent of this node does not answer")
    expect(choice(page, "1/4 GPU")).to_be_disabled()
    expect(choice(page, "no GPU")).to_be_enabled()

    agent_of_the_run.start()
    expect(page.locator("#jupyter-vgpu-state")).to_contain_text("On this node: 1 × Simulated")
    expect(choice(page, "1/4 GPU")).to_be_enabled()


def test_the_page_works_without_scripts(
    page_without_scripts: Page, hub: Any, log_in: LogIn, agent_of_the_run: Any
) -> None:
    page = page_without_scripts
    log_in(page, hub, "quick-plain")
    expect(row(page, "1/4 GPU")).to_contain_text("4 of 4 free now.")

    choice(page, "1/2 GPU").check()
    page.get_by_role("button", name="Start").click()

    assert page.locator(".spawn-error-msg").all_inner_texts() == []
    hub.wait_ready("quick-plain")
    assert [claim["profile"] for claim in agent_of_the_run.claims()] == ["1/2 GPU"]
