"""A slice divided: its parts and the rest never have more than the slice, whoever asks and whenever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_vgpu.client import GrantedClaim, UserClient
from jupyter_vgpu.errors import BadValueError, NoCapacityError, UnknownClaimError

Node = Any
StartProgram = Callable[..., Any]
GIB = 1 << 30


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_part_and_the_rest_each_have_their_own_limit(
    node: Node, quarter: GrantedClaim, program: StartProgram
) -> None:
    user = node.user(quarter)
    rest = program(quarter)
    whole_bytes = rest.sees_bytes

    part = user.create_subslice("one.ipynb", 4 * GIB)
    inside = program(quarter, part.secret)

    assert inside.sees_bytes == 4 * GIB
    assert not inside.takes(4.1)
    assert inside.takes(3)
    # The rest has what is left, at once and without a restart.
    assert not rest.takes(whole_bytes / GIB - 3.9)
    assert rest.takes(whole_bytes / GIB - 5)
    assert part.subslice["devices"][0]["share"] == pytest.approx(0.25 * 4 * GIB / whole_bytes, rel=0.01)


def test_the_slice_shows_its_parts_and_they_show_themselves(
    node: Node, quarter: GrantedClaim, program: StartProgram
) -> None:
    user = node.user(quarter)
    part = user.create_subslice("one.ipynb", 4 * GIB)
    inside = program(quarter, part.secret)
    inside.takes(3)

    usage = user.usage()
    own = UserClient(user.api, part.secret)

    assert usage["devices"][0]["memory_limit_bytes"] == quarter.claim["devices"][0]["memory_bytes"]
    assert usage["devices"][0]["memory_used_bytes"] >= 3 * GIB
    assert [process["pid"] for process in usage["processes"]] == [inside.process.pid]
    assert own.slice()["devices"][0]["memory_limit_bytes"] == 4 * GIB
    assert [process["pid"] for process in own.usage()["processes"]] == [inside.process.pid]
    assert [known["name"] for known in user.subslices()] == ["one.ipynb"]


def test_hubs_see_slices_not_their_parts(node: Node, quarter: GrantedClaim) -> None:
    [before] = node.hub.devices()

    node.user(quarter).create_subslice("one.ipynb", 4 * GIB)

    [after] = node.hub.devices()
    assert [claim["claim"] for claim in node.hub.claims()] == [quarter.claim["claim"]]
    assert (after["free_bytes"], after["claims"]) == (before["free_bytes"], before["claims"])


def test_what_is_done_in_a_part_counts_for_the_slice_also_when_the_part_is_no_more(
    node: Node, quarter: GrantedClaim, program: StartProgram
) -> None:
    """A hub was told of the slice's own processes only, and the slice's totals fell when a part ended."""
    user = node.user(quarter)
    rest = program(quarter)
    part = user.create_subslice("one.ipynb", 4 * GIB)
    inside = program(quarter, part.secret)

    def launches() -> list[int]:
        usages = user.usage(), node.hub.usage(quarter.claim["claim"])
        return [usage["devices"][0]["launches"] for usage in usages]

    def processes() -> list[set[int]]:
        usages = user.usage(), node.hub.usage(quarter.claim["claim"])
        return [{process["pid"] for process in usage["processes"]} for usage in usages]

    assert rest.launches(3) and inside.launches(5)

    assert eventually(lambda: launches() == [8, 8])
    assert processes() == [{rest.process.pid, inside.process.pid}] * 2
    user.release_subslice(part.subslice["claim"])
    assert launches() == [8, 8]
    inside.end()
    assert eventually(lambda: processes() == [{rest.process.pid}] * 2)
    assert launches() == [8, 8]
    ended_first = user.create_subslice("two.ipynb", 4 * GIB)
    again = program(quarter, ended_first.secret)
    assert again.launches(2)
    again.end()
    assert eventually(lambda: processes() == [{rest.process.pid}] * 2)
    user.release_subslice(ended_first.subslice["claim"])
    assert launches() == [10, 10]


def test_what_a_part_had_comes_back_to_the_slice(node: Node, quarter: GrantedClaim, program: StartProgram) -> None:
    user = node.user(quarter)
    rest = program(quarter)
    part = user.create_subslice("one.ipynb", 10 * GIB)
    inside = program(quarter, part.secret)
    assert inside.takes(9)

    released = user.release_subslice(part.subslice["claim"])
    assert released is not None and user.release_subslice(part.subslice["claim"]) is None

    # Its process lives on and keeps what it holds; until it ends nobody else gets that.
    assert not rest.takes(12)
    inside.end()
    assert eventually(lambda: rest.takes(12))
    with pytest.raises(UnknownClaimError):
        UserClient(user.api, part.secret).slice()


def test_more_than_is_left_is_refused_and_changes_nothing(
    node: Node, quarter: GrantedClaim, program: StartProgram
) -> None:
    user = node.user(quarter)
    rest = program(quarter)
    assert rest.takes(8)

    with pytest.raises(NoCapacityError, match="the largest part that would fit now is 11"):
        user.create_subslice("one.ipynb", 15 * GIB)

    assert user.subslices() == []
    assert rest.takes(10)


@pytest.mark.parametrize(
    ("name", "memory_bytes", "share", "said"),
    [
        ("one", 0, None, "memory_bytes"),
        ("one", 4 * GIB, 0.0, "share"),
        ("one", 4 * GIB, 1.5, "share"),
        ("", 4 * GIB, None, "name"),
    ],
)
def test_bad_values_are_refused(
    node: Node, quarter: GrantedClaim, name: str, memory_bytes: int, share: float | None, said: str
) -> None:
    with pytest.raises(BadValueError, match=said):
        node.user(quarter).create_subslice(name, memory_bytes, share)


def test_a_part_cannot_be_divided_nor_released_by_another(node: Node, quarter: GrantedClaim) -> None:
    user = node.user(quarter)
    one, two = (user.create_subslice(name, 2 * GIB) for name in ("one", "two"))
    inside = UserClient(user.api, one.secret)

    with pytest.raises(BadValueError, match="only a whole slice can be divided"):
        inside.create_subslice("deeper", GIB)
    assert inside.release_subslice(two.subslice["claim"]) is None
    assert inside.release_subslice(quarter.claim["claim"]) is None
    assert user.release_subslice(quarter.claim["claim"]) is None
    assert len(user.subslices()) == 2


def test_a_part_ends_with_the_process_that_asked(node: Node, quarter: GrantedClaim) -> None:
    ask = "from jupyter_vgpu.client import UserClient; UserClient.from_environment().create_subslice('x', 1 << 30)"
    environment = {**os.environ, **quarter.edits.env, "LD_PRELOAD": ""}

    subprocess.run([sys.executable, "-c", ask], env=environment, check=True)

    assert eventually(lambda: node.user(quarter).subslices() == [])


def test_parts_end_with_their_slice(node: Node, quarter: GrantedClaim) -> None:
    user = node.user(quarter)
    part = user.create_subslice("one.ipynb", 2 * GIB)

    node.hub.release_claim(quarter.claim["claim"])

    with pytest.raises(UnknownClaimError):
        UserClient(user.api, part.secret).slice()


def test_parts_survive_a_restart_of_the_agent(node: Node, quarter: GrantedClaim, program: StartProgram) -> None:
    user = node.user(quarter)
    part = user.create_subslice("one.ipynb", 15 * GIB)

    node.stop()
    node.start()

    assert [known["claim"] for known in user.subslices()] == [part.subslice["claim"]]
    assert not program(quarter).takes(6)
    assert program(quarter, part.secret).takes(12)
