"""The ledger's tables, for SQLite, PostgreSQL and what else SQLAlchemy speaks.

A change of a table comes with its migration, in `migrations/versions`; a test compares the two.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Double, ForeignKey, Index, String, Text, text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """A moment with its time zone, kept as UTC; SQLite has no time zones and gets them back here."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return `value` in UTC; refuse one without a time zone, which could be any of 38 moments."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value.astimezone(timezone.utc)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return what was stored, with its time zone."""
        if value is None:
            return None
        return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)


class Base(DeclarativeBase):
    """Root of the tables; no other package's tables hang here."""


class Meta(Base):
    """One row per fact about the ledger itself: `schema_version`, `hub_name`."""

    __tablename__ = "vgpu_meta"

    key: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class ClaimRow(Base):
    """One claim, from the moment it was asked for; never deleted.

    Attributes:
        claim_id: Given by the agent; `None` until it answered, and for ever when it refused.
        hub: Name of the hub that asked.
        tenant: As the agent knows it.
        user_name: Hub user.
        server_name: Named server; empty for the default one.
        profile: Name of the profile.
        backend: How it is enforced, as the agent said; empty until it answered.
        node: Host of the agent.
        devices: The agent's list: uuid, name, memory_bytes, share, ceiling of each, and guarantee where there is one;
            until it answered, what was asked for: memory_bytes, share and guarantee.
        groups: The user's groups at that time.
        state: One of `jupyter_vgpu.model.CLAIM_STATES`.
        requested_at: When the hub asked.
        bound_at: When the agent had answered; `None` when it never did.
        released_at: When it ended; `None` while it is held.
        ended_because: Why it ended, in words; empty while it is held.
        revoked_by: Who took it away, and why if they said so; empty when nobody did. It is then why it ended,
            whoever notes the end.
    """

    __tablename__ = "vgpu_claims"
    __table_args__ = (
        Index("vgpu_claims_by_server", "hub", "user_name", "server_name", "state"),
        Index("vgpu_claims_by_end", "hub", "released_at"),
    )

    entry_id: Mapped[int] = mapped_column(primary_key=True)
    claim_id: Mapped[str | None] = mapped_column(String(80), unique=True)
    hub: Mapped[str] = mapped_column(String(255))
    tenant: Mapped[str] = mapped_column(String(600))
    user_name: Mapped[str] = mapped_column(String(255))
    server_name: Mapped[str] = mapped_column(String(255), default="")
    profile: Mapped[str] = mapped_column(String(255))
    backend: Mapped[str] = mapped_column(String(40), default="")
    node: Mapped[str] = mapped_column(String(255))
    devices: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    groups: Mapped[list[str]] = mapped_column(JSON, default=list, server_default=text("'[]'"))
    state: Mapped[str] = mapped_column(String(20), default="pending")
    requested_at: Mapped[datetime] = mapped_column(UtcDateTime)
    bound_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    released_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_because: Mapped[str] = mapped_column(Text, default="")
    revoked_by: Mapped[str] = mapped_column(Text, default="", server_default=text("''"))

    events: Mapped[list[EventRow]] = relationship(back_populates="claim", order_by="EventRow.event_id")


class EventRow(Base):
    """Something that happened to a claim, or kept one from being made; never deleted.

    Attributes:
        entry_id: The claim; `None` when there was none, as for a start that was refused.
        kind: One of a few words: `requested`, `bound`, `released`, `refused`, `revoked`, `over-quota`, …
        detail: For people: why, of what, how much.
        by_name: Who did it, when it was somebody other than the server's own user; empty otherwise.
    """

    __tablename__ = "vgpu_events"
    __table_args__ = (Index("vgpu_events_by_user", "hub", "user_name", "event_id"),)

    event_id: Mapped[int] = mapped_column(primary_key=True)
    entry_id: Mapped[int | None] = mapped_column(ForeignKey("vgpu_claims.entry_id"), index=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    kind: Mapped[str] = mapped_column(String(40))
    detail: Mapped[str] = mapped_column(Text, default="")
    hub: Mapped[str] = mapped_column(String(255), default="", server_default=text("''"))
    user_name: Mapped[str] = mapped_column(String(255), default="", server_default=text("''"))
    server_name: Mapped[str] = mapped_column(String(255), default="", server_default=text("''"))
    by_name: Mapped[str] = mapped_column(String(255), default="", server_default=text("''"))

    claim: Mapped[ClaimRow | None] = relationship(back_populates="events")


class UsageRow(Base):
    """What one claim used in one hour, or in one day once that is a while ago.

    Attributes:
        starts_at: Beginning of the hour, or of the day in UTC.
        span_seconds: 3600 or 86400.
        gpu_seconds: GPU time had, summed over the claim's devices.
        memory_byte_seconds: Memory in use × time, summed over devices.
        waited_seconds: Time with work in flight, less the GPU time it had.
    """

    __tablename__ = "vgpu_usage"
    __table_args__ = (Index("vgpu_usage_by_time", "span_seconds", "starts_at"),)

    entry_id: Mapped[int] = mapped_column(ForeignKey("vgpu_claims.entry_id"), primary_key=True)
    span_seconds: Mapped[int] = mapped_column(primary_key=True)
    starts_at: Mapped[datetime] = mapped_column(UtcDateTime, primary_key=True)
    gpu_seconds: Mapped[float] = mapped_column(Double, default=0.0)
    memory_byte_seconds: Mapped[float] = mapped_column(Double, default=0.0)
    waited_seconds: Mapped[float] = mapped_column(Double, default=0.0)


class ReadingRow(Base):
    """The last reading of a claim's counters, from which the next one is told apart."""

    __tablename__ = "vgpu_readings"

    entry_id: Mapped[int] = mapped_column(ForeignKey("vgpu_claims.entry_id"), primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    gpu_seconds: Mapped[float] = mapped_column(Double)
    waited_seconds: Mapped[float] = mapped_column(Double)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)


class PlaceRow(Base):
    """One server's wait for a slice; never deleted.

    Attributes:
        arrived_at: Since when it has waited; kept over restarts of the hub.
        left_at: When it got a slice or gave up; `None` while it waits.
        outcome: `"granted"`, or why it left; empty while it waits.
    """

    __tablename__ = "vgpu_queue"
    __table_args__ = (Index("vgpu_queue_by_hub", "hub", "left_at"),)

    place_id: Mapped[int] = mapped_column(primary_key=True)
    hub: Mapped[str] = mapped_column(String(255))
    user_name: Mapped[str] = mapped_column(String(255))
    server_name: Mapped[str] = mapped_column(String(255), default="")
    profile: Mapped[str] = mapped_column(String(255))
    arrived_at: Mapped[datetime] = mapped_column(UtcDateTime)
    left_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    outcome: Mapped[str] = mapped_column(String(40), default="")
