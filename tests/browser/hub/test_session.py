"""What the panel says of the hub: GPU-hours that are used up, a user who has logged out, a server that was stopped."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

Lab = Any

# Says to the page that it is out of sight, or back.
HIDE = """is_hidden => {
  Object.defineProperty(document, 'hidden', { configurable: true, value: is_hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def open_panel_in_half(page: Page, lab: Lab, user: str) -> None:
    """Start a JupyterLab in half a GPU from the spawn page, and open the panel."""
    page.get_by_role("radio", name="1/2 GPU", exact=True).check()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(f"/user/{user}/lab"))
    page.get_by_role("tab", name="GPU slice").wait_for()
    lab.open_panel()


def test_the_panel_warns_of_hours_used_up_and_of_a_logout_in_another_tab(
    page: Page, lab: Lab, hub: Any, log_in: Callable[..., None], keep_picture: Callable[[str], None]
) -> None:
    log_in(page, hub, "lab-spent")
    open_panel_in_half(page, lab, "lab-spent")
    status = lab.panel.get_by_role("status")

    # Before the server was up: they last for less than a second.
    expect(status).to_contain_text("Your GPU-hours are used up: 0 of 0.0001 left")
    expect(status).to_contain_text("This server goes on")
    expect(lab.panel.locator('[data-figure="gpu-hours-left"]')).to_contain_text("0 of 0.0001")
    expect(lab.panel.locator('[data-figure="session-left"]')).to_contain_text(re.compile(r"^(8 h 00|7 h 5\d) min$"))
    assert lab.violations("#jupyter-vgpu-panel") == []
    keep_picture("hours")

    with page.context.expect_page() as opened:
        page.evaluate("window.open('/hub/logout')")
    expect(opened.value.get_by_role("button", name="Sign in")).to_be_visible()
    page.evaluate(HIDE, True)
    page.evaluate(HIDE, False)

    expect(lab.panel.locator('[data-state="refused"]')).to_contain_text("Not logged in, since")
    expect(status).to_contain_text("Reload this page and log in again.")
    assert lab.violations("#jupyter-vgpu-panel") == []
    keep_picture("logged-out")


def test_the_panel_says_that_the_server_was_stopped_though_the_proxy_keeps_its_stream(
    page: Page, lab: Lab, hub: Any, log_in: Callable[..., None], keep_picture: Callable[[str], None]
) -> None:
    log_in(page, hub, "lab-stopped")
    open_panel_in_half(page, lab, "lab-stopped")
    expect(lab.memory).to_have_text("0 B of 39.6 GiB")

    hub.stop_server("lab-stopped")

    expect(lab.panel.locator('[data-state="server-stopped"]')).to_contain_text("Start it again from the hub")
    keep_picture("stopped")
