"""Events: kept per claim, logged once a minute."""

from __future__ import annotations

import logging

import pytest

from jupyter_vgpu.agent.events import Event, EventLog


def test_one_claims_flood_hides_nobody_elses(caplog: pytest.LogCaptureFixture) -> None:
    events = EventLog()
    events.add(Event(1.0, "bypass", "the one", "other", 1))

    with caplog.at_level(logging.WARNING):
        for number in range(500):
            events.add(Event(2.0 + number, "bypass", f"number {number}", "flooder", number))

    assert [event.message for event in events.of("other")] == ["the one"]
    assert len(events.of("flooder")) == 100
    assert events.of("flooder")[-1].message == "number 499"
    assert events.counts["bypass"] == 501
    assert events.counts_of("flooder") == {"bypass": 500}
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [
        "claim other",
        "claim flooder",
    ]


def test_all_are_in_order_of_time() -> None:
    events = EventLog()
    for at, claim_id in ((1.0, "a"), (2.0, None), (3.0, "a"), (4.0, "b")):
        events.add(Event(at, "meter", "", claim_id))

    assert [event.at for event in events.all()] == [1.0, 2.0, 3.0, 4.0]


def test_a_released_claims_events_are_let_go_and_stay_counted() -> None:
    events = EventLog()
    events.add(Event(1.0, "usage", "", "a"))

    events.forget("a")

    assert (events.of("a"), events.all(), events.counts["usage"]) == ([], [], 1)
