"""The same panel in the front ends there are: the guided tour in JupyterLab, Notebook 7, and the oldest JupyterLab."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

Lab = Any
StartLab = Callable[..., str]

TOUR = Path(__file__).parents[2] / "binder" / "guided-tour.ipynb"
OLDEST_LAB = "4.0.13"
HOLD_2_GIB = """
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
print(driver.cuMemAlloc(2 << 30)[0].name)
"""


def code_cells(path: Path) -> list[str]:
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_the_guided_tour_shows_what_it_says(lab: Lab, page: Page, start_lab: StartLab) -> None:
    cells = code_cells(TOUR)
    page.goto(start_lab(cells))
    lab.wait_until_ready()
    lab.open_panel()

    shown = [lab.run_cell(number) for number in range(len(cells))]

    assert "GPU slice" in shown[0]
    assert "GiB free of 19.8 GiB" in shown[1]
    assert re.search(r"launches\s+500", shown[2])
    assert "CUDA_ERROR_OUT_OF_MEMORY" in shown[3]
    assert "this notebook holds 8.0 GiB" in shown[3]
    assert "this notebook" in shown[4]
    expect(lab.notebook.locator('[data-figure="held"]')).to_contain_text(re.compile(r"^0 B"))


def test_a_browser_loads_no_more_of_the_panel_than_is_allowed() -> None:
    size = Path(__file__).parents[2] / "tools" / "labextension_size.py"

    told = subprocess.run([sys.executable, size], capture_output=True, text=True)

    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.slow
def test_notebook_7_has_the_panel_too(lab: Lab, page: Page, start_lab: StartLab) -> None:
    page.goto(start_lab([HOLD_2_GIB], application="notebook"))
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=90_000)
    page.locator('.jp-NotebookKernelStatus, [data-status="idle"]').first.wait_for(state="attached")
    lab.command("Show GPU Slice")

    expect(lab.memory).to_have_text("0 B of 19.8 GiB")
    assert "CUDA_SUCCESS" in lab.run_cell(0)
    expect(lab.notebook.locator('[data-figure="held"]')).to_contain_text("2.0 GiB")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_oldest_jupyterlab_has_it_too(lab: Lab, page: Page, start_lab: StartLab, tmp_path: Path) -> None:
    venv = tmp_path / "oldest"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin" / "python"
    wanted = [
        f"jupyterlab=={OLDEST_LAB}",
        "ipykernel",
        "cuda-bindings>=12.8",
        "prometheus_client",
        "nvidia-ml-py",
        "cffi",
    ]
    subprocess.run([python, "-m", "pip", "install", "-q", "pydantic>=2.8", *wanted], check=True)
    root = Path(__file__).parents[2]
    [site] = (venv / "lib").glob("python*/site-packages")
    (site / "here.pth").write_text(f"{root}\n")
    extensions = venv / "share" / "jupyter" / "labextensions" / "@jupyter-vgpu"
    extensions.mkdir(parents=True, exist_ok=True)
    (extensions / "labextension").symlink_to(root / "jupyter_vgpu" / "labextension")
    config = venv / "etc" / "jupyter" / "jupyter_server_config.d"
    config.mkdir(parents=True, exist_ok=True)
    (config / "jupyter_vgpu.json").symlink_to(root / "jupyter-config" / "jupyter_server_config.d" / "jupyter_vgpu.json")

    page.goto(start_lab([HOLD_2_GIB], python=str(python)))
    lab.wait_until_ready()
    lab.open_panel()

    expect(lab.memory).to_have_text("0 B of 19.8 GiB")
    assert "CUDA_SUCCESS" in lab.run_cell(0)
    expect(lab.notebook.locator('[data-figure="held"]')).to_contain_text("2.0 GiB")
    expect(lab.panel.locator(".jp-VGPUChart canvas").first).to_be_visible()
