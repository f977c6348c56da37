"""JupyterLab in a slice of a simulated board: the panel follows what the notebook does."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from harness.agents import NodeAgent
from jupyter_vgpu.model import ClaimRequest, Memory, Profile

Lab = Any
StartLab = Callable[..., str]
KeepPicture = Callable[..., None]

READY, ONE_GIB, TOO_MUCH, ANOTHER_GIB, MAGIC, NEARLY_ALL, LAUNCH, SPIN, QUEUE = range(9)
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
    "most = check(driver.cuMemAlloc(16 * GIB)); print('got', 'it')",
    """
import time
module = check(driver.cuModuleLoadData(b"text\\0"))
busy = check(driver.cuModuleGetFunction(module, b"sim_busy_2000us"))
try:
    while True:
        check(driver.cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
        check(driver.cuCtxSynchronize())
        time.sleep(0.002)
except KeyboardInterrupt:
    print("launched")
""",
    "print('begun')\nwhile True:\n    pass",
    # More than a ceiling lets through at once.
    """
module = check(driver.cuModuleLoadData(b"text\\0"))
busy = check(driver.cuModuleGetFunction(module, b"sim_busy_2000us"))
for _ in range(200):
    check(driver.cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
check(driver.cuCtxSynchronize())
print("queued")
""",
]
# So high, all of the panel is on a picture.
PICTURE = 1250
# JupyterLab's own least is 250 pixels.
NARROW = "#jupyter-vgpu-panel { width: 200px !important; min-width: 0 !important; max-width: 200px !important; }"


@pytest.fixture(scope="module")
def url(start_lab: StartLab) -> str:
    """Return the address of a notebook in a JupyterLab that runs in a quarter of a board."""
    return start_lab(CELLS, environment={"JUPYTER_VGPU_IDLE_SECONDS": "7200"})


def test_the_panel_follows_a_notebook_to_its_limit_and_back(
    lab: Lab, page: Page, url: str, keep_picture: KeepPicture
) -> None:
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if "/jupyter-vgpu/" in request.url else None)
    page.goto(url)
    lab.wait_until_ready()
    lab.open_panel()
    expect(lab.memory).to_have_text("0 B of 19.8 GiB")
    expect(lab.panel).to_contain_text("Simulated")
    expect(lab.panel).to_contain_text("not isolated")

    assert "ready" in lab.run_cell(READY)
    assert "got it" in lab.run_cell(ONE_GIB)
    expect(lab.notebook.locator('[data-figure="held"]')).to_contain_text("1.0 GiB")
    # What the notebook asked for, and a context's overhead.
    expect(lab.memory).to_have_text(re.compile(r"1\.\d GiB of 19\.8 GiB"))
    assert re.fullmatch(r"1\.\d GiB of 19\.8 GiB", lab.meter.get_attribute("aria-valuetext") or "")
    expect(lab.meter.locator("[data-part]").first).to_have_attribute("title", "try.ipynb: 1.0 GiB")

    refusal = lab.run_cell(TOO_MUCH)
    assert "CUDA_ERROR_OUT_OF_MEMORY" in refusal
    assert "got it" not in refusal

    assert "got it" in lab.run_cell(ANOTHER_GIB)
    expect(lab.notebook.locator('[data-figure="held"]')).to_contain_text("2.0 GiB")
    expect(page.locator(".jp-VGPUStatus")).to_have_text(re.compile(r"GPU: 2\.\d/19\.8 GiB( \d+ %)?"))

    assert "Enforced by intercept" in lab.run_cell(MAGIC)
    expect(lab.panel.locator('[data-figure="verified"]')).to_have_text(re.compile(r"\d+ s ago"))

    running = lab.start_cell(LAUNCH)
    expect(lab.panel.locator('[data-figure="gpu-time"]')).to_have_text(re.compile(r"[1-9]\d? %"))
    expect(lab.notebook.locator('[data-figure="held"]')).to_have_text(re.compile(r"2\.0 GiB, [1-9]\d? %"))
    expect(lab.launches).not_to_have_text("0")
    lab.panel.get_by_label("History of how long").select_option("1")
    keep_picture("at-work", height=PICTURE, after_seconds=15)
    lab.panel.get_by_role("button", name="Interrupt try.ipynb").click()
    assert "launched" in lab.wait_for(running)

    assert "got it" in lab.run_cell(NEARLY_ALL)
    warning = lab.panel.get_by_role("status")
    expect(warning).to_contain_text("Memory is nearly used up")
    expect(warning).to_contain_text("try.ipynb holds most: run %vgpu free there")
    assert lab.violations("#jupyter-vgpu-panel") == []
    assert lab.violations(".jp-VGPUStatus") == []
    keep_picture("panel-light", height=PICTURE)

    lab.use_theme("JupyterLab Dark")
    expect(lab.panel.locator('[data-figure="held"]')).to_contain_text("18.0 GiB")
    assert lab.violations("#jupyter-vgpu-panel") == []
    assert lab.violations(".jp-VGPUStatus") == []
    keep_picture("panel-dark", height=PICTURE)
    lab.use_theme("JupyterLab Light")

    lab.panel.get_by_role("button", name="Restart the Jupyter kernel of try.ipynb").click()
    expect(page.get_by_role("dialog")).to_contain_text("18.0 GiB")
    page.get_by_role("button", name="Restart", exact=True).click()
    expect(lab.memory).to_have_text("0 B of 19.8 GiB")
    # The open notebook goes on with the new Jupyter kernel.
    assert "ready" in lab.run_cell(READY)

    spinning = lab.start_cell(SPIN).locator(".jp-OutputArea")
    # An interrupt that comes before the Jupyter kernel has begun with the cell is lost.
    expect(spinning).to_contain_text("begun")
    lab.panel.get_by_role("button", name="Interrupt try.ipynb").click()
    expect(spinning).to_contain_text("KeyboardInterrupt")

    assert len(streams) == 1, "panel and status bar share one stream, and nothing polls beside it"


def test_the_panel_can_be_used_with_the_keyboard_and_in_little_room(
    lab: Lab, page: Page, url: str, keep_picture: KeepPicture
) -> None:
    page.goto(url)
    lab.wait_until_ready()

    history = lab.panel.get_by_label("History of how long")
    hour = lab.panel.get_by_role("img", name=re.compile("last 60 min"))
    lab.command("Show the Last 15 min")
    # At once: the palette, once closed, hands the focus to the notebook, and the panel takes it back.
    page.keyboard.press("Tab")
    assert lab.panel.evaluate("panel => panel.contains(document.activeElement)")
    expect(history).to_have_value("15")
    # Past the controls of a notebook that may be there.
    for _ in range(6):
        if history.evaluate("node => node === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(hour.last).to_be_visible()
    expect(history).to_have_value("60")

    page.add_style_tag(content=NARROW)
    canvas = lab.panel.locator(".jp-VGPUChart canvas").last
    expect(canvas).to_have_css("width", re.compile(r"1[5-9]\d(\.\d+)?px"))
    assert_nothing_is_cut(lab)
    keep_picture("little-room", height=PICTURE)


def test_what_was_held_back_is_told_when_asked_also_in_little_room(
    lab: Lab, page: Page, start_lab: StartLab, keep_picture: KeepPicture
) -> None:
    page.goto(start_lab(CELLS, wishes=("--ceiling", "1/4")))
    lab.wait_until_ready()
    lab.open_panel()
    assert "ready" in lab.run_cell(READY)
    assert "queued" in lab.run_cell(QUEUE)

    details = lab.panel.locator('[data-section="details"]')
    of_slice = details.locator('[data-figure="held-back"]')
    expect(of_slice).to_have_text(re.compile(r"[1-9]\d* launches, for \d+\.\d s"))
    expect(of_slice).not_to_be_visible()
    summary = details.get_by_text("Details of GPU time")
    summary.focus()
    page.keyboard.press("Enter")
    expect(of_slice).to_be_visible()
    of_notebook = details.get_by_role("group", name="try.ipynb").locator('[data-figure="holder-held-back"]')
    expect(of_notebook).to_have_text(re.compile(r"[1-9]\d* of \d+ launches"))
    assert lab.violations("#jupyter-vgpu-panel") == []

    page.add_style_tag(content=NARROW)
    expect(lab.panel).to_have_css("width", "200px")
    assert_nothing_is_cut(lab)
    keep_picture("held-back", height=PICTURE)


def assert_nothing_is_cut(lab: Lab) -> None:
    width, needed = lab.panel.evaluate("node => [node.clientWidth, node.scrollWidth]")
    assert needed <= width <= 200
    cut = lab.panel.evaluate(
        """node => [...node.querySelectorAll('[data-figure], h2, h3, h4, dt, summary')]
        .filter(item => item.scrollWidth > item.clientWidth + 1 && getComputedStyle(item).display !== 'inline')
        .map(item => item.textContent)"""
    )
    assert cut == []


def test_a_notebook_is_given_a_part_of_the_slice_in_the_panel(lab: Lab, page: Page, url: str) -> None:
    page.goto(url)
    lab.wait_until_ready()
    lab.open_panel()
    choice = lab.panel.get_by_label("Part of the slice for try.ipynb")
    chosen = choice.locator("option:checked")
    expect(chosen).to_have_text("whole slice")

    choice.select_option("1/4")
    expect(page.get_by_role("dialog")).to_contain_text("loses all its variables")
    page.get_by_role("button", name="Restart", exact=True).click()

    expect(chosen).to_have_text("1/4 (5.0 GiB)")
    assert "ready" in lab.run_cell(READY)
    assert "got it" in lab.run_cell(ONE_GIB)
    assert "CUDA_ERROR_OUT_OF_MEMORY" in lab.run_cell(NEARLY_ALL)
    expect(lab.notebook.locator('[data-figure="held"]')).to_contain_text("1.0 GiB")
    expect(lab.panel.locator('[data-figure="pressure"]')).to_have_text("none at work")
    assert lab.violations("#jupyter-vgpu-panel") == []

    choice.select_option("other")
    page.get_by_role("dialog").get_by_role("textbox").fill("40GiB")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Restart", exact=True).click()

    expect(page.get_by_role("dialog")).to_contain_text("the largest part that would fit")
    page.keyboard.press("Enter")
    expect(chosen).to_have_text("1/4 (5.0 GiB)")

    choice.select_option("")
    page.get_by_role("button", name="Restart", exact=True).click()
    expect(chosen).to_have_text("whole slice")


def test_an_idle_server_is_kept_with_the_keyboard(
    lab: Lab, page: Page, start_lab: StartLab, keep_picture: KeepPicture
) -> None:
    page.goto(start_lab(["1"], environment={"JUPYTER_VGPU_IDLE_SECONDS": "60"}))
    lab.wait_until_ready()
    lab.command("Show GPU Slice")

    expect(lab.panel.get_by_role("status")).to_contain_text("your server is stopped in 1 min unless you go on")
    assert lab.violations("#jupyter-vgpu-panel") == []
    keep_picture("idle")

    with page.expect_response(lambda response: "/jupyter-vgpu/keep" in response.url) as kept:
        lab.panel.get_by_role("button", name="Keep").press("Enter")

    assert kept.value.status == 200
    assert kept.value.json()["session"]["idle_left_seconds"] > 0


def test_without_a_slice_the_panel_says_how_to_get_one(
    lab: Lab, page: Page, start_lab: StartLab, keep_picture: KeepPicture
) -> None:
    page.goto(start_lab(["1"], in_slice=False))
    lab.wait_until_ready()
    lab.open_panel()

    expect(lab.panel.locator('[data-state="no-slice"]')).to_contain_text("Choose a GPU profile")
    expect(page.locator(".jp-VGPUStatus")).to_have_text("")
    assert lab.violations("#jupyter-vgpu-panel") == []
    keep_picture("no-slice")


def test_an_agent_that_goes_is_missed_and_followed_again_when_it_is_back(
    lab: Lab,
    page: Page,
    start_lab: StartLab,
    tmp_path_factory: pytest.TempPathFactory,
    keep_picture: KeepPicture,
) -> None:
    profile = Profile("1/4 GPU", share_ppm=250_000, ceiling_ppm=1_000_000, memory=Memory(Fraction(1, 4)))
    with NodeAgent(tmp_path_factory.mktemp("agent")).running() as agent:
        granted = agent.hub.create_claim(ClaimRequest("ada", "a hub", os.getuid(), profile))
        inherited = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
        page.goto(start_lab(["1"], in_slice=False, environment=granted.edits.applied_to(inherited)))
        lab.wait_until_ready()
        lab.open_panel()
        expect(lab.memory).to_have_text("0 B of 19.8 GiB")
        status = page.locator(".jp-VGPUStatus")

        agent.end(signal.SIGKILL)
        expect(lab.panel.locator('[data-state="agent-unreachable"]')).to_contain_text("Programs that use the GPU go on")
        expect(status).to_have_text("GPU: Agent not reachable")
        assert lab.violations("#jupyter-vgpu-panel") == []
        assert lab.violations(".jp-VGPUStatus") == []
        keep_picture("agent-unreachable")

        agent.start()
        expect(lab.memory).to_have_text("0 B of 19.8 GiB")
        expect(status).to_contain_text("GPU: 0.0/19.8 GiB")
        expect(lab.panel.locator("[data-state]")).to_have_count(0)
