"""Scopes say who may see and who may revoke, and nothing else does."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from jupyter_vgpu.ledger import Entry
from jupyter_vgpu.scopes import ADMIN, READ
from jupyter_vgpu.service.holdings import Overview, held_claims, held_to_wire
from jupyter_vgpu.service.rights import Viewer
from jupyter_vgpu.service.showing import overview_values


def viewer(*scopes: str, name: str = "ada") -> Viewer:
    return Viewer(name, "user", frozenset(scopes))


@pytest.mark.parametrize(
    ("scopes", "may_read", "may_revoke"),
    [
        pytest.param((), False, False, id="no scope"),
        pytest.param((READ,), True, False, id="read all"),
        pytest.param((ADMIN, READ), True, True, id="admin, as the hub expands it"),
        pytest.param((f"{READ}!user=bob",), True, False, id="read this user"),
        pytest.param((f"{READ}!user=bo",), False, False, id="read a user whose name is a beginning of this"),
        pytest.param((f"{READ}!server=bob/",), True, False, id="read this server"),
        pytest.param((f"{READ}!server=bob/second",), False, False, id="read another server of this user"),
        pytest.param((f"{ADMIN}!group=course", f"{READ}!group=course"), True, True, id="admin of a group of theirs"),
        pytest.param((f"{ADMIN}!group=other",), False, False, id="admin of another group"),
        pytest.param(("read:servers", "delete:servers"), True, True, id="a hub's administrator"),
        pytest.param(("read:servers!user=bob", "delete:servers!user=bob"), True, True, id="the user themselves"),
        pytest.param(("access:servers", "admin:users", "list:users"), False, False, id="rights of other kinds"),
    ],
)
def test_a_claim_of_bobs_default_server(scopes: tuple[str, ...], may_read: bool, may_revoke: bool) -> None:
    assert viewer(*scopes).may_read("bob", "", ["course"]) is may_read
    assert viewer(*scopes).may_revoke("bob", "", ["course"]) is may_revoke


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        pytest.param(("read:servers!user=ada", f"{READ}!user=ada", "self"), True, id="own user"),
        pytest.param((f"{READ}!server=ada/x",), True, id="own server"),
        pytest.param((f"{READ}!server=adam/x",), False, id="a server of somebody with a longer name"),
        pytest.param((f"{READ}!group=course",), False, id="a group"),
        pytest.param((READ,), False, id="all"),
    ],
)
def test_who_sees_only_their_own_is_told_apart(scopes: tuple[str, ...], expected: bool) -> None:
    assert viewer(*scopes).reads_only_own is expected


def entry(**other: Any) -> Entry:
    now = datetime.now(timezone.utc)
    values = {
        "entry_id": 1, "claim_id": "c1", "tenant": "bob", "user": "bob", "server": "", "profile": "1/4 GPU",
        "node": "node", "state": "bound", "requested_at": now, "bound_at": now, "released_at": None,
        "ended_because": "", "groups": ("course",),
        "devices": ({"uuid": "GPU-0", "name": "A100", "memory_bytes": 1 << 30, "share": 0.25},),
    }  # fmt: skip
    return Entry(**{**values, **other})


def claim(claim_id: str, tenant: str, hub: str) -> Any:
    device = {"uuid": "GPU-0", "name": "A100", "memory_bytes": 1 << 30, "share": 0.25, "ceiling": 1.0}
    return {
        "claim": claim_id, "tenant": tenant, "hub": hub, "uid": 0, "profile": f"{tenant}'s secret profile",
        "backend": "intercept", "state": "bound", "created_at": 5.0, "devices": [device],
    }  # fmt: skip


def overview(*claims: Any, entries: tuple[Entry, ...] = ()) -> Overview:
    return Overview(0.0, held_claims("lab", claims, entries, [], {}), (), (), ())


def test_another_hubs_claim_is_shown_without_names_and_only_to_who_sees_all() -> None:
    everything = overview(claim("c1", "bob", "lab"), claim("c2", "eve", "other-lab"))

    (own,) = everything.seen_by(viewer("read:servers!user=bob", name="bob")).held
    all_of_it = everything.seen_by(viewer(READ, ADMIN, "delete:servers")).held

    assert own.claim == "c1"
    foreign = held_to_wire(all_of_it[1], viewer(READ, ADMIN, "delete:servers"))
    assert (foreign["hub"], foreign["user"], foreign["may_revoke"]) == ("other-lab", None, False)
    assert "eve" not in repr(foreign)


def test_who_shares_a_name_with_another_hubs_tenant_does_not_see_what_is_theirs() -> None:
    assert overview(claim("c2", "eve", "other-lab")).seen_by(viewer("read:servers!user=eve", name="eve")).held == ()


def test_when_the_agent_is_away_the_ledger_tells_and_when_the_ledger_is_away_the_agent() -> None:
    (from_ledger,) = held_claims("lab", None, [entry()], [], {})
    (from_agent,) = held_claims("lab", [claim("c1", "bob/second", "lab")], [], [], {})

    assert (from_ledger.user, from_ledger.devices[0].memory_used_bytes, from_ledger.enforced_by) == ("bob", None, "")
    assert (from_agent.user, from_agent.server, from_agent.entry_id) == ("bob", "second", None)


def test_a_claim_being_revoked_says_so_and_offers_no_second_revocation() -> None:
    admin = viewer("read:servers", "delete:servers")
    (row,) = overview_values(overview(claim("c1", "bob", "lab"), entries=(entry(revoked_by="root"),)), admin)["rows"]

    assert not row["may_revoke"]
    assert row["note"] == "being revoked by root"
