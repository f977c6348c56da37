"""What the spawn page says can be had, and how it says so."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.hub.availability import End, offers
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


def test_the_form_says_what_a_profile_guarantees() -> None:
    page = form({"sure": {"share": "1/4", "guarantee": "1/8"}}, [device()])

    assert "20.0 GiB of GPU memory, 1/4 of its time, 1/8 guaranteed each second. 4 of 4 free now." in page.text


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


def taken(at: float, share: float, number: int = 0) -> End:
    return End(at, [{"uuid": f"GPU-{number}", "memory_bytes": int(share * 80) * GIB, "share": share}])


@pytest.mark.parametrize(
    ("entry", "devices", "ends", "expected"),
    [
        pytest.param({"share": "1/4"}, [device(free_share=0.0)], [taken(9, 0.25), taken(5, 0.25)], 5, id="the first"),
        pytest.param({"share": "1/2"}, [device(free_share=0.0)], [taken(9, 0.25), taken(5, 0.25)], 9, id="both"),
        pytest.param(
            {"share": "1/2"},
            [device(0, 0.0), device(1, 0.0)],
            [taken(5, 0.25, 0), taken(6, 0.25, 1), taken(7, 0.25, 1)],
            7,
            id="two on one device, not one on each",
        ),
        pytest.param({"backend": "whole"}, [device(free_share=0.5)], [taken(5, 0.5)], 5, id="a whole one"),
        pytest.param({"backend": "whole"}, [device(free_share=0.0)], [taken(5, 0.5)], None, id="some of it for ever"),
        pytest.param({"share": "1/4"}, [device(free_share=0.0)], [], None, id="no end is known"),
        pytest.param({"share": "1/4"}, [device(free_share=0.0)], [taken(5, 1.0, 7)], None, id="another node's device"),
        pytest.param({"share": "1/4"}, [device()], [taken(5, 1.0)], None, id="free now"),
    ],
)
def test_the_page_knows_when_the_next_is_free(
    entry: dict[str, object], devices: list[DeviceInfo], ends: list[End], expected: float | None
) -> None:
    (offer,) = offers(parse_profiles({"it": entry}), devices, ends=ends)

    assert offer.free_at == expected


@pytest.mark.parametrize(
    ("there", "isolation", "free"),
    [
        pytest.param([], "lab: group exam", 4, id="an empty device is anyone's"),
        pytest.param(["lab: group exam"], "lab: group exam", 2, id="one of the same group"),
        pytest.param(["lab: group exam"], "", 0, id="an isolated group lets nobody in"),
        pytest.param([""], "lab: group exam", 0, id="nor does it go to others"),
        pytest.param(["hall: group exam"], "lab: group exam", 0, id="another hub's group of that name is another"),
        pytest.param([""], "", 2, id="those of none share"),
    ],
)
def test_who_is_isolated_is_offered_what_nobody_else_is_on(there: list[str], isolation: str, free: int) -> None:
    one = device(free_share=0.5 if there else 1.0)
    one["isolation"] = there

    (offer,) = offers(parse_profiles({"it": {"share": "1/4"}}), [one], isolation)

    assert (offer.free, offer.total) == (free, 4)


def test_a_drained_device_is_counted_out() -> None:
    drained, used = device(0), device(1)
    drained["drained"] = True
    profiles = parse_profiles({"1/4": {"share": "1/4"}, "pair": {"share": 1, "devices": 2}})

    quarter, pair = offers(profiles, [drained, used])
    (none,) = offers(profiles[:1], [drained])

    assert (quarter.free, quarter.total) == (4, 4)
    assert (pair.total, pair.obstacle) == (0, "it needs 2 GPUs, this node has 1, and 1 out of use")
    assert none.obstacle == "all GPUs of this node are out of use"


def test_a_server_without_a_gpu_can_be_had_whatever_happens() -> None:
    for devices in (None, [], [device(free_share=0.0)]):
        page = form({"no GPU": {"gpu": False}}, devices)

        assert "No GPU. Always free." in page.text
        assert ["disabled" in field for field in page.inputs] == [False]
