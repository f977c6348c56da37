"""A real browser, and pages in it that tell what went wrong."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
PANEL = ROOT / "jupyter_vgpu" / "labextension" / "package.json"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# The prompt of a cell that has run, and neither waits nor runs.
HAS_RUN = re.compile(r"\[\d+\]:")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return the system's Chromium, or Playwright's own where the system has none."""
    assert PANEL.is_file(), "the panel is not built; `make labextension` builds it"
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page of a fresh visitor, as wide as a small laptop."""
    context = browser.new_context(viewport={"width": 1200, "height": 720}, color_scheme="light")
    context.set_default_timeout(30_000)
    page = context.new_page()
    yield page
    context.close()


@pytest.fixture
def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def run_python(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return a function that starts a Python program and returns its log; all are ended after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str, environment: dict[str, str] | None = None) -> Path:
        log = tmp_path / f"log-{len(started)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=tmp_path,
                env={**os.environ, "HOME": str(tmp_path), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(process)
        return log

    yield run
    for process in started:
        process.terminate()
    for process in started:
        process.wait(60)


@pytest.fixture
def keep_picture(page: Page) -> Callable[[str], None]:
    """Return a function that keeps a picture of the page, if $JUPYTER_VGPU_PICTURES names a folder for them."""
    folder = os.environ.get("JUPYTER_VGPU_PICTURES")

    def keep(name: str) -> None:
        if folder:
            page.screenshot(path=Path(folder) / f"{name}.png")

    return keep


class Lab:
    """A JupyterLab page with one notebook, and the panel beside it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.panel = page.locator("#jupyter-vgpu-panel")
        self.memory = self.panel.locator('[data-figure="memory"]')
        self.meter = self.panel.get_by_role("meter", name="Memory")
        # JupyterLab asks a newcomer whether it may fetch news.
        page.add_locator_handler(
            page.get_by_role("button", name="Open privacy policy"),
            lambda: page.get_by_role("button", name="No", exact=True).click(),
        )
        self.launches = self.panel.locator('[data-figure="launches"]')

    def wait_until_ready(self) -> None:
        """Return when the notebook is open and its Jupyter kernel idle."""
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=90_000)
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)

    def open_panel(self) -> None:
        """Click on the panel's tab."""
        self.page.get_by_role("tab", name="GPU slice").click()

    def choose(self, menu: str, item: str) -> None:
        """Choose an item of the menu bar."""
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        self.page.get_by_role("menuitem", name=item, exact=True).click()

    def run_all(self) -> None:
        """Run every cell, and return when the last has run; the notebook then shows its end."""
        self.choose("Run", "Run All Cells")
        last = self.page.locator(".jp-CodeCell").last
        expect(last.locator(".jp-InputPrompt")).to_have_text(HAS_RUN, timeout=60_000)

    def cell_with_output(self, start: str) -> Locator:
        """Return the code cell whose output begins with `start`; scrolls up to it, as far as need be."""
        begins = re.compile(f"^{re.escape(start)}")
        output = self.page.locator(".jp-OutputArea").filter(has_text=begins)
        cell = self.page.locator(".jp-CodeCell").filter(has=output)
        self.page.locator(".jp-Notebook").hover()
        for _ in range(30):
            if cell.count():
                return cell.first
            # Cells out of sight are not on the page.
            self.page.mouse.wheel(0, -300)
            self.page.wait_for_timeout(100)
        raise AssertionError(f"no cell's output begins with {start!r}")

    def run_cell(self, number: int) -> str:
        """Run a code cell, counted from 0, and return its output."""
        cell = self.page.locator(".jp-CodeCell").nth(number)
        cell.locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")
        expect(cell.locator(".jp-InputPrompt")).to_have_text(HAS_RUN, timeout=30_000)
        return cell.locator(".jp-OutputArea").inner_text()


@pytest.fixture
def lab(page: Page) -> Lab:
    """Return the page as a JupyterLab."""
    return Lab(page)
