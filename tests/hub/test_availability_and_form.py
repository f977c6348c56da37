"""What the spawn page says can be had, and how it says so."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.hub.availability import offers
from jupyter_vgpu.hub.form import options_form
from jupyter_vgpu.units import GIB


def device(
    number: int = 0, free_share: float = 1.0, free_gib: float | None = None, total_gib: int = 80, held: int = 0
) -> DeviceInfo:
    """Return one device of the agent's answer, of which `free_share` of the time is free and as much memory."""
    return DeviceInfo(
        uuid=f"GPU-{number}",
        name="Simulated A100",
        index=number,
        total_bytes=total_gib * GIB,
        sm_count=108,
        driver_version="580",
        simulated=True,
        free_bytes=int((free_share * total_gib if free_gib is None else free_gib) * GIB),
        free_share=free_share,
        drained=False,
        isolation=[""] if held else [],
        claims=[f"c{n}" for n in range(held)],
    )


class Inputs(HTMLParser):
    """Collects what a browser would make of the form."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.inputs: list[dict[str, str | None]] = []
        self.labels: set[str | None] = set()
        self.ids: set[str | None] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids.add(found.get("id"))
        if tag == "input":
            self.inputs.append(found)
        else:
            self.open.append(tag)
        if tag == "label":
            self.labels.add(found.get("for"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def free_of(entry: dict[str, object], devices: list[DeviceInfo]) -> tuple[int | None, int | None]:
    (offer,) = offers(parse_profiles({"it": entry}), devices)
    return offer.free, offer.total


@pytest.mark.parametrize(
    ("entry", "devices", "expected"),
    [
        pytest.param({"share": "1/4"}, [device()], (4, 4), id="four quarters of an empty device"),
        pytest.param({"share": "1/4"}, [device(free_share=0.25, held=3)], (1, 4), id="one is left of four"),
        pytest.param({"share": "1/3"}, [device(free_share=0.666667)], (2, 3), id="thirds do not get lost in rounding"),
        pytest.param({"share": "1/4"}, [device(free_gib=19.9)], (0, 4), id="memory may be what is short"),
        pytest.param({"share": "1/4", "memory": "4GiB"}, [device(free_share=0.2)], (0, 4), id="time may be"),
        pytest.param({"memory": "20GiB"}, [device(free_share=0.5)], (2, 4), id="memory alone takes its share of time"),
        pytest.param({"memory": "90GiB"}, [device()], (0, 0), id="too large for any device"),
        pytest.param({"backend": "whole"}, [device(0, 0.5, held=1), device(1)], (1, 2), id="whole ones are untouched"),
        pytest.param({"share": "1/2"}, [device(0, 0.4), device(1, 0.4)], (0, 4), id="scraps of two make no half"),
        pytest.param({"share": "1/2", "devices": 2}, [device(0), device(1)], (2, 2), id="pairs"),
        pytest.param({"share": "1/2", "devices": 2}, [device(0), device(1, 0.5)], (1, 2), id="pairs, one half taken"),
        pytest.param({"share": 1, "devices": 2}, [device(n) for n in range(5)], (2, 2), id="two pairs of five"),
        pytest.param({"share": "1/4", "devices": 2}, [device()], (0, 0), id="a pair needs two devices"),
        pytest.param({"share": "1/4"}, [], (0, 0), id="no device"),
    ],
)
def test_as_many_are_free_as_would_fit(
    entry: dict[str, object], devices: list[DeviceInfo], expected: tuple[int, int]
) -> None:
    assert free_of(entry, devices) == expected


def test_without_the_agent_nothing_is_known() -> None:
    (offer,) = offers(parse_profiles({"it": {"share": 1}}), None)

    assert (offer.free, offer.total, offer.can_be_had) == (None, None, False)


def form(profiles: dict[str, dict[str, object]], devices: list[DeviceInfo] | None, last: object = None) -> Inputs:
    return Inputs(options_form(offers(parse_profiles(profiles), devices), devices, last, "no agent at <here>"))


QUARTER_AND_WHOLE: dict[str, dict[str, object]] = {"1/4 GPU": {"share": "1/4"}, "whole GPU": {"backend": "whole"}}


def test_the_form_says_how_many_are_free_and_what_they_are() -> None:
    page = form(QUARTER_AND_WHOLE, [device(free_share=0.75, held=1)])

    assert "20.0 GiB of GPU memory, 1/4 of its time. 3 of 4 free now." in page.text
    assert "None of 1 free now" in page.text


def test_what_cannot_be_had_is_disabled_and_what_can_is_preselected() -> None:
    page = form(QUARTER_AND_WHOLE, [device(free_share=0.75, held=1)])

    assert ["disabled" in field for field in page.inputs] == [False, True]
    assert ["checked" in field for field in page.inputs] == [True, False]


@pytest.mark.parametrize(
    ("last", "expected"),
    [("whole GPU", "whole GPU"), ("gone", "1/4 GPU"), (["whole GPU"], "1/4 GPU"), (None, "1/4 GPU")],
    ids=["the last choice", "one that is gone", "no text", "none"],
)
def test_the_last_choice_is_preselected_if_it_still_is_one(last: object, expected: str) -> None:
    page = form(QUARTER_AND_WHOLE, [device()], last)

    assert [field["value"] for field in page.inputs if "checked" in field] == [expected]


def test_every_field_has_a_label_and_a_note() -> None:
    page = form(QUARTER_AND_WHOLE, [device()])

    assert {field["id"] for field in page.inputs} == page.labels
    assert {field["aria-describedby"] for field in page.inputs} <= page.ids
    assert {field["name"] for field in page.inputs} == {"vgpu_profile"}


def test_without_the_agent_the_form_says_so_and_disables_all() -> None:
    page = form(QUARTER_AND_WHOLE, None)

    assert "does not answer" in page.text
    assert "no agent at <here>" in page.text
    assert all("disabled" in field for field in page.inputs)


def test_names_and_descriptions_are_text_and_nothing_else() -> None:
    name = '"><script>alert(1)</script>'

    page = form({name: {"share": "1/4", "description": "<b>&amp;</b>"}}, [device()])

    assert [field["value"] for field in page.inputs] == [name]
    assert "<b>&amp;</b>" in page.text
