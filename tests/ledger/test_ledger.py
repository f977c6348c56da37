"""The ledger remembers, in a real database."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.ledger import Ledger, LedgerError
from jupyter_vgpu.ledger.migrations import newest


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    ledger = Ledger(url)
    yield ledger
    ledger.close()


def bound(ledger: Ledger, user: str, server: str = "", claim_id: str = "c1") -> int:
    entry_id = ledger.open_entry(user, server, f"{user}/{server}", "1/4 GPU", "node")
    ledger.bind(entry_id, claim_id, "intercept", [{"uuid": "GPU-0", "memory_bytes": 1}])
    return entry_id


def test_a_claim_goes_from_pending_over_bound_to_released(ledger: Ledger) -> None:
    entry_id = ledger.open_entry("ada", "", "ada", "1/4 GPU", "node")
    states = [ledger.history("ada")[0].state]
    ledger.bind(entry_id, "c1", "intercept", [])
    states.append(ledger.history("ada")[0].state)
    ledger.close_entry(entry_id, "stopped")
    states.append(ledger.history("ada")[0].state)

    assert states == ["pending", "bound", "released"]
    assert ledger.open_entries() == []
    assert [kind for _, kind, _ in ledger.events(entry_id)] == ["requested", "bound", "released"]


def test_moments_come_back_with_their_time_zone(ledger: Ledger) -> None:
    before = datetime.now(timezone.utc)
    bound(ledger, "ada")

    (entry,) = ledger.open_entries("ada")

    assert entry.bound_at is not None
    assert entry.requested_at.utcoffset() == timedelta(0)
    assert before <= entry.requested_at <= entry.bound_at <= datetime.now(timezone.utc)


def test_closing_twice_is_closing_once(ledger: Ledger) -> None:
    entry_id = bound(ledger, "ada")

    assert ledger.close_entry(entry_id, "first")
    assert not ledger.close_entry(entry_id, "second")
    assert ledger.history("ada")[0].ended_because == "first"


def test_servers_of_one_user_are_kept_apart(ledger: Ledger) -> None:
    bound(ledger, "ada", "", "c1")
    bound(ledger, "ada", "two", "c2")

    assert [entry.claim_id for entry in ledger.open_entries("ada")] == ["c1"]
    assert [entry.claim_id for entry in ledger.open_entries("ada", "two")] == ["c2"]
    assert len(ledger.open_entries()) == 2


def test_hubs_that_share_a_database_see_only_their_own(url: str, ledger: Ledger) -> None:
    other = Ledger(url, hub_name="another")
    bound(other, "ada", "", "c9")

    assert ledger.open_entries() == []
    assert [entry.claim_id for entry in other.open_entries()] == ["c9"]
    other.close()


def test_the_hubs_name_survives_a_restart_and_is_nobody_elses(url: str, ledger: Ledger, tmp_path: Path) -> None:
    again = Ledger(url)
    elsewhere = Ledger(f"sqlite:///{tmp_path / 'elsewhere.sqlite'}")

    assert again.hub_name == ledger.hub_name
    assert elsewhere.hub_name != ledger.hub_name
    again.close()
    elsewhere.close()


def test_a_forgotten_claim_is_adopted_once(ledger: Ledger) -> None:
    for _ in range(2):
        ledger.adopt("ada", "", "ada", "1/4 GPU", "node", "c1")

    (entry,) = ledger.open_entries("ada")
    assert (entry.claim_id, entry.state) == ("c1", "bound")


def test_a_new_file_is_its_owners_alone(ledger: Ledger, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "ledger.sqlite").stat().st_mode) == 0o600


def test_a_ledger_of_another_version_is_refused_and_left_as_it_is(url: str, ledger: Ledger) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE vgpu_alembic_version SET version_num = '0099'"))

    with pytest.raises(BadValueError, match=rf"ledger_url.*version {newest()} or older is, and this one has 0099"):
        Ledger(url)

    with engine.begin() as connection:
        assert connection.execute(text("SELECT version_num FROM vgpu_alembic_version")).scalar() == "0099"
    engine.dispose()


@pytest.mark.parametrize("bad", ["ledger.sqlite", "", "nosuchdb:///x"], ids=["a path", "nothing", "no such database"])
def test_what_is_no_url_is_refused_by_name(bad: str) -> None:
    with pytest.raises(BadValueError, match=r"ledger_url.*an SQLAlchemy URL is"):
        Ledger(bad)


def test_a_database_that_cannot_be_opened_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"ledger at sqlite:///.*cannot be used"):
        Ledger(f"sqlite:///{tmp_path / 'no' / 'such' / 'folder.sqlite'}")


def test_every_moment_is_stored_with_its_time_zone(ledger: Ledger, url: str) -> None:
    from jupyter_vgpu.ledger.tables import Base, UtcDateTime

    moments = [
        column for table in Base.metadata.tables.values() for column in table.columns if column.name.endswith("at")
    ]

    assert len(moments) == 8
    assert all(isinstance(column.type, UtcDateTime) for column in moments)
    engine = create_engine(url)
    assert {*Base.metadata.tables, "vgpu_alembic_version"} == set(inspect(engine).get_table_names())
    engine.dispose()
