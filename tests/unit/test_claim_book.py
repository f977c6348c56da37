"""The agent's book of claims, without an agent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_vgpu.agent.claims import ClaimBook
from jupyter_vgpu.agent.store import Holder, StoredClaim, UnreadableStateError, load, save
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import BadValueError, NoCapacityError, UnknownClaimError
from jupyter_vgpu.model import Claim, ClaimRequest, Device, Grant

GIB = 1 << 30
DEVICE = Device("GPU-1", "board", 0, 80 * GIB, 108, "8.0", True, "580")


def request(backend: str = "auto", **entry: object) -> ClaimRequest:
    return ClaimRequest("alice", "hub", 1000, parse_profiles({"p": entry or {"share": "1/4"}})[0], backend)


def admit(book: ClaimBook, name: str, wish: ClaimRequest | None = None) -> Claim:
    return book.admit(wish or request(), name, f"secret of {name}", 1.0)[0]


def test_a_claim_holds_what_it_was_granted_until_it_is_released() -> None:
    book = ClaimBook([DEVICE])

    admit(book, "one")
    (held,) = book.rooms()
    released = book.release("one")
    (free,) = book.rooms()

    assert (held.free_bytes, held.free_share_ppm) == (60 * GIB, 750_000)
    assert (free.free_bytes, free.free_share_ppm) == (80 * GIB, 1_000_000)
    assert released is not None
    assert released.state == "released"


def test_a_refused_claim_changes_nothing() -> None:
    book = ClaimBook([DEVICE])
    admit(book, "one", request(memory="70GiB", share="1/2"))
    before = book.rooms()

    with pytest.raises(NoCapacityError):
        admit(book, "two", request(memory="20GiB", share="1/4"))

    assert book.rooms() == before
    assert [claim.claim_id for claim in book.claims] == ["one"]


def test_memory_that_a_released_claim_still_holds_is_promised_to_nobody() -> None:
    book = ClaimBook([DEVICE])
    lingering = [Grant("GPU-1", 70 * GIB, 0, 1_000_000)]

    with pytest.raises(NoCapacityError, match=r"largest free slice is 10\.0 GiB"):
        book.admit(request(), "one", "secret", 1.0, lingering)


def test_auto_takes_the_strongest_that_fits() -> None:
    book = ClaimBook([DEVICE, replace(DEVICE, uuid="GPU-2")])

    assert admit(book, "all", request(share=1)).backend == "whole"
    assert admit(book, "part", request(share=1, memory="4GiB")).backend == "intercept"


def test_whole_is_not_given_to_a_part() -> None:
    with pytest.raises(BadValueError, match="whole takes share 1"):
        admit(ClaimBook([DEVICE]), "one", request(backend="whole", share="1/4"))


def test_a_secret_opens_its_own_claim_only() -> None:
    book = ClaimBook([DEVICE])
    admit(book, "one")
    admit(book, "two")

    assert book.by_secret("secret of two").claim_id == "two"
    with pytest.raises(UnknownClaimError, match="no claim has this secret"):
        book.by_secret("secret of three")


def test_a_released_claims_secret_is_told_so() -> None:
    book = ClaimBook([DEVICE])
    admit(book, "one")
    book.release("one")

    with pytest.raises(UnknownClaimError, match="has been released"):
        book.by_secret("secret of one")


def test_releasing_twice_is_releasing_once() -> None:
    book = ClaimBook([DEVICE])
    admit(book, "one")

    assert book.release("one") is not None
    assert book.release("one") is None


def test_the_book_keeps_no_secret() -> None:
    claim = admit(ClaimBook([DEVICE]), "one")

    assert "secret of one" not in repr(claim)


def test_claims_come_back_from_disk_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    book = ClaimBook([DEVICE])
    stored = [StoredClaim(admit(book, "one")), StoredClaim(admit(book, "two"), Holder(5, 77))]

    save(path, stored)

    assert load(path) == stored
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_no_file_is_no_claims(tmp_path: Path) -> None:
    assert load(tmp_path / "state.json") == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 2, "claims": []}',
        '{"version": 1}',
        '{"version": 1, "claims": [{"claim": {}}]}',
    ],
)
def test_a_file_that_is_not_ours_is_refused_not_guessed_at(tmp_path: Path, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content)

    with pytest.raises(UnreadableStateError, match="move it away"):
        load(path)

    assert path.read_text() == content


def test_a_claim_of_several_devices_goes_where_they_are_nearest_together() -> None:
    book = ClaimBook([replace(DEVICE, uuid=f"GPU-{n}", index=n) for n in range(4)])
    book.distances = {(f"GPU-{a}", f"GPU-{b}"): 50 for a in range(4) for b in range(a + 1, 4)} | {("GPU-1", "GPU-3"): 0}

    claim = admit(book, "one", request(share="1/2", devices=2))

    assert [grant.uuid for grant in claim.grants] == ["GPU-1", "GPU-3"]
