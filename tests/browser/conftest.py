"""A real browser, and pages in it that tell what went wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, TimeoutError, expect, sync_playwright

from harness import ports
from harness.panel import what_is_stale

ROOT = Path(__file__).parents[2]
AXE = ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
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
# Marks a cell once its prompt says that it waits or runs: the number of its last run stands there until then.
MARK_BEGUN = """cell => {
  const prompt = cell.querySelector('.jp-InputPrompt');
  cell.dataset.begun = 'no';
  new MutationObserver((_, observer) => {
    if (prompt.textContent.includes('*')) {
      cell.dataset.begun = 'yes';
      observer.disconnect();
    }
  }).observe(prompt, { childList: true, characterData: true, subtree: true });
}"""

# Notes which key was pressed in the command palette's entry.
NOTE_KEYS = """entry => {
  window.keyOfPalette = '';
  entry.addEventListener('keydown', event => (window.keyOfPalette = event.key), { once: true });
}"""

# What is waited for comes when it comes: this machine may be busy with others.
expect.set_options(timeout=120_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            if item.get_closest_marker("timeout") is None:
                # A journey is long where the machine is busy; what hangs is ended by its own waits before.
                item.add_marker(pytest.mark.timeout(600))


# Not for the whole session: while Playwright is there, an event loop counts as running in this thread, and no test
# elsewhere could run one of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return the system's Chromium, or Playwright's own where the system has none."""
    assert not (stale := what_is_stale()), stale
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
    context.set_default_timeout(120_000)
    page = context.new_page()
    yield page
    context.close()


@pytest.fixture
def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    return ports.free_port()


@pytest.fixture
def run_python(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return a function that starts a Python program and returns its log; all are ended after the test."""
    with python_runner(tmp_path) as run:
        yield run


@pytest.fixture(scope="module")
def start_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Return a function that starts a JupyterLab with one notebook, `try.ipynb`, and returns its address.

    It runs at the base URL `/a/b/`, in a quarter of a simulated board unless told otherwise. All are ended after the
    module's tests.
    """
    folder = tmp_path_factory.mktemp("lab")
    path = f"{without_node(folder)}{os.pathsep}{os.environ['PATH']}"
    with python_runner(folder) as run:

        def start(
            cells: list[str],
            in_slice: bool = True,
            application: str = "jupyterlab",
            python: str = sys.executable,
            environment: dict[str, str] | None = None,
            wishes: tuple[str, ...] = (),
        ) -> str:
            port = ports.free_port()
            work = folder / f"work-{port}"
            work.mkdir()
            (work / "try.ipynb").write_text(notebook(cells))
            settings = folder / f"settings-{port}"
            without_news(settings)
            slice_of = ("-m", "jupyter_vgpu.cli", "run", "--simulate", "a100-80", "--share", "1/4", *wishes, "--")
            log = run(
                *((*slice_of, python) if in_slice else ()),
                *("-m", application, "--no-browser", "--allow-root", "--port", str(port)),
                *("--ServerApp.port_retries=0", "--ServerApp.base_url=/a/b/", "--IdentityProvider.token=secret"),
                f"--ServerApp.root_dir={work}",
                environment={"JUPYTER_CONFIG_DIR": str(settings), "PATH": path, **(environment or {})},
            )
            base = f"http://127.0.0.1:{port}/a/b/"
            wait_for(f"{base}api", log)
            page = "lab/tree" if application == "jupyterlab" else "notebooks"
            return f"{base}{page}/try.ipynb?token=secret"

        yield start


def without_node(folder: Path) -> Path:
    """Return a folder for PATH whose Node says nothing: JupyterLab asks it twice, at its start, what yarn is set to."""
    node = folder / "bin" / "node"
    node.parent.mkdir()
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    return node.parent


def without_news(settings: Path) -> None:
    """Say in a user's settings that JupyterLab is not to fetch news; asking whether it may, it would take the focus."""
    folder = settings / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    folder.mkdir(parents=True)
    (folder / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')


def notebook(cells: list[str]) -> str:
    """Return a notebook file with these code cells."""
    return json.dumps(
        {
            "cells": [
                {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "outputs": [],
                 "execution_count": None, "source": source.strip()}
                for number, source in enumerate(cells)
            ],
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )  # fmt: skip


def wait_for(url: str, log: Path) -> None:
    """Return once something answers at `url`."""
    deadline = time.monotonic() + 180
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.2)


@contextmanager
def python_runner(folder: Path) -> Iterator[Callable[..., Path]]:
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str, environment: dict[str, str] | None = None) -> Path:
        log = folder / f"log-{len(started)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=folder,
                env={**os.environ, "HOME": str(folder), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(process)
        return log

    try:
        yield run
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(180)


@pytest.fixture
def keep_picture(page: Page) -> Callable[..., None]:
    """Return a function that keeps a picture of the page, if $JUPYTER_VGPU_PICTURES names a folder for them.

    With a height in pixels, it is one of a page as high as that; with seconds, one of the page after so long.
    """
    folder = os.environ.get("JUPYTER_VGPU_PICTURES")

    def keep(name: str, height: int | None = None, after_seconds: float = 0.0) -> None:
        if not folder:
            return
        before = page.viewport_size
        assert before is not None
        page.set_viewport_size({**before, "height": height or before["height"]})
        page.wait_for_timeout(max(1.0, after_seconds) * 1000)  # the page takes in its new size
        page.screenshot(path=Path(folder) / f"{name}.png")
        page.set_viewport_size(before)

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
        self.notebook = self.panel.locator('[data-notebook="try.ipynb"]')

    def violations(self, selector: str) -> list[str]:
        """Return what axe-core has to say against a part of the page."""
        # Not as a script tag: RequireJS, which is on the page, would take it for a module of its own.
        self.page.evaluate(f"(() => {{ const define = undefined, module = undefined; {AXE.read_text()} }})()")
        result = self.page.evaluate("selector => window.axe.run(selector)", selector)
        assert result["passes"], "axe-core looked at nothing"
        return [
            f"{violation['id']}: {node['html']} {node['failureSummary']}"
            for violation in result["violations"]
            for node in violation["nodes"]
        ]

    def command(self, label: str) -> None:
        """Run a command through the command palette, with the keyboard alone."""
        palette = self.page.locator(".lm-CommandPalette:visible")
        entry = palette.locator("input")
        item = palette.locator(".lm-CommandPalette-item.lm-mod-active").filter(has_text=label)
        for _ in range(20):
            # The key does nothing until the application has taken in its shortcuts, closes a palette that an earlier
            # one opened late, and what else the page brings into focus closes it too.
            if not palette.count():
                self.page.keyboard.press("Control+Shift+C")
            try:
                entry.fill(label, timeout=3_000)
                item.wait_for(timeout=3_000)
                entry.evaluate(NOTE_KEYS, timeout=3_000)
                entry.press("Enter", timeout=3_000)
            except TimeoutError:
                continue
            # What took the focus in between had the key instead.
            if self.page.evaluate("window.keyOfPalette") == "Enter":
                return
        raise AssertionError(f"the command palette never offered {label!r}")

    def use_theme(self, name: str) -> None:
        """Choose a theme through the command palette."""
        self.command(f"Use Theme: {name}")
        self.page.locator(f'body[data-jp-theme-name="{name}"]').wait_for(state="attached")

    def wait_until_ready(self) -> None:
        """Return when the notebook is open and its Jupyter kernel idle."""
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=180_000)
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=180_000)

    def open_panel(self) -> None:
        """Click on the panel's tab, unless the page has brought an open panel back from the last visit."""
        for _ in range(20):
            # A click on the tab of an open panel closes it, and the page may bring it back at any moment.
            if not self.panel.is_visible():
                self.page.get_by_role("tab", name="GPU slice").click()
            try:
                self.panel.wait_for(timeout=3_000)
            except TimeoutError:
                continue
            return
        raise AssertionError("the panel does not open")

    def choose(self, menu: str, item: str) -> None:
        """Choose an item of the menu bar."""
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        self.page.get_by_role("menuitem", name=item, exact=True).click()

    def run_all(self) -> None:
        """Run every cell, and return when the last has run; the notebook then shows its end."""
        self.choose("Run", "Run All Cells")
        last = self.page.locator(".jp-CodeCell").last
        expect(last.locator(".jp-InputPrompt")).to_have_text(HAS_RUN, timeout=120_000)

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

    def start_cell(self, number: int) -> Locator:
        """Start a code cell, counted from 0, and return it."""
        cell = self.page.locator(".jp-CodeCell").nth(number)
        cell.locator(".jp-InputArea-editor").click()
        cell.evaluate(MARK_BEGUN)
        self.page.keyboard.press("Control+Enter")
        return cell

    def run_cell(self, number: int) -> str:
        """Run a code cell, counted from 0, and return its output."""
        return self.wait_for(self.start_cell(number))

    def wait_for(self, cell: Locator) -> str:
        """Wait for a cell that was started, and return its output."""
        expect(cell).to_have_attribute("data-begun", "yes")
        expect(cell.locator(".jp-InputPrompt")).to_have_text(HAS_RUN)
        return cell.locator(".jp-OutputArea").inner_text()


@pytest.fixture
def lab(page: Page) -> Lab:
    """Return the page as a JupyterLab."""
    return Lab(page)
