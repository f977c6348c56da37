"""What a student does, in the demo: log in, pick a quarter, run the notebook, watch the panel."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

Lab = Any
DEMO = Path(__file__).parents[2] / "demo" / "run.py"


def password_of(log: Path) -> str:
    """Return the password that the demo prints once it is ready."""
    deadline = time.monotonic() + 120
    while not (found := re.search(r"Password +(\S+)", log.read_text(errors="replace"))):
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.2)
    return found.group(1)


def test_a_student_picks_a_quarter_and_watches_it(
    page: Page, lab: Lab, run_python: Callable[..., Path], free_port: int, keep_picture: Callable[[str], None]
) -> None:
    log = run_python(str(DEMO), "--port", str(free_port), "--board", "a100-80")
    password = password_of(log)

    page.goto(f"http://127.0.0.1:{free_port}/")
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("radio", name="1/4 GPU").check()
    keep_picture("spawn")
    page.get_by_role("button", name="Start").click()

    lab.wait_until_ready()
    lab.open_panel()
    expect(lab.panel).to_contain_text("1/4 GPU")
    expect(lab.memory).to_have_text("0 B of 19.8 GiB")

    lab.run_all()

    expect(lab.launches).to_have_text("1,000")
    expect(lab.panel.get_by_role("row", name=re.compile("python"))).to_be_visible()
    limit = lab.cell_with_output("asked for")
    expect(limit).to_contain_text("CUDA_ERROR_OUT_OF_MEMORY")
    expect(limit).to_contain_text("64 MiB: granted")

    # The notebook gave everything back at its end; once more, up to the limit.
    expect(lab.memory).to_have_text("0 B of 19.8 GiB")
    limit.locator(".jp-InputArea-editor").click()
    lab.choose("Run", "Run All Above Selected Cell")
    limit.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")
    expect(lab.memory).to_have_text("10.0 GiB of 19.8 GiB")
    expect(limit.locator(".jp-OutputArea")).to_contain_text("granted")
    limit.locator(".jp-OutputArea").scroll_into_view_if_needed()
    keep_picture("panel")
