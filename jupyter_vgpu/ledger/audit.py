"""What happened, to whom, and by whom: events of claims and of starts that were refused. Never deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timezone

from sqlalchemy import select
from sqlalchemy.orm import Session

from jupyter_vgpu.ledger.tables import ClaimRow, EventRow

_AT_A_TIME = 500


@dataclass(frozen=True)
class Event:
    """Something that happened; see `tables.EventRow` for the fields.

    Attributes:
        claim_id: The agent's, empty when there was no claim.
        profile: Of the claim; empty when there was none.
        groups: The user's groups when the claim was asked for.
    """

    event_id: int
    at: datetime
    kind: str
    user: str
    server: str
    detail: str
    by: str
    claim_id: str
    profile: str
    groups: tuple[str, ...]


class AuditBook:
    """One hub's events; part of its ledger."""

    def __init__(self, hub_name: str, session: Callable[[], AbstractContextManager[Session]]) -> None:
        """Take the ledger's hub name and its way to open a session."""
        self._hub_name = hub_name
        self._session = session

    def note(self, kind: str, user: str, server: str, detail: str = "", by: str = "") -> None:
        """Keep an event that is of no claim, as a refusal."""
        with self._session() as session:
            session.add(
                EventRow(
                    at=datetime.now(timezone.utc),
                    kind=kind,
                    detail=detail,
                    hub=self._hub_name,
                    user_name=user,
                    server_name=server,
                    by_name=by,
                )
            )

    def recent(
        self,
        limit: int,
        user: str | None = None,
        is_wanted: Callable[[Event], bool] = lambda event: True,
        before: int | None = None,
    ) -> list[Event]:
        """Return events, newest first.

        Args:
            limit: Most to return.
            user: Whose; `None` = everybody's.
            is_wanted: Picks those to return.
            before: An event's id; only older ones are returned. `None` = all.
        """
        found: list[Event] = []
        with self._session() as session:
            while len(found) < limit:
                events = self._older(session, user, before)
                found.extend(event for event in events if is_wanted(event))
                if len(events) < _AT_A_TIME:
                    break
                before = events[-1].event_id
        return found[:limit]

    def _older(self, session: Session, user: str | None, before: int | None) -> list[Event]:
        query = (
            select(EventRow, ClaimRow)
            .outerjoin(ClaimRow, EventRow.entry_id == ClaimRow.entry_id)
            .where(EventRow.hub == self._hub_name)
            .order_by(EventRow.event_id.desc())
            .limit(_AT_A_TIME)
        )
        if user is not None:
            query = query.where(EventRow.user_name == user)
        if before is not None:
            query = query.where(EventRow.event_id < before)
        return [_event(row, claim) for row, claim in session.execute(query)]


def _event(row: EventRow, claim: ClaimRow | None) -> Event:
    return Event(
        event_id=row.event_id,
        at=row.at,
        kind=row.kind,
        user=row.user_name,
        server=row.server_name,
        detail=row.detail,
        by=row.by_name,
        claim_id=(claim.claim_id or "") if claim is not None else "",
        profile=claim.profile if claim is not None else "",
        groups=tuple(claim.groups) if claim is not None else (),
    )
