"""Windows of quotas over what the ledger gives back: whatever clocks and time zones did meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_vgpu.hub.holdings import holding_of
from jupyter_vgpu.ledger import Entry, Ledger
from jupyter_vgpu.ledger.tables import ClaimRow
from jupyter_vgpu.quota import used_seconds

NOW = datetime(2026, 10, 25, 1, 0, tzinfo=timezone.utc)  # in Berlin, an hour is about to come twice
DAY = 86_400.0

zones = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia"]).map(ZoneInfo)
offsets = st.floats(-20 * DAY, 20 * DAY)  # ends before starts, starts after now: clocks jump
claims = st.tuples(offsets, st.none() | offsets, st.none() | offsets, st.sampled_from([0.125, 0.5, 2.0]), zones)


@pytest.fixture(scope="module")
def ledger() -> Iterator[Ledger]:
    opened = Ledger("sqlite://")
    yield opened
    opened.close()


def write(ledger: Ledger, lives: list[tuple[float, float | None, float | None, float, ZoneInfo]]) -> None:
    with ledger._session() as session:
        session.query(ClaimRow).delete()
        for number, (requested, bound, released, share, zone) in enumerate(lives):
            at = [None if moment is None else moment_in(moment, zone) for moment in (requested, bound, released)]
            session.add(
                ClaimRow(
                    hub=ledger.hub_name,
                    tenant=f"t{number}",
                    user_name="ada",
                    profile="p",
                    node="n",
                    devices=[{"memory_bytes": 1, "share": share}],
                    state="released" if released is not None else "bound",
                    requested_at=at[0],
                    bound_at=at[1],
                    released_at=at[2],
                )
            )


def moment_in(seconds: float, zone: ZoneInfo) -> datetime:
    return (NOW + timedelta(seconds=seconds)).astimezone(zone)


def used(entries: list[Entry], window: float, now: float) -> float:
    return used_seconds([holding_of(entry) for entry in entries], window, now)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lives=st.lists(claims, max_size=8), window=st.floats(3600, 15 * DAY), jump=offsets)
def test_what_the_ledger_leaves_out_of_a_window_would_not_have_counted(
    ledger: Ledger,
    lives: list[tuple[float, float | None, float | None, float, ZoneInfo]],
    window: float,
    jump: float,
) -> None:
    write(ledger, lives)
    now = NOW.timestamp() + jump
    refused = [entry for entry in ledger.history("ada") if entry.bound_at is None and entry.released_at is not None]

    within = ledger.held_since(datetime.fromtimestamp(now - window, timezone.utc))

    all_granted = [entry for entry in ledger.history("ada") if entry not in refused]
    assert used(within, window, now) == pytest.approx(used(all_granted, window, now), abs=1e-3)
    assert not [entry for entry in within if entry in refused]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seconds=offsets, zone=zones)
def test_a_moment_is_the_same_moment_whatever_time_zone_it_was_written_in(
    ledger: Ledger, seconds: float, zone: ZoneInfo
) -> None:
    write(ledger, [(seconds, seconds, None, 0.5, zone)])

    (entry,) = ledger.history("ada")

    assert entry.requested_at == moment_in(seconds, ZoneInfo("UTC"))
    assert entry.requested_at.utcoffset() == timedelta()
    assert holding_of(entry).started_at == pytest.approx(NOW.timestamp() + seconds, abs=1e-5)


def test_the_hour_that_comes_twice_is_two_hours_of_use(ledger: Ledger) -> None:
    """02:30 to 02:30 in Berlin, on the night on which the clocks are put back."""
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    second = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=berlin)
    start, end = ((moment.astimezone(timezone.utc) - NOW).total_seconds() for moment in (first, second))

    write(ledger, [(start, start, end, 1.0, berlin)])

    assert used(ledger.history("ada"), DAY, second.timestamp() + 60) == pytest.approx(3600)
