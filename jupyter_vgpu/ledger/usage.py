"""What claims used, by the hour; hours long past are summed into days, and days longer past are dropped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from jupyter_vgpu.ledger.rollup import DAY_SECONDS, HOUR_SECONDS, Part, Reading
from jupyter_vgpu.ledger.tables import ClaimRow, ReadingRow, UsageRow

KEPT_HOURS_DAYS = 35
KEPT_DAYS = 800


@dataclass(frozen=True)
class Used:
    """What one claim used in one hour, or one day of UTC."""

    entry_id: int
    claim_id: str | None
    user: str
    server: str
    profile: str
    groups: tuple[str, ...]
    starts_at: datetime
    span_seconds: int
    gpu_seconds: float
    memory_byte_seconds: float
    waited_seconds: float


class UsageBook:
    """One hub's usage samples; part of its ledger, written by one process at a time."""

    def __init__(self, hub_name: str, session: Callable[[], AbstractContextManager[Session]]) -> None:
        """Take the ledger's hub name and its way to open a session."""
        self._hub_name = hub_name
        self._session = session

    def last_readings(self) -> dict[int, Reading]:
        """Return the last reading of each claim that is still held, by entry."""
        query = select(ReadingRow).join(ClaimRow).where(ClaimRow.hub == self._hub_name, ClaimRow.state != "released")
        with self._session() as session:
            return {
                row.entry_id: Reading(row.at.timestamp(), row.gpu_seconds, row.waited_seconds, row.memory_bytes)
                for row in session.scalars(query)
            }

    def record(self, readings: Iterable[tuple[int, Reading, Sequence[Part]]]) -> None:
        """Add what was used since the last readings, and keep the new ones: all of it or, on an error, nothing.

        Args:
            readings: Entry, its new reading, and what was used up to it.
        """
        with self._session() as session:
            for entry_id, reading, parts in readings:
                for part in parts:
                    starts_at = datetime.fromtimestamp(part.starts_at, timezone.utc)
                    row = _row(session, entry_id, HOUR_SECONDS, starts_at)
                    _add(row, part.gpu_seconds, part.memory_byte_seconds, part.waited_seconds)
                session.merge(
                    ReadingRow(
                        entry_id=entry_id,
                        at=datetime.fromtimestamp(reading.at, timezone.utc),
                        gpu_seconds=reading.gpu_seconds,
                        waited_seconds=reading.waited_seconds,
                        memory_bytes=reading.memory_bytes,
                    )
                )

    def used(self, since: datetime, until: datetime, user: str | None = None) -> list[Used]:
        """Return what was used in the hours and days that began in a time, oldest first.

        Args:
            since: First moment, with its time zone.
            until: First moment that is not in it any more.
            user: Whose; `None` = everybody's.
        """
        query = (
            select(UsageRow, ClaimRow)
            .join(ClaimRow, UsageRow.entry_id == ClaimRow.entry_id)
            .where(ClaimRow.hub == self._hub_name, UsageRow.starts_at >= since, UsageRow.starts_at < until)
            .order_by(UsageRow.starts_at, UsageRow.entry_id)
        )
        if user is not None:
            query = query.where(ClaimRow.user_name == user)
        with self._session() as session:
            return [_used(row, claim) for row, claim in session.execute(query)]

    def tidy(self, now: datetime, kept_hours_days: int = KEPT_HOURS_DAYS, kept_days: int = KEPT_DAYS) -> None:
        """Sum hours that are long past into days, and drop days longer past and readings of claims that ended.

        Args:
            now: The time, with its time zone.
            kept_hours_days: Whole days of UTC for which hours are kept, besides today.
            kept_days: Days for which days are kept, more than `kept_hours_days`.
        """
        today = now.astimezone(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
        with self._session() as session:
            self._sum_hours(session, today - timedelta(days=kept_hours_days))
            ours = select(ClaimRow.entry_id).where(ClaimRow.hub == self._hub_name)
            session.execute(
                delete(UsageRow).where(
                    UsageRow.starts_at < today - timedelta(days=kept_days), UsageRow.entry_id.in_(ours)
                )
            )
            ended = ours.where(ClaimRow.state == "released")
            session.execute(delete(ReadingRow).where(ReadingRow.entry_id.in_(ended)))

    def _sum_hours(self, session: Session, before: datetime) -> None:
        query = (
            select(UsageRow)
            .join(ClaimRow)
            .where(ClaimRow.hub == self._hub_name, UsageRow.span_seconds == HOUR_SECONDS, UsageRow.starts_at < before)
        )
        days: defaultdict[tuple[int, datetime], list[UsageRow]] = defaultdict(list)
        for hour in session.scalars(query):
            days[hour.entry_id, hour.starts_at.replace(hour=0)].append(hour)
        for (entry_id, starts_at), hours in days.items():
            row = _row(session, entry_id, DAY_SECONDS, starts_at)
            for hour in hours:
                _add(row, hour.gpu_seconds, hour.memory_byte_seconds, hour.waited_seconds)
                session.delete(hour)


def _row(session: Session, entry_id: int, span_seconds: int, starts_at: datetime) -> UsageRow:
    """Return the row of an hour or a day, a new one where there is none."""
    row = session.get(UsageRow, (entry_id, span_seconds, starts_at))
    if row is None:
        row = UsageRow(entry_id=entry_id, span_seconds=span_seconds, starts_at=starts_at)
        row.gpu_seconds = row.memory_byte_seconds = row.waited_seconds = 0.0
        session.add(row)
        session.flush()
    return row


def _add(row: UsageRow, gpu_seconds: float, memory_byte_seconds: float, waited_seconds: float) -> None:
    row.gpu_seconds += gpu_seconds
    row.memory_byte_seconds += memory_byte_seconds
    row.waited_seconds += waited_seconds


def _used(row: UsageRow, claim: ClaimRow) -> Used:
    return Used(
        entry_id=row.entry_id,
        claim_id=claim.claim_id,
        user=claim.user_name,
        server=claim.server_name,
        profile=claim.profile,
        groups=tuple(claim.groups),
        starts_at=row.starts_at,
        span_seconds=row.span_seconds,
        gpu_seconds=row.gpu_seconds,
        memory_byte_seconds=row.memory_byte_seconds,
        waited_seconds=row.waited_seconds,
    )
