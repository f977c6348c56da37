"""The ledger on SQLite and on a real PostgreSQL, from old tables to new ones, and while its database is away."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text

from jupyter_vgpu.ledger import Ledger, LedgerError
from jupyter_vgpu.ledger.migrations import VERSION_TABLE
from jupyter_vgpu.ledger.tables import Base

# As the version before migrations made it. source: jupyter_vgpu at commit 97d6e3d, `Base.metadata.create_all`
TABLES_OF_VERSION_1 = """
CREATE TABLE vgpu_meta (key VARCHAR(40) NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE vgpu_claims (entry_id INTEGER NOT NULL PRIMARY KEY, claim_id VARCHAR(80) UNIQUE, hub VARCHAR(255) NOT NULL,
  tenant VARCHAR(600) NOT NULL, user_name VARCHAR(255) NOT NULL, server_name VARCHAR(255) NOT NULL,
  profile VARCHAR(255) NOT NULL, backend VARCHAR(40) NOT NULL, node VARCHAR(255) NOT NULL, devices JSON NOT NULL,
  state VARCHAR(20) NOT NULL, requested_at DATETIME NOT NULL, bound_at DATETIME, released_at DATETIME,
  ended_because TEXT NOT NULL);
CREATE INDEX vgpu_claims_by_server ON vgpu_claims (hub, user_name, server_name, state);
CREATE TABLE vgpu_events (event_id INTEGER NOT NULL PRIMARY KEY, entry_id INTEGER NOT NULL,
  at DATETIME NOT NULL, kind VARCHAR(40) NOT NULL, detail TEXT NOT NULL,
  FOREIGN KEY(entry_id) REFERENCES vgpu_claims (entry_id));
CREATE INDEX ix_vgpu_events_entry_id ON vgpu_events (entry_id);
INSERT INTO vgpu_meta VALUES ('schema_version', '1'), ('hub_name', 'lab-1234');
INSERT INTO vgpu_claims VALUES (1, 'c1', 'lab-1234', 'ada', 'ada', '', '1/4 GPU', 'intercept', 'node', '[]', 'bound',
  '2026-01-01 10:00:00', '2026-01-01 10:00:01', NULL, '');
INSERT INTO vgpu_events VALUES (1, 1, '2026-01-01 10:00:00', 'requested', '');
"""


def test_the_migrations_lead_to_the_tables_that_the_code_uses(url: str) -> None:
    Ledger(url).close()

    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        differences = compare_metadata(context, Base.metadata)
    engine.dispose()

    assert differences == []


def test_a_life_of_a_claim_and_of_a_place_in_the_queue(url: str) -> None:
    ledger = Ledger(url)
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    device = {"memory_bytes": 1 << 30, "share": 0.25}

    entry_id = ledger.open_entry("ada", "", "ada", "1/4 GPU", "node", ["course"], [device])
    ledger.bind(entry_id, "c1", "intercept", [device])
    first, again = ledger.places.take("bob", "", "1/4 GPU"), ledger.places.take("bob", "", "1/4 GPU")
    ledger.close_entry(entry_id, "stopped")

    (held,) = ledger.held_since(before)
    assert (held.groups, held.devices, held.state) == (("course",), (device,), "released")
    assert first == again
    assert ledger.places.all() == [first]
    ledger.places.leave(first.place_id, "granted")
    assert ledger.places.all() == []
    ledger.close()


def test_what_several_got_is_written_down_together_or_not_at_all(url: str) -> None:
    ledger = Ledger(url)
    entries = [ledger.open_entry(user, "", user, "1/4 GPU", "node") for user in ("ada", "bob")]
    place = ledger.places.take("ada", "", "1/4 GPU")

    with pytest.raises(LedgerError), ledger.together():
        ledger.bind(entries[0], "c1", "intercept", [], place.place_id)
        ledger.bind(entries[1] + 99, "c2", "intercept", [])
    states_after_failure, waiting_after_failure = [one.state for one in ledger.open_entries()], ledger.places.all()
    with ledger.together():
        ledger.bind(entries[0], "c1", "intercept", [], place.place_id)
        ledger.bind(entries[1], "c2", "intercept", [])

    assert (states_after_failure, waiting_after_failure) == (["pending", "pending"], [place])
    assert [(one.state, one.claim_id) for one in ledger.open_entries()] == [("bound", "c1"), ("bound", "c2")]
    assert ledger.places.all() == []
    ledger.close()


def test_a_place_in_the_queue_outlives_the_hub(url: str) -> None:
    ledger = Ledger(url)
    place = ledger.places.take("bob", "", "1/4 GPU")
    ledger.close()

    again = Ledger(url)

    assert again.places.all() == [place]
    assert again.places.take("bob", "", "1/4 GPU").arrived_at == place.arrived_at
    assert again.places.take("bob", "", "1/2 GPU").place_id != place.place_id
    assert [waiting.profile for waiting in again.places.all()] == ["1/2 GPU"]
    again.close()


def test_a_ledger_from_before_there_were_migrations_is_taken_over_whole(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.sqlite'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in TABLES_OF_VERSION_1.split(";\n"):
            connection.execute(text(statement))
    engine.dispose()

    ledger = Ledger(url)

    (entry,) = ledger.open_entries()
    assert (ledger.hub_name, entry.claim_id, entry.groups) == ("lab-1234", "c1", ())
    assert [kind for _, kind, _ in ledger.events(1)] == ["requested"]
    ledger.close()


def test_when_the_database_is_away_it_says_so_and_nothing_is_lost_when_it_returns(postgres: Any) -> None:
    ledger = Ledger(postgres.url)
    ledger.open_entry("ada", "", "ada", "1/4 GPU", "node")

    postgres.stop()
    with pytest.raises(LedgerError, match="cannot be used"):
        ledger.open_entry("bob", "", "bob", "1/4 GPU", "node")
    postgres.start()

    assert [entry.user for entry in ledger.open_entries()] == ["ada"]
    ledger.open_entry("bob", "", "bob", "1/4 GPU", "node")
    assert [entry.user for entry in ledger.open_entries()] == ["ada", "bob"]
    ledger.close()
