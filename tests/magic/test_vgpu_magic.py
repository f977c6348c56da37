"""`%vgpu` in real IPython shells: in a slice of a simulated board, and without any."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.magic.top import between
from jupyter_vgpu.magic.view import SliceView

GIB = 1 << 30
CELLS = Path(__file__).with_name("cells.py")

LOAD = "%load_ext jupyter_vgpu"
SHOW = "%vgpu"
AS_JSON = "%vgpu --json"
HELP = "%vgpu --help"
KEEP = "view = %vgpu\nview.usage['devices'][0]['memory_limit_bytes']"
TYPO = "%vgpu --jsno"
FREE = "%vgpu free"
HOLD_3_GIB = """
from cuda.bindings import driver
driver.cuInit(0)
_, context = driver.cuDevicePrimaryCtxRetain(0)
driver.cuCtxSetCurrent(context)
error, pointer = driver.cuMemAlloc(3 << 30)
assert error == 0, error
"""
# What the context takes is known, and counted, half a second after it was made.
HELD = re.compile(r"(3\.\d) GiB of 19\.8 GiB")
LAUNCH_A_HUNDRED = """
_, module = driver.cuModuleLoadData(b"text")
_, busy = driver.cuModuleGetFunction(module, b"sim_busy_2000us")
for _ in range(100):
    driver.cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
driver.cuCtxSynchronize()
"""
TOP = "%vgpu top"
CEILING = ("--ceiling", "1/4", "--", sys.executable)
# An agent that had nobody to hold back.
QUIET = {"entitled": 0.25, "windows": 0, "overruns": 0, "violations": 0, "closed_seconds": 0.0}
ALL = [LOAD, HOLD_3_GIB, SHOW, AS_JSON, HELP, KEEP, TYPO, FREE]
IN_SLICE = ("-m", "jupyter_vgpu.cli", "run", "--simulate", "a100-80", "--share", "1/4", "--", sys.executable)

Results = dict[str, dict[str, Any]]


class _Reader(HTMLParser):
    """Collects the text and the attributes of the meter."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.meter: dict[str, str | None] = {}

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if ("role", "meter") in attrs:
            self.meter = dict(attrs)


def run_cells(folder: Path, cells: list[str], *before: str) -> Results:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER_VGPU_A")}
    completed = subprocess.run(
        [sys.executable, *before, str(CELLS)],
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environment, "IPYTHONDIR": str(folder / "ipython")},
        timeout=300,
    )
    assert completed.returncode == 0, completed.stderr
    return dict(zip(cells, json.loads(completed.stdout), strict=True))


@pytest.fixture(scope="module")
def in_slice(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run_cells(tmp_path_factory.mktemp("in-slice"), ALL, *IN_SLICE)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run_cells(tmp_path_factory.mktemp("without"), [LOAD, SHOW, AS_JSON, TYPO, FREE])


def test_the_text_has_memory_against_its_limit(in_slice: Results) -> None:
    text = in_slice[SHOW]["shown"]["text/plain"]

    assert in_slice[HOLD_3_GIB]["error"] == ""
    assert "Simulated" in text
    assert HELD.search(text)
    assert "[###-----------------]" in text
    assert "Enforced by intercept" in text
    assert "not isolated" in text


def test_the_html_says_the_same_also_to_a_screen_reader(in_slice: Results) -> None:
    reader = _Reader()
    reader.feed(in_slice[SHOW]["shown"]["text/html"])

    held = HELD.search(reader.text)
    assert held
    assert reader.meter["aria-valuetext"] == held[0]
    assert reader.meter["aria-valuenow"] == str(round(100 * float(held[1]) / 19.8))
    assert "simulated board" in reader.text


def test_json_carries_slice_and_usage_in_bytes(in_slice: Results) -> None:
    answer = json.loads(in_slice[AS_JSON]["printed"])

    assert (answer["reason"], answer["message"]) == ("", "")
    [device] = answer["usage"]["devices"]
    assert 3 * GIB <= device["memory_used_bytes"] < 4 * GIB
    assert device["uuid"] == answer["slice"]["devices"][0]["uuid"]
    assert len(answer["usage"]["processes"]) == 1


def test_the_view_can_be_kept(in_slice: Results) -> None:
    limit_bytes = int(in_slice[KEEP]["shown"]["text/plain"])

    assert limit_bytes == json.loads(in_slice[AS_JSON]["printed"])["slice"]["devices"][0]["memory_limit_bytes"]


def test_help_names_every_argument(in_slice: Results) -> None:
    assert "--json" in in_slice[HELP]["printed"]
    assert "--help" in in_slice[HELP]["printed"]


def test_an_unknown_argument_is_refused_with_what_is_allowed(in_slice: Results, without: Results) -> None:
    for results in (in_slice, without):
        assert "--jsno" in results[TYPO]["error"]
        assert "allowed are status, top, free, watch, --json" in results[TYPO]["error"]
        assert results[TYPO]["error"].endswith("Did you mean --json?")
        assert results[TYPO]["shown"] == {}


def test_free_says_that_there_is_nobody_to_ask(in_slice: Results, without: Results) -> None:
    freed, known = in_slice[FREE]["shown"]["text/plain"], without[FREE]["shown"]["text/plain"]

    assert known == "Nothing to free: no framework that caches GPU memory is loaded."
    assert re.match(
        r"Freed 0 B \(no framework that caches GPU memory is loaded\)\. This notebook now holds 3\.\d GiB", freed
    )


def test_without_a_slice_it_says_how_to_get_one(without: Results) -> None:
    shown = without[SHOW]["shown"]

    for form in ("text/plain", "text/html"):
        assert "No GPU slice" in shown[form]
        assert "jupyter vgpu run" in shown[form]
    assert json.loads(without[AS_JSON]["printed"])["reason"] == "unknown-claim"


def test_importing_the_package_loads_neither_server_nor_gpu_libraries() -> None:
    script = (
        "import sys, jupyter_vgpu; print([m for m in ('tornado', 'IPython', 'pynvml', 'cffi') if m in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"


@pytest.mark.parametrize(
    ("figures", "said", "unsaid"),
    [
        ({}, [], ["SM usage", "others"]),
        ({"sm_usage": 0.31}, ["SM usage  31%"], ["others"]),
        ({"pressure": {"neighbours": 0, "gpu_time_fraction": 0.0}}, ["no other slice of this GPU is at work"], []),
        ({"pressure": {"neighbours": 1, "gpu_time_fraction": 0.25}}, ["1 other slice is at work, 25% of"], ["SM"]),
        ({"pressure": {"neighbours": 3, "gpu_time_fraction": 0.6}}, ["3 other slices are at work, 60% of"], []),
        (
            {"gpu_time_seconds": 1234.56, "gpu_time_fraction": 0.43, "waited_seconds": 3.21, "waiting_fraction": 0.1},
            ["GPU time  1,234.6 s, 43% of the last second", "waited    3.2 s, 10% of the last second"],
            [],
        ),
        ({"throttled_launches": 0, "gated_seconds": 0.0, "governed": QUIET}, [], ["held back", "windows"]),
        ({"governed": None}, [], ["windows"]),
        ({"throttled_launches": 1200, "gated_seconds": 4.56}, ["held back 1,200 launches, for 4.6 s"], ["windows"]),
        ({"governed": {**QUIET, "windows": 3}}, ["windows   3 given, 0 overrun; below the share for 0 s"], []),
        (
            {"governed": {**QUIET, "windows": 4000, "overruns": 2, "violations": 7}},
            ["windows   4,000 given, 2 overrun; below the share for 7 s"],
            ["held back"],
        ),
        ({"governed": {**QUIET, "violations": 7}}, ["below the share for 7 s"], []),
    ],
)
def test_what_only_some_agents_tell_is_shown_where_it_is_told(
    in_slice: Results, figures: dict[str, Any], said: list[str], unsaid: list[str]
) -> None:
    answer = json.loads(in_slice[AS_JSON]["printed"])
    [device] = answer["usage"]["devices"]
    old = {name: value for name, value in device.items() if name not in ("pressure", "sm_usage")}

    view = SliceView(answer["slice"], {**answer["usage"], "devices": [{**old, **figures}]})

    html = view._repr_mimebundle_()["text/html"]
    assert all(text in repr(view) for text in said)
    assert not any(text in repr(view) for text in unsaid)
    assert all(re.split("  +|held back ", text)[-1] in html for text in said)


def test_a_process_has_its_time_and_what_was_held_back_of_it(in_slice: Results) -> None:
    answer = json.loads(in_slice[AS_JSON]["printed"])
    [process] = answer["usage"]["processes"]
    [device] = process["devices"]
    used = {"memory_bytes": 3 * GIB, "launches": 2000, "gpu_time_seconds": 1.24, "waited_seconds": 0.5}

    def shown(**figures: float) -> tuple[str, str]:
        devices = [{**device, **used, **figures}]
        view = SliceView(answer["slice"], {**answer["usage"], "processes": [{**process, "devices": devices}]})
        return repr(view), view._repr_mimebundle_()["text/html"]

    at_once = "3.0 GiB, GPU time 1.2 s, waited 0.5 s, 2,000 launches"
    for text in shown(throttled_launches=1100):
        assert f"{at_once}, 1,100 of them held back" in text
    for text in shown(throttled_launches=0):
        assert at_once in text
        assert "held back" not in text


def test_top_counts_what_is_held_back_a_second_where_something_ever_was(in_slice: Results) -> None:
    usage = json.loads(in_slice[AS_JSON]["printed"])["usage"]
    [process] = usage["processes"]

    def reading(seconds: float, held_back: int) -> Any:
        devices = [{**process["devices"][0], "throttled_launches": held_back}]
        return {**usage, "time": seconds, "processes": [{**process, "devices": devices}]}

    busy, never = between(reading(10, 200), reading(12, 3200)), between(reading(10, 0), reading(12, 0))

    assert repr(busy).splitlines()[0].endswith("launches/s  held back/s")
    assert repr(busy).splitlines()[-1].endswith(" 1,500")
    assert busy._repr_mimebundle_()["text/html"].count("1,500</td>") == 1
    row = busy.as_json()["rows"][-1]
    assert (row["throttled_launches"], row["held_back_per_second"]) == (3200, 1500)
    for text in never._repr_mimebundle_().values():
        assert "held back" not in text


def test_what_a_ceiling_holds_back_is_shown_to_whom_it_holds_back(tmp_path: Path) -> None:
    results = run_cells(tmp_path, [LOAD, HOLD_3_GIB, LAUNCH_A_HUNDRED, SHOW, TOP], *IN_SLICE[:-2], *CEILING)

    assert results[LAUNCH_A_HUNDRED]["error"] == ""
    shown = results[SHOW]["shown"]
    assert re.search(r"^    held back [1-9]\d* launches, for \d+\.\d s$", shown["text/plain"], re.M)
    assert re.search(r"launches, [1-9]\d* of them held back$", shown["text/plain"], re.M)
    assert re.search(r"<th[^>]*>Held back</th><td[^>]*>[1-9]\d* launches, for ", shown["text/html"])
    assert "held back/s" in results[TOP]["shown"]["text/plain"].splitlines()[0]
    assert ">held back/s</th>" in results[TOP]["shown"]["text/html"]


def test_devices_of_the_same_kind_are_told_apart_by_number(in_slice: Results) -> None:
    answer = json.loads(in_slice[AS_JSON]["printed"])
    [device] = answer["usage"]["devices"]
    assert "GPU 0" not in repr(SliceView(answer["slice"], answer["usage"]))

    view = SliceView(answer["slice"], {**answer["usage"], "devices": [device, {**device, "uuid": "GPU-another"}]})

    for text in (repr(view), view._repr_mimebundle_()["text/html"]):
        assert [text.count(f"GPU {ordinal}: {device['name']}") for ordinal in range(3)] == [1, 1, 0]
