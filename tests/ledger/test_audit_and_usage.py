"""What the ledger remembers besides claims: who did what, and what was used when. On SQLite and PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from jupyter_vgpu.ledger import Ledger, Part, Reading

NOON = datetime(2026, 3, 29, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    ledger = Ledger(url)
    yield ledger
    ledger.close()


def bound(ledger: Ledger, user: str, claim_id: str = "c1", groups: tuple[str, ...] = ()) -> int:
    entry_id = ledger.open_entry(user, "", user, "1/4 GPU", "node", groups)
    ledger.bind(entry_id, claim_id, "intercept", [{"uuid": "GPU-0", "memory_bytes": 1, "share": 0.25}])
    return entry_id


def part(at: datetime, seconds: float) -> Part:
    return Part(int(at.timestamp()), seconds, seconds * 2, seconds / 2)


def reading(at: datetime, seconds: float) -> Reading:
    return Reading(at.timestamp(), seconds, seconds / 2, 1 << 40)


def test_a_revoked_claim_ended_because_it_was_revoked_whoever_notes_the_end(ledger: Ledger) -> None:
    entry_id = bound(ledger, "ada")

    assert ledger.revoke(entry_id, "root", "exam at ten")
    ledger.close_entry(entry_id, "the server was stopped")

    (entry,) = ledger.history("ada")
    assert entry.ended_because == "revoked by root: exam at ten"
    newest, revoked = ledger.audit.recent(2)
    assert (newest.kind, newest.detail, newest.by) == ("released", "revoked by root: exam at ten", "")
    assert (revoked.kind, revoked.detail, revoked.by) == ("revoked", "exam at ten", "root")
    assert (revoked.user, revoked.claim_id, revoked.profile) == ("ada", "c1", "1/4 GPU")


def test_what_has_ended_cannot_be_revoked_any_more(ledger: Ledger) -> None:
    entry_id = bound(ledger, "ada")
    ledger.close_entry(entry_id, "the server was stopped")

    assert not ledger.revoke(entry_id, "root")

    assert ledger.history("ada")[0].ended_because == "the server was stopped"
    assert "revoked" not in [kind for _, kind, _ in ledger.events(entry_id)]


def test_a_refused_start_is_remembered_though_it_never_was_a_claim(ledger: Ledger) -> None:
    before = datetime.now(timezone.utc)

    ledger.audit.note("refused", "bob", "second", "quota: 1 slice at once")

    (event,) = ledger.audit.recent(10)
    assert (event.kind, event.user, event.server, event.claim_id) == ("refused", "bob", "second", "")
    assert before <= event.at <= datetime.now(timezone.utc)
    assert event.at.utcoffset() == timedelta(0)


def test_events_are_found_by_user_by_wish_and_page_by_page(ledger: Ledger) -> None:
    for number in range(1200):
        ledger.audit.note("refused", "ada" if number % 400 == 0 else "bob", "", str(number))

    assert [event.detail for event in ledger.audit.recent(2)] == ["1199", "1198"]
    assert [event.detail for event in ledger.audit.recent(9, user="ada")] == ["800", "400", "0"]
    assert [event.detail for event in ledger.audit.recent(9, is_wanted=lambda e: e.user == "ada")] == [
        "800",
        "400",
        "0",
    ]
    oldest_shown = ledger.audit.recent(3)[-1].event_id
    assert [event.detail for event in ledger.audit.recent(1, before=oldest_shown)] == ["1196"]


def test_one_hub_does_not_see_the_events_and_the_use_of_another(url: str, ledger: Ledger) -> None:
    other = Ledger(url, "another-hub")
    entry_id = bound(other, "eve", "c9")
    other.usage.record([(entry_id, reading(NOON, 5), [part(NOON, 5)])])

    assert ledger.audit.recent(10) == []
    assert ledger.usage.used(NOON, NOON + HOUR) == []
    assert ledger.usage.last_readings() == {}
    assert len(other.usage.used(NOON, NOON + HOUR)) == 1
    other.close()


def test_what_is_used_adds_up_by_the_hour(ledger: Ledger) -> None:
    ada, bob = bound(ledger, "ada", "c1", ("course",)), bound(ledger, "bob", "c2")

    ledger.usage.record([(ada, reading(NOON, 10), [part(NOON, 10)]), (bob, reading(NOON, 1), [part(NOON, 1)])])
    ledger.usage.record([(ada, reading(NOON + HOUR, 25), [part(NOON, 8), part(NOON + HOUR, 7)])])

    used = ledger.usage.used(NOON, NOON + 2 * HOUR)
    assert [(u.user, u.starts_at, u.gpu_seconds) for u in used] == [
        ("ada", NOON, 18.0),
        ("bob", NOON, 1.0),
        ("ada", NOON + HOUR, 7.0),
    ]
    assert (used[0].memory_byte_seconds, used[0].waited_seconds, used[0].groups) == (36.0, 9.0, ("course",))
    assert [u.user for u in ledger.usage.used(NOON, NOON + HOUR, "bob")] == ["bob"]
    assert ledger.usage.last_readings() == {ada: reading(NOON + HOUR, 25), bob: reading(NOON, 1)}


def test_an_error_in_the_middle_records_nothing(ledger: Ledger) -> None:
    ada = bound(ledger, "ada")
    broken: list[Part] = [part(NOON, 1), None]  # type: ignore[list-item]

    with pytest.raises(AttributeError):
        ledger.usage.record([(ada, reading(NOON, 1), broken)])

    assert ledger.usage.used(NOON, NOON + HOUR) == []


def test_hours_long_past_become_days_of_utc_and_old_days_go(ledger: Ledger) -> None:
    ada = bound(ledger, "ada")
    day = NOON.replace(hour=0)
    hours = [part(day + number * HOUR, 1.0) for number in range(48)]
    ledger.usage.record([(ada, reading(NOON, 48), hours)])

    for _ in range(2):  # twice is once
        ledger.usage.tidy(day + timedelta(days=31, hours=5), kept_hours_days=30, kept_days=400)
    used = ledger.usage.used(day, day + timedelta(days=9))

    assert [(u.starts_at, u.span_seconds, u.gpu_seconds) for u in used][:2] == [
        (day, 86_400, 24.0),
        (day + timedelta(days=1), 3600, 1.0),
    ]
    assert sum(u.gpu_seconds for u in used) == 48.0
    ledger.usage.tidy(day + timedelta(days=401), kept_hours_days=30, kept_days=400)
    assert [(u.starts_at, u.gpu_seconds) for u in ledger.usage.used(day, day + timedelta(days=9))] == [
        (day + timedelta(days=1), 24.0)
    ]


def test_readings_of_claims_that_ended_are_dropped(ledger: Ledger) -> None:
    ada, bob = bound(ledger, "ada", "c1"), bound(ledger, "bob", "c2")
    ledger.usage.record([(ada, reading(NOON, 1), []), (bob, reading(NOON, 1), [])])
    ledger.close_entry(ada, "stopped")

    ledger.usage.tidy(NOON)

    assert list(ledger.usage.last_readings()) == [bob]


def test_events_of_an_older_ledger_are_told_whose_they_were(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'older.sqlite'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        from alembic import command

        from jupyter_vgpu.ledger.migrations import _config

        command.upgrade(_config(connection), "0002")
        for statement in (
            "INSERT INTO vgpu_meta VALUES ('hub_name', 'lab')",
            "INSERT INTO vgpu_claims (entry_id, claim_id, hub, tenant, user_name, server_name, profile, backend, node,"
            " devices, state, requested_at, ended_because)"
            " VALUES (1, 'c1', 'lab', 'ada/x', 'ada', 'x', '1/4 GPU', 'intercept',"
            " 'node', '[]', 'bound', '2026-01-01 10:00:00', '')",
            "INSERT INTO vgpu_events VALUES (1, 1, '2026-01-01 10:00:00', 'requested', '')",
        ):
            connection.execute(text(statement))
    engine.dispose()

    ledger = Ledger(url)

    (event,) = ledger.audit.recent(9)
    assert (event.user, event.server, event.kind, event.claim_id) == ("ada", "x", "requested", "c1")
    ledger.audit.note("refused", "bob", "")
    assert ledger.open_entries()[0].revoked_by == ""
    ledger.close()


WRITER = """
import sys
from jupyter_vgpu.ledger import Ledger
ledger = Ledger(sys.argv[1], "lab")
for number in range(40):
    entry_id = ledger.open_entry(sys.argv[2], "", sys.argv[2], "1/4 GPU", "node")
    ledger.bind(entry_id, f"{sys.argv[2]}-{number}", "intercept", [])
    ledger.open_entries()
    ledger.close_entry(entry_id, "stopped")
"""


def test_hub_and_service_write_to_one_file_and_neither_is_turned_away(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    ledger = Ledger(url, "lab")

    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, user], stderr=subprocess.PIPE, text=True)
        for user in ("hub", "service", "third")
    ]
    said = [writer.communicate(timeout=500)[1] for writer in writers]

    assert [writer.returncode for writer in writers] == [0, 0, 0], said
    assert len(ledger.audit.recent(1000)) == 3 * 40 * 3
    ledger.close()
