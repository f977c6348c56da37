"""The ledger itself: entries are opened, bound and closed; nothing is ever deleted."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import create_engine, insert, literal, or_, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoResultFound, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session

from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.ledger import migrations, sqlite
from jupyter_vgpu.ledger.audit import AuditBook
from jupyter_vgpu.ledger.entries import ENTRY_COLUMNS, Entry, entry_of
from jupyter_vgpu.ledger.places import PlaceBook
from jupyter_vgpu.ledger.tables import ClaimRow, EventRow, Meta
from jupyter_vgpu.ledger.usage import UsageBook

# The hub and its service write to one file, one at a time; a busy disk makes one wait for the other.
_LOCKED_SECONDS = 15.0

_URL_ALLOWED = 'an SQLAlchemy URL is, as "sqlite:////srv/jupyterhub/jupyter_vgpu.sqlite" or "postgresql://…"'


class LedgerError(VGPUError):
    """The ledger's database does not do what it should; the message names it without its password."""

    reason: ClassVar[str] = "ledger"
    http_status: ClassVar[int] = 503


class Ledger:
    """One hub's entries in one database.

    Attributes:
        audit: What happened.
        places: Who waits.
        usage: What was used.
        hub_name: Name this hub goes by at its agents: the one given, or one made up at the first start and kept
            in the database, so that it survives restarts and is nobody else's.
    """

    def __init__(self, url: str, hub_name: str = "") -> None:
        """Open the database, and make its tables where there are none.

        Args:
            url: Where it is; a new SQLite file is made readable by its owner only.
            hub_name: Name of this hub; empty = the one that the ledger keeps.

        Raises:
            BadValueError: The URL is none, or the database belongs to a newer version of this package.
            LedgerError: The database does not answer or cannot be written.
        """
        self._url = _parse_url(url)
        self._shown_url = self._url.render_as_string(hide_password=True)
        is_sqlite = self._url.get_backend_name() == "sqlite"
        try:
            self._engine = create_engine(self._url, connect_args={"timeout": _LOCKED_SECONDS} if is_sqlite else {})
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise BadValueError("ledger_url", self._shown_url, f"{_URL_ALLOWED} ({error})") from error
        self._shared = threading.local()
        file = _file_of(self._url)
        if file is not None:
            sqlite.prepare(self._engine, file)
        with self._session() as session:
            if file is not None:
                _make_file(file)
            self._check_version(session)
            migrations.upgrade(session.connection())
            self.hub_name = hub_name or _kept_hub_name(session)
        self.audit = AuditBook(self.hub_name, self._session)
        self.places = PlaceBook(self.hub_name, self._session)
        self.usage = UsageBook(self.hub_name, self._session)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Give a session that commits at its end; a failure of the database becomes a `LedgerError`."""
        shared = getattr(self._shared, "session", None)
        if shared is not None:
            yield shared
            return
        try:
            with Session(self._engine) as session, session.begin():
                yield session
        except (SQLAlchemyError, OSError) as error:
            cause = getattr(error, "orig", None) or error
            raise LedgerError(f"the ledger at {self._shown_url} cannot be used: {cause}") from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """Have all that this thread does with the ledger meanwhile done by one commit, or none of it.

        Raises:
            LedgerError: The database failed, at whatever; nothing of it is written.
        """
        with self._session() as session:
            before = getattr(self._shared, "session", None)  # within another `together`
            self._shared.session = session
            try:
                yield
            finally:
                self._shared.session = before

    def _check_version(self, session: Session) -> None:
        found = migrations.current(session.connection())
        if found is not None and found not in migrations.known():
            raise BadValueError(
                "ledger_url",
                self._shown_url,
                f"a ledger of version {migrations.newest()} or older is, and this one has {found}: use the "
                "jupyter-vgpu that wrote it, or name another ledger",
            )

    def open_entry(
        self,
        user: str,
        server: str,
        tenant: str,
        profile: str,
        node: str,
        groups: Sequence[str] = (),
        devices: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """Note that a claim is about to be asked for, and return its entry's id.

        Args:
            user: Hub user.
            server: Named server; empty for the default one.
            tenant: As the agent will know it.
            profile: Name of the profile.
            node: Host of the agent.
            groups: The user's groups now.
            devices: What is asked for on each device: `memory_bytes`, `share`.
        """
        with self._session() as session:
            row = ClaimRow(
                hub=self.hub_name,
                user_name=user,
                server_name=server,
                tenant=tenant,
                profile=profile,
                node=node,
                groups=list(groups),
                devices=[dict(device) for device in devices],
                requested_at=_now(),
            )
            session.add(row)
            session.flush()
            session.add(_event(row, "requested"))
            return row.entry_id

    def bind(
        self,
        entry_id: int,
        claim_id: str,
        backend: str,
        devices: Sequence[Mapping[str, Any]],
        place_id: int | None = None,
        node: str = "",
    ) -> None:
        """Note that the agent granted the claim, and with it that a place in the queue was left, if there was one.

        Args:
            entry_id: The claim's entry.
            claim_id: Given by the agent.
            backend: How it is enforced.
            devices: What it has of each device.
            place_id: The place in the queue; `None` = it did not wait.
            node: Where it is; empty = as was said when it was asked for.
        """
        bound: dict[str, Any] = {"claim_id": claim_id, "backend": backend, "devices": [dict(one) for one in devices]}
        if node:
            bound["node"] = node
        now = _now()
        with self.together(), self._session() as session:
            claim = ClaimRow.entry_id == entry_id
            found: Any = session.execute(update(ClaimRow).where(claim).values(state="bound", bound_at=now, **bound))
            if found.rowcount != 1:
                raise NoResultFound(f"there is no claim {entry_id}")
            event: dict[Any, Any] = {
                EventRow.entry_id: ClaimRow.entry_id,
                EventRow.at: literal(now, EventRow.at.type),
                EventRow.kind: literal("bound"),
                EventRow.detail: literal(claim_id),
                EventRow.hub: ClaimRow.hub,
                EventRow.user_name: ClaimRow.user_name,
                EventRow.server_name: ClaimRow.server_name,
                EventRow.by_name: literal(""),
            }
            session.execute(insert(EventRow).from_select(list(event), select(*event.values()).where(claim)))
            if place_id is not None:
                self.places.leave(place_id, "granted")

    def adopt(
        self,
        user: str,
        server: str,
        tenant: str,
        profile: str,
        node: str,
        claim_id: str,
        devices: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Note a claim that the agent and the hub know and the ledger does not; nothing when it does."""
        with self._session() as session:
            if session.scalar(select(ClaimRow).where(ClaimRow.claim_id == claim_id)) is not None:
                return
            now = _now()
            row = ClaimRow(
                hub=self.hub_name,
                user_name=user,
                server_name=server,
                tenant=tenant,
                profile=profile,
                node=node,
                claim_id=claim_id,
                devices=[dict(device) for device in devices],
                state="bound",
                requested_at=now,
                bound_at=now,
            )
            session.add(row)
            session.flush()
            session.add(_event(row, "adopted", claim_id))

    def close_entry(self, entry_id: int, because: str) -> bool:
        """Note that a claim ended; return whether it was open. Closing twice is closing once.

        Of a claim that was revoked, that is why it ended, whatever `because` says.
        """
        with self._session() as session:
            row = _row(session, entry_id)
            if row.state == "released":
                return False
            if row.revoked_by:
                because = f"revoked by {row.revoked_by}"
            row.state, row.released_at, row.ended_because = "released", _now(), because
            session.add(_event(row, "released", because))
            return True

    def revoke(self, entry_id: int, by: str, why: str = "") -> bool:
        """Note that somebody takes a claim away, before they do; return whether it was held.

        Args:
            entry_id: The claim's entry.
            by: Who.
            why: What they said about it.
        """
        with self._session() as session:
            row = _row(session, entry_id)
            if row.state == "released":
                return False
            row.revoked_by = f"{by}: {why}" if why else by
            session.add(_event(row, "revoked", why, by))
            return True

    def note(self, entry_id: int, kind: str, detail: str = "", by: str = "") -> None:
        """Keep an event of a claim, with who did it if that was not the server's own user."""
        with self._session() as session:
            session.add(_event(_row(session, entry_id), kind, detail, by))

    def note_claim(self, claim_id: str, kind: str, detail: str = "", by: str = "") -> None:
        """Keep an event of a claim that the agent calls `claim_id`; nothing when the ledger does not know it."""
        with self._session() as session:
            row = session.scalar(select(ClaimRow).where(ClaimRow.claim_id == claim_id))
            if row is not None:
                session.add(_event(row, kind, detail, by))

    def open_entries(self, user: str | None = None, server: str = "") -> list[Entry]:
        """Return the claims that are held, oldest first: all of this hub's, or those of one server."""
        query = select(ClaimRow).where(ClaimRow.hub == self.hub_name, ClaimRow.state != "released")
        if user is not None:
            query = query.where(ClaimRow.user_name == user, ClaimRow.server_name == server)
        return self._entries(query.order_by(ClaimRow.entry_id))

    def held_since(self, since: datetime, user: str | None = None) -> list[Entry]:
        """Return the claims of this hub, or of one user at it, that are held or ended after `since`, oldest first.

        Those that were refused are left out.
        """
        query = select(ClaimRow).where(
            ClaimRow.hub == self.hub_name,
            or_(ClaimRow.released_at.is_(None), (ClaimRow.released_at >= since) & ClaimRow.bound_at.is_not(None)),
        )
        if user is not None:
            query = query.where(ClaimRow.user_name == user)
        return self._entries(query.order_by(ClaimRow.entry_id))

    def history(self, user: str, server: str = "") -> list[Entry]:
        """Return all claims of one server, oldest first."""
        query = select(ClaimRow).where(
            ClaimRow.hub == self.hub_name, ClaimRow.user_name == user, ClaimRow.server_name == server
        )
        return self._entries(query.order_by(ClaimRow.entry_id))

    def events(self, entry_id: int) -> list[tuple[datetime, str, str]]:
        """Return what happened to one claim, oldest first: when, kind, detail."""
        with self._session() as session:
            row = _row(session, entry_id)
            return [(event.at, event.kind, event.detail) for event in row.events]

    def close(self) -> None:
        """Close the connections; the ledger opens new ones when it is used again."""
        self._engine.dispose()

    def _entries(self, query: Any) -> list[Entry]:
        with self._session() as session:
            # Columns, not objects: those would be twice as slow to read, and nobody changes them.
            return [entry_of(row) for row in session.execute(query.with_only_columns(*ENTRY_COLUMNS))]


def _row(session: Session, entry_id: int) -> ClaimRow:
    return session.scalars(select(ClaimRow).where(ClaimRow.entry_id == entry_id)).one()


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _event(row: ClaimRow, kind: str, detail: str = "", by: str = "") -> EventRow:
    return EventRow(
        entry_id=row.entry_id,
        at=_now(),
        kind=kind,
        detail=detail,
        hub=row.hub,
        user_name=row.user_name,
        server_name=row.server_name,
        by_name=by,
    )


def _parse_url(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        raise BadValueError("ledger_url", url, _URL_ALLOWED) from error


def _file_of(url: URL) -> Path | None:
    """Return the SQLite file that `url` names by its path; `None` when the ledger is something else."""
    named = url.database or ":memory:"
    if url.get_backend_name() != "sqlite" or named.startswith((":memory:", "file:")):
        return None
    return Path(named).absolute()


def _make_file(path: Path) -> None:
    """Make a new SQLite file before SQLite does: it would be readable by everyone."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _kept_hub_name(session: Session) -> str:
    row = session.get(Meta, "hub_name")
    if row is None:
        row = Meta(key="hub_name", value=f"{socket.gethostname()[:60]}-{secrets.token_hex(4)}")
        session.add(row)
    return row.value
