"""What is decided about several nodes, by arithmetic alone: where slices fit, what is kept, what is corrected."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_vgpu.client import ClaimInfo, DeviceInfo
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import NoCapacityError
from jupyter_vgpu.hub.availability import offers
from jupyter_vgpu.hub.keeping import kept_for
from jupyter_vgpu.hub.reconciliation import Correction, correction
from jupyter_vgpu.ledger import Entry
from jupyter_vgpu.placement import Room, best_rooms
from jupyter_vgpu.units import PPM

GIB = 1 << 30
NOW = datetime(2026, 11, 29, tzinfo=timezone.utc)
PAIR, TRIPLE = parse_profiles({"pair": {"share": 1, "devices": 2}, "triple": {"share": 1, "devices": 3}})


def device(node: str, number: int, free_share: float = 1.0, drained: bool = False) -> DeviceInfo:
    return DeviceInfo(
        uuid=f"GPU-{node}-{number}", name="A100", index=number, total_bytes=80 * GIB, sm_count=108,
        driver_version="1", simulated=True, free_bytes=round(80 * GIB * free_share), free_share=free_share,
        drained=drained, isolation=[], claims=[], node=node,
    )  # fmt: skip


def room(node: str, number: int, free: float = 1.0) -> Room:
    return Room(f"GPU-{node}-{number}", "A100", 80 * GIB, round(80 * GIB * free), round(PPM * free), node=node)


def test_slices_of_two_devices_are_counted_node_by_node() -> None:
    devices = [device("a", 0), device("a", 1), device("a", 2), device("b", 0)]

    pair, triple = offers([PAIR, TRIPLE], devices)

    assert (pair.free, pair.total) == (1, 1)  # and not two, though there are four devices
    assert (triple.free, triple.total) == (1, 1)


def test_a_slice_that_no_node_is_large_enough_for_says_so() -> None:
    (triple,) = offers([TRIPLE], [device("a", 0), device("a", 1), device("b", 0), device("b", 1)])

    assert (triple.free, triple.total) == (0, 0)
    assert triple.obstacle == "it needs 3 GPUs, no node has more than 2"


def test_of_a_single_node_the_same_is_said_as_ever() -> None:
    (triple,) = offers([TRIPLE], [device("", 0), device("", 1), device("", 2, drained=True)])

    assert triple.obstacle == "it needs 3 GPUs, this node has 2, and 1 out of use"


def test_what_is_kept_for_a_slice_of_two_devices_is_on_one_node() -> None:
    rooms = [room("a", 0), room("b", 0, 0.75), room("b", 1, 0.75), room("c", 0, 0.5), room("c", 1, 0.5)]

    assert kept_for(PAIR, rooms) == {"GPU-b-0", "GPU-b-1"}
    assert kept_for(TRIPLE, rooms) == frozenset()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12),
    st.sampled_from([PAIR, TRIPLE]),
    st.booleans(),
)
def test_a_slice_of_several_devices_is_on_one_node_if_one_has_room_and_nowhere_if_none_has(
    given_devices: list[tuple[str, bool]], profile: Any, is_spread: bool
) -> None:
    rooms = [room(node, number, float(is_free)) for number, (node, is_free) in enumerate(given_devices)]
    free = [node for node, is_free in given_devices if is_free]
    largest = max((free.count(node) for node in "abc"), default=0)

    try:
        chosen = best_rooms(rooms, profile, "", is_spread)
    except NoCapacityError:
        assert largest < profile.devices
        return

    assert largest >= profile.devices
    assert len({one.node for one in chosen}) == 1
    assert len({one.uuid for one in chosen}) == profile.devices


def entry(user: str, claim_id: str | None, node: str) -> Entry:
    return Entry(1, claim_id, user, user, "", "1/4 GPU", node, "bound", NOW, NOW, None, "")


def claim(tenant: str, claim_id: str, node: str) -> ClaimInfo:
    return ClaimInfo(
        claim=claim_id, tenant=tenant, hub="hub", uid=0, profile="1/4 GPU", backend="intercept", state="bound",
        created_at=0.0, priority="normal", devices=[], node=node,
    )  # fmt: skip


def test_what_a_silent_node_holds_stays_whether_its_server_runs_or_not() -> None:
    entries = [entry("ada", "c1", "silent"), entry("bob", "c2", "silent"), entry("eve", "c3", "near")]

    correct = correction(entries, [claim("eve", "c3", "near")], {("ada", ""): "c1", ("eve", ""): "c3"}, ["near"])

    assert correct == Correction()


def test_while_one_node_is_silent_the_others_are_corrected() -> None:
    entries = [entry("ada", "c1", "silent"), entry("bob", "c2", "near")]

    correct = correction(entries, [claim("ghost", "c9", "near")], {("ada", ""): "c1"}, ["near"])

    assert [found["claim"] for found, _ in correct.release] == ["c9"]
    assert [found.claim_id for found, _ in correct.close] == ["c2"]


def test_an_entry_of_a_node_that_is_not_known_is_kept_until_all_nodes_have_answered() -> None:
    entries = [entry("ada", "c1", "as it was called before")]

    assert correction(entries, [], {}, ["near"]) == Correction()
    assert [found.claim_id for found, _ in correction(entries, [], {}).close] == ["c1"]
