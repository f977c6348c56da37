"""What a student does, in the demo: log in, pick a quarter, run the notebook, watch the panel."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

Lab = Any
DEMO = Path(__file__).parents[2] / "demo" / "run.py"


def password_of(log: Path) -> str:
    """Return the password that the demo prints once it is ready."""
    deadline = time.monotonic() + 180
    while not (found := re.search(r"Password +(\S+)", log.read_text(errors="replace"))):
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.2)
    return found.group(1)


def log_in(page: Page, port: int, name: str, password: str) -> None:
    """Log in at the hub; the spawn page comes next."""
    page.goto(f"http://127.0.0.1:{port}/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("radio", name="1/4 GPU").check()


def test_a_student_picks_a_quarter_and_watches_it_and_another_sees_nothing_of_that(
    page: Page,
    lab: Lab,
    browser: Browser,
    run_python: Callable[..., Path],
    free_port: int,
    keep_picture: Callable[..., None],
) -> None:
    log = run_python(str(DEMO), "--port", str(free_port), "--board", "a100-80")
    password = password_of(log)

    log_in(page, free_port, "alice", password)
    keep_picture("spawn")
    page.get_by_role("button", name="Start").click()

    lab.wait_until_ready()
    lab.open_panel()
    expect(lab.panel).to_contain_text("1/4 GPU")
    expect(lab.memory).to_have_text("0 B of 19.8 GiB")

    lab.run_all()

    expect(lab.launches).to_have_text("1,000")
    expect(lab.panel.locator("[data-notebook]")).to_contain_text("try-your-slice.ipynb")
    limit = lab.cell_with_output("asked for")
    expect(limit).to_contain_text("CUDA_ERROR_OUT_OF_MEMORY")
    expect(limit).to_contain_text("64 MiB: granted")

    # The notebook gave everything back at its end, but its context; once more, up to the limit.
    held = lab.panel.locator("[data-notebook]").locator('[data-figure="held"]')
    expect(held).to_contain_text(re.compile(r"^0 B"))
    limit.locator(".jp-InputArea-editor").click()
    lab.choose("Run", "Run All Above Selected Cell")
    limit.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")
    expect(held).to_contain_text(re.compile(r"^(9|10)\.\d GiB"))
    expect(limit.locator(".jp-OutputArea")).to_contain_text("granted")
    lab.panel.get_by_label("History of how long").select_option("1")
    limit.locator(".jp-OutputArea").scroll_into_view_if_needed()
    keep_picture("panel", height=900)

    with browser.new_context() as context:
        context.set_default_timeout(120_000)
        other = context.new_page()
        log_in(other, free_port, "bob", password)
        other.get_by_role("button", name="Start").click()
        theirs = type(lab)(other)
        theirs.wait_until_ready()
        theirs.open_panel()
        expect(theirs.memory).to_have_text("0 B of 19.8 GiB")
        expect(theirs.panel).to_contain_text("None uses the GPU now")
        for endpoint in ("slice", "usage", "history", "live"):
            answer = other.request.get(f"http://127.0.0.1:{free_port}/user/alice/jupyter-vgpu/{endpoint}")
            assert answer.status == 403, f"bob gets {answer.status} for {endpoint} of alice"
