"""A claim and a place in the queue as the ledger gives them out: copies, which change with nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Row

from jupyter_vgpu.ledger.tables import ClaimRow


@dataclass(frozen=True)
class Entry:
    """One claim as the ledger knows it; see `tables.ClaimRow` for the fields."""

    entry_id: int
    claim_id: str | None
    tenant: str
    user: str
    server: str
    profile: str
    node: str
    state: str
    requested_at: datetime
    bound_at: datetime | None
    released_at: datetime | None
    ended_because: str
    groups: tuple[str, ...] = ()
    devices: tuple[Mapping[str, Any], ...] = ()
    revoked_by: str = ""


@dataclass(frozen=True)
class Place:
    """One server that waits for a slice; see `tables.PlaceRow` for the fields."""

    place_id: int
    user: str
    server: str
    profile: str
    arrived_at: datetime


ENTRY_COLUMNS = (
    ClaimRow.entry_id,
    ClaimRow.claim_id,
    ClaimRow.tenant,
    ClaimRow.user_name,
    ClaimRow.server_name,
    ClaimRow.profile,
    ClaimRow.node,
    ClaimRow.state,
    ClaimRow.requested_at,
    ClaimRow.bound_at,
    ClaimRow.released_at,
    ClaimRow.ended_because,
    ClaimRow.groups,
    ClaimRow.devices,
    ClaimRow.revoked_by,
)


def entry_of(row: Row[Any]) -> Entry:
    """Return the entry of a row with `ENTRY_COLUMNS`."""
    return Entry(
        entry_id=row.entry_id,
        claim_id=row.claim_id,
        tenant=row.tenant,
        user=row.user_name,
        server=row.server_name,
        profile=row.profile,
        node=row.node,
        state=row.state,
        requested_at=row.requested_at,
        bound_at=row.bound_at,
        released_at=row.released_at,
        ended_because=row.ended_because,
        groups=tuple(row.groups),
        devices=tuple(row.devices),
        revoked_by=row.revoked_by,
    )
