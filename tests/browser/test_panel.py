"""JupyterLab in a slice of a simulated board: the panel follows what the notebook does."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

Lab = Any

# What the panel may take to follow: a reading a second, and the way to the page.
FOLLOWS_WITHIN_MS = 3_000

CELLS = [
    """
from cuda.bindings import driver

GIB = 1 << 30

def check(answer):
    status, *values = answer
    if status:
        raise RuntimeError(status.name)
    return values[0] if values else None

check(driver.cuInit(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
print("ready")
""",
    "one = check(driver.cuMemAlloc(1 * GIB)); print('got', 'it')",
    "check(driver.cuMemAlloc(30 * GIB)); print('got', 'it')",
    "another = check(driver.cuMemAlloc(1 * GIB)); print('got', 'it')",
    "%load_ext jupyter_vgpu\n%vgpu",
]


def notebook(cells: list[str]) -> str:
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
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.2)


@pytest.fixture
def url(run_python: Callable[..., Path], free_port: int, tmp_path: Path) -> str:
    """Return the address of a notebook in a JupyterLab that runs in a quarter of a board."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "try.ipynb").write_text(notebook(CELLS))
    log = run_python(
        *("-m", "jupyter_vgpu.cli", "run", "--simulate", "a100-80", "--share", "1/4", "--"),
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port", str(free_port)),
        *("--ServerApp.port_retries=0", "--ServerApp.base_url=/a/b/", "--IdentityProvider.token=secret"),
        f"--ServerApp.root_dir={tmp_path / 'work'}",
        environment={"JUPYTER_CONFIG_DIR": str(tmp_path / "settings")},
    )
    wait_for(f"http://127.0.0.1:{free_port}/a/b/api", log)
    return f"http://127.0.0.1:{free_port}/a/b/lab/tree/try.ipynb?token=secret"


def test_the_panel_follows_a_notebook_to_its_limit_and_back(
    lab: Lab, page: Page, url: str, keep_picture: Callable[[str], None]
) -> None:
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if "/jupyter-vgpu/live" in request.url else None)
    page.goto(url)
    lab.wait_until_ready()
    lab.open_panel()
    expect(lab.memory).to_have_text("0 B of 19.8 GiB")
    expect(lab.panel).to_contain_text("Simulated")
    expect(lab.panel).to_contain_text("not isolated")

    assert "ready" in lab.run_cell(0)
    assert "got it" in lab.run_cell(1)
    expect(lab.memory).to_have_text("1.0 GiB of 19.8 GiB", timeout=FOLLOWS_WITHIN_MS)
    assert lab.meter.get_attribute("aria-valuetext") == "1.0 GiB of 19.8 GiB"

    refusal = lab.run_cell(2)
    assert "CUDA_ERROR_OUT_OF_MEMORY" in refusal
    assert "got it" not in refusal

    assert "got it" in lab.run_cell(3)
    expect(lab.memory).to_have_text("2.0 GiB of 19.8 GiB", timeout=FOLLOWS_WITHIN_MS)
    expect(page.locator(".jp-VGPUStatus")).to_have_text("GPU: 2.0 GiB of 19.8 GiB")

    assert "Enforced by intercept" in lab.run_cell(4)
    expect(lab.panel.locator('[data-figure="verified"]')).not_to_have_text("not yet")
    keep_picture("limit")
    assert len(streams) == 1, "panel and status bar share one stream"
