"""The agent's list of processes, made anew only where NVML says something else."""

from __future__ import annotations

from typing import Any

import pytest

ASKER = """
    from jupyter_vgpu.nvml import Nvml, listing
    listing._ROOM = {room}
    asker = Nvml()
    uuid = asker.devices()[0].uuid
    last = None
    say("ready")
    while heard() != "end":
        rows = asker.look(uuid).processes
        say([{{row.pid: row.used_bytes for row in rows}}, rows is last])
        last = rows
"""
HOLDER = "start(); say('ready'); heard(); held = ok(*cuda.cuMemAlloc(GIB)); say('holds'); heard()"


@pytest.mark.parametrize("room", [1, 64], ids=["with room for one", "with room for all"])
def test_the_list_follows_who_comes_takes_and_goes(node: Any, room: int) -> None:
    asker = node.start(ASKER.format(room=room))
    asker.hear()

    def look() -> tuple[dict[int, int], bool]:
        asker.tell("look")
        used, is_same = asker.hear()
        return {int(pid): size for pid, size in used.items()}, is_same

    assert look() == ({}, False)
    holders = [node.start(HOLDER) for _ in range(3)]
    for holder in holders:
        holder.hear()
    context_bytes = 450 << 20
    assert look() == ({holder.pid: context_bytes for holder in holders}, False)
    assert look() == ({holder.pid: context_bytes for holder in holders}, True)

    holders[1].tell("take")
    holders[1].hear()
    used = {holder.pid: context_bytes for holder in holders}
    used[holders[1].pid] += 1 << 30
    assert look() == (used, False)

    holders[0].process.kill()
    holders[0].process.wait()
    del used[holders[0].pid]
    assert look() == (used, False)
    asker.tell("end")
