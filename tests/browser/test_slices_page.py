"""What an administrator does at `/services/vgpu/`: log in through the hub, watch, revoke with the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.hubs import Agent, ServedHub

Lab = Any


@pytest.fixture(scope="module")
def hub() -> Iterator[Any]:
    """A real hub with the service, and a real agent on a simulated board; `quick-root` is its administrator."""
    with Agent().running() as agent, ServedHub(agent).running() as hub:
        yield hub
        hub.stop_all()


def log_in(page: Page, hub: Any, user: str) -> None:
    """Go to the service; the hub asks who it is."""
    page.goto(f"{hub.url}/services/vgpu/")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill("pass")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="GPU slices").wait_for()


def tab_to(page: Page, role: str, name: str) -> None:
    """Press the tab key until something has the focus; fail when it never does."""
    wanted = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
    for _ in range(60):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"the tab key does not lead to the {role} {name!r}")


def test_an_administrator_revokes_with_the_keyboard_alone_and_everybody_sees_it_live(
    page: Page, lab: Lab, browser: Browser, hub: Any, keep_picture: Callable[[str], None]
) -> None:
    for user in ("quick-ada", "quick-bob"):
        hub.spawn(user)
    log_in(page, hub, "quick-root")
    expect(page.get_by_role("heading", name="2 slices are held")).to_be_visible()
    expect(page.get_by_text("Kept up to date.")).to_be_visible()
    assert lab.violations("body") == []
    keep_picture("slices")

    with browser.new_context() as context:
        context.set_default_timeout(120_000)
        other = context.new_page()
        log_in(other, hub, "quick-ada")
        expect(other.get_by_role("heading", name="1 slice is held")).to_be_visible()
        expect(other.locator("body")).not_to_contain_text("quick-bob")
        expect(other.get_by_text("Kept up to date.")).to_be_visible()

        tab_to(page, "link", "Revoke the slice of quick-ada")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Revoke the slice of quick-ada?").wait_for()
        assert lab.violations("body") == []
        keep_picture("slices-revoke")
        tab_to(page, "textbox", "Why (shown to those who may see this claim; may be empty)")
        page.keyboard.type("exam at <b>ten</b>")
        tab_to(page, "button", "Revoke")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="The slice of quick-ada was revoked")).to_be_visible()
        expect(page.get_by_text("The slice was released.")).to_be_visible()
        assert lab.violations("body") == []

        # Nobody reloads this page.
        expect(other.get_by_role("heading", name="0 slices are held")).to_be_visible()

    tab_to(page, "link", "All slices")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="1 slice is held")).to_be_visible()
    expect(page.get_by_role("table", name="Lately")).to_contain_text("exam at <b>ten</b>")
    assert page.locator("b").count() == 0
    assert not hub.is_ready("quick-ada")
    assert hub.is_ready("quick-bob")


def test_who_walks_through_the_rows_by_keyboard_keeps_their_place_while_rows_come_and_go(page: Page, hub: Any) -> None:
    hub.stop_all()
    hub.spawn("quick-bob")
    log_in(page, hub, "quick-root")
    expect(page.get_by_text("Kept up to date.")).to_be_visible()
    tab_to(page, "link", "Revoke the slice of quick-bob")

    hub.spawn("quick-cyd")
    expect(page.get_by_role("heading", name="2 slices are held")).to_be_visible()
    expect(page.get_by_role("link", name="Revoke the slice of quick-bob")).to_be_focused()
    hub.stop_server("quick-cyd")
    expect(page.get_by_role("heading", name="1 slice is held")).to_be_visible()
    expect(page.get_by_role("link", name="Revoke the slice of quick-bob")).to_be_focused()
    hub.stop_server("quick-bob")

    # Its row is gone: the focus is where the rows were, not at the top of the page.
    expect(page.get_by_role("heading", name="0 slices are held")).to_be_focused()


def test_a_device_is_taken_out_of_use_and_put_back_with_the_keyboard_alone(page: Page, lab: Lab, hub: Any) -> None:
    log_in(page, hub, "quick-root")
    devices = page.get_by_role("table", name="Devices")
    for link, button, state in (("Drain… device 0", "Drain", "drained"), ("Put back… device 0", "Put back", "in use")):
        tab_to(page, "link", link)
        page.keyboard.press("Enter")
        page.get_by_role("button", name=button).wait_for()
        assert lab.violations("body") == []
        tab_to(page, "button", button)
        page.keyboard.press("Enter")
        expect(devices).to_contain_text(state)
    expect(page.get_by_role("table", name="Lately")).to_contain_text("drained")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_reads_well_in_both_schemes_and_on_a_narrow_screen(
    browser: Browser, lab: Lab, hub: Any, scheme: Any
) -> None:
    hub.spawn("quick-dee")
    with browser.new_context(color_scheme=scheme, viewport={"width": 400, "height": 700}) as context:
        context.set_default_timeout(120_000)
        page = context.new_page()
        log_in(page, hub, "quick-root")
        expect(page.get_by_text("Kept up to date.")).to_be_visible()

        violations = type(lab)(page).violations("body")
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    hub.stop_server("quick-dee")

    assert violations == []
    assert overflow <= 0, "only tables scroll sideways"
