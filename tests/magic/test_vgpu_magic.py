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
    assert all(text.split("  ")[-1] in html for text in said)


def test_devices_of_the_same_kind_are_told_apart_by_number(in_slice: Results) -> None:
    answer = json.loads(in_slice[AS_JSON]["printed"])
    [device] = answer["usage"]["devices"]
    assert "GPU 0" not in repr(SliceView(answer["slice"], answer["usage"]))

    view = SliceView(answer["slice"], {**answer["usage"], "devices": [device, {**device, "uuid": "GPU-another"}]})

    for text in (repr(view), view._repr_mimebundle_()["text/html"]):
        assert [text.count(f"GPU {ordinal}: {device['name']}") for ordinal in range(3)] == [1, 1, 0]
