"""Who waits for a slice: places in a hub's queue, in order of arrival. None is deleted: it is left, with an outcome."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from jupyter_vgpu.ledger.entries import Place
from jupyter_vgpu.ledger.tables import PlaceRow


class PlaceBook:
    """One hub's queue, as it is kept over restarts; part of its ledger."""

    def __init__(self, hub_name: str, session: Callable[[], AbstractContextManager[Session]]) -> None:
        """Take the ledger's hub name and its way to open a session."""
        self._hub_name = hub_name
        self._session = session

    def take(self, user: str, server: str, profile: str) -> Place:
        """Return the place of a server in the queue: the one it has, or a new one at the end.

        Whoever asks again, after a restart of the hub say, keeps the time of arrival; another profile is a new wait.
        """
        with self._session() as session:
            row = None
            for found in session.scalars(self._waiting(user, server)):
                if found.profile == profile:
                    row = found
                else:
                    found.left_at, found.outcome = _now(), "chose another profile"
            if row is None:
                row = PlaceRow(
                    hub=self._hub_name, user_name=user, server_name=server, profile=profile, arrived_at=_now()
                )
                session.add(row)
                session.flush()
            return _place_of(row)

    def leave(self, place_id: int, outcome: str) -> None:
        """Note that a server waits no more; once or ten times over."""
        waiting = update(PlaceRow).where(PlaceRow.place_id == place_id, PlaceRow.left_at.is_(None))
        with self._session() as session:
            session.execute(waiting.values(left_at=_now(), outcome=outcome))

    def all(self) -> list[Place]:
        """Return who waits at this hub, or waited when it stopped, in order of arrival."""
        with self._session() as session:
            return [_place_of(row) for row in session.scalars(self._waiting())]

    def _waiting(self, user: str | None = None, server: str = "") -> Any:
        query = select(PlaceRow).where(PlaceRow.hub == self._hub_name, PlaceRow.left_at.is_(None))
        if user is not None:
            query = query.where(PlaceRow.user_name == user, PlaceRow.server_name == server)
        return query.order_by(PlaceRow.place_id)


def _place_of(row: PlaceRow) -> Place:
    return Place(row.place_id, row.user_name, row.server_name, row.profile, row.arrived_at)


def _now() -> datetime:
    return datetime.now(timezone.utc)
