"""What the page shows, whatever names people give to things and whatever is away."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tornado.template import Loader

import jupyter_vgpu.service
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.ledger import Event, Ledger, LedgerError, Place
from jupyter_vgpu.model import ClaimRequest
from jupyter_vgpu.service.holdings import Held, HeldDevice, Overview, held_claims, held_to_wire
from jupyter_vgpu.service.lookout import Lookout
from jupyter_vgpu.service.revocation import Outcome
from jupyter_vgpu.service.rights import Viewer
from jupyter_vgpu.service.showing import overview_values, shown_event

HOSTILE = """<img src=x onerror=alert(1)>"' & <b>bold</b>{{ 7 * 7 }}"""
TEMPLATES = Loader(str(Path(jupyter_vgpu.service.__file__).with_name("templates")))
ROOT = Viewer(HOSTILE, "user", frozenset({"read:servers", "delete:servers"}))
HELD_DEVICE = HeldDevice("GPU-0", HOSTILE, 0, 1 << 30, 0.25)
HELD = Held("c1", 1, "", HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, 5.0, HOSTILE, "", (HELD_DEVICE,))
DEVICE: Any = {
    "uuid": "GPU-0", "name": HOSTILE, "index": 0, "total_bytes": 1 << 36, "sm_count": 1, "driver_version": "1",
    "simulated": True, "free_bytes": 1 << 35, "free_share": 0.5, "claims": ["c1"], "drained": False, "isolation": [],
}  # fmt: skip
NOW = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)


class Reader(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.text += " ".join(value or "" for _, value in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def rendered(template: str, **values: Any) -> Reader:
    reader = Reader()
    reader.feed(TEMPLATES.load(template).generate(base="/services/vgpu/", hub="/hub/", viewer=ROOT, **values).decode())
    return reader


def pages() -> dict[str, Reader]:
    overview = Overview(0.0, (HELD,), (DEVICE,), (Place(1, HOSTILE, HOSTILE, HOSTILE, NOW),), (HOSTILE,))
    event = Event(1, NOW, "revoked", HOSTILE, HOSTILE, HOSTILE, HOSTILE, "c1", HOSTILE, ())
    values = overview_values(overview, ROOT)
    return {
        "overview": rendered("overview.html", xsrf="x", events=[shown_event(event)], **values),
        "tables": rendered("tables.html", **values),
        "revoke": rendered("revoke.html", one=HELD, longest=200, xsrf=""),
        "revoked": rendered("revoked.html", one=HELD, outcome=Outcome(True, "stopped", (HOSTILE,))),
        "device": rendered("device.html", device=DEVICE, longest=200, xsrf=""),
        "error": rendered("error.html", message=HOSTILE),
    }


def test_no_name_reason_or_message_becomes_a_part_of_a_page() -> None:
    assert set(pages()) | {"page"} == {path.stem for path in Path(TEMPLATES.root).iterdir()}
    for name, page in pages().items():
        assert "img" not in page.tags, name
        assert "b" not in page.tags, name
        assert page.handlers == [], name
        assert HOSTILE in page.text, name


def test_moments_are_shown_in_utc_also_in_the_hour_that_summer_time_skips() -> None:
    overview = Overview(0.0, (), (), (Place(1, "ada", "", "1/4 GPU", NOW),), ())

    (waiting,) = overview_values(overview, ROOT)["waiting"]

    assert waiting["since"] == {"iso": "2026-03-29T01:30:00Z", "text": "2026-03-29 01:30:00 UTC"}


def test_what_is_guaranteed_is_shown_with_the_seconds_that_missed_it() -> None:
    def shown(violations: int | None) -> str:
        kept: Any = violations if violations is None else {"violations": violations}
        device = replace(HELD_DEVICE, guarantee=0.125, guaranteed=kept)
        (row,) = overview_values(Overview(0.0, (replace(HELD, devices=(device,)),), (), (), ()), ROOT)["rows"]
        return str(row["guaranteed"])

    (none,) = overview_values(Overview(0.0, (HELD,), (), (), ()), ROOT)["rows"]

    assert (shown(None), shown(0), shown(3)) == ("12.5%", "12.5%", "12.5%, missed in 3 s")
    assert none["guaranteed"] == "–"
    assert "guarantee" not in held_to_wire(HELD, ROOT)["devices"][0]


@pytest.mark.parametrize(("guarantee", "is_shown"), [(0.125, True), (0.0, False)], ids=["one has one", "none has"])
def test_a_column_of_guarantees_is_there_where_there_is_one(guarantee: float, is_shown: bool) -> None:
    device = replace(HELD_DEVICE, guarantee=guarantee)
    held = (HELD, replace(HELD, claim="c2", devices=(device,)))

    page = rendered("tables.html", **overview_values(Overview(0.0, held, (), (), ()), ROOT))

    assert ("Guaranteed" in page.text) == is_shown
    # Each row has a cell for each head: the row's own head is one of them.
    assert page.tags.count("td") + len(held) == len(held) * (page.tags.count("th") - len(held))


def test_a_page_without_slices_says_how_to_have_one_and_leads_back_to_the_hub() -> None:
    values = overview_values(Overview(0.0, (), (), (), ()), ROOT)

    page = rendered("overview.html", xsrf="x", events=[], **values)

    assert "Whoever starts a server with a GPU holds one." in page.text
    assert "/hub/home" in page.text
    assert "table" not in page.tags


def test_the_agent_and_without_it_the_ledger_say_what_is_guaranteed(agent: Any, tmp_path: Path) -> None:
    (profile,) = parse_profiles({"1/4 GPU": {"share": "1/4", "guarantee": "1/8"}})
    granted = agent.hub.create_claim(ClaimRequest("ada", "lab", os.getuid(), profile))
    claim = granted.claim
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", "lab")
    ledger.bind(ledger.open_entry("ada", "", "ada", "1/4 GPU", "node"), claim["claim"], "intercept", claim["devices"])

    (held,) = asyncio.run(Lookout(agent.hub, lambda: ledger, "lab").look()).held
    (remembered,) = held_claims("lab", None, ledger.open_entries(), [], {})
    ledger.close()
    agent.hub.release_claim(claim["claim"])

    (device,) = held_to_wire(held, ROOT)["devices"]
    assert (device["guarantee"], device["guaranteed"]["least"]) == (0.125, 0.125)
    assert remembered.devices[0].guarantee == 0.125


@pytest.fixture
def claim_id(agent: Any) -> Any:
    (profile,) = parse_profiles({"1/4 GPU": {"share": "1/4"}})
    granted = agent.hub.create_claim(ClaimRequest("ada", "lab", os.getuid(), profile))
    yield granted.claim["claim"]
    agent.hub.release_claim(granted.claim["claim"])


def test_while_the_ledger_is_away_the_agent_tells_and_the_page_says_what_is_missing(
    agent: Any, claim_id: str, tmp_path: Path
) -> None:
    def away() -> Ledger:
        return Ledger(f"sqlite:///{tmp_path / 'no' / 'such' / 'folder.sqlite'}")

    overview = asyncio.run(Lookout(agent.hub, away, "lab").look())

    assert [(one.claim, one.user) for one in overview.held] == [(claim_id, "ada")]
    assert len(overview.troubles) == 1
    assert overview.troubles[0].startswith("The ledger does not answer")


def test_a_ledger_that_comes_back_is_used_again(agent: Any, claim_id: str, tmp_path: Path) -> None:
    tries = []

    def open_ledger() -> Ledger:
        tries.append(1)
        if len(tries) == 1:
            raise LedgerError("away")
        return Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", "lab")

    async def look_twice() -> list[Overview]:
        lookout = Lookout(agent.hub, open_ledger, "lab")
        seen = [await lookout.look(), await lookout.look(0)]
        lookout.close()
        return seen

    first, second = asyncio.run(look_twice())

    assert first.troubles
    assert not second.troubles
    assert [one.claim for one in second.held] == [claim_id]
