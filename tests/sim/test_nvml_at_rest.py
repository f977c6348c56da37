"""Where nobody does anything NVML is asked little, and the agent sleeps on; who comes is seen as soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

# Counts each call of NVML by its name.
COUNTING = """
    from collections import Counter
    from jupyter_vgpu.nvml import Nvml, listing
    import pynvml

    calls = Counter()

    def counted(name, function):
        def call(*arguments):
            calls[name] += 1
            return function(*arguments)
        return call

    find = pynvml._nvmlGetFunctionPointer
    pynvml._nvmlGetFunctionPointer = lambda name: counted(name, find(name))
    asker = Nvml()
    uuid = asker.devices()[0].uuid
    asker._listing._function = counted("list", asker._listing._function)
"""
ASKER = f"""{COUNTING}
    say("ready")
    while (question := heard()) != "end":
        calls.clear()
        looks = [asker.look(uuid, is_glance=question[0] == "glance") for _ in range(question[1])]
        say([[{{row.pid: row.used_bytes for row in look.processes}} for look in looks], calls])
"""
# The beats of an agent that has nobody, by hand.
BEATS = f"""{COUNTING}
    import asyncio
    from jupyter_vgpu.agent.events import EventLog
    from jupyter_vgpu.agent.oversight import AuditRules, Oversight

    async def main():
        loop, wakings, events = asyncio.get_running_loop(), Counter(), EventLog()
        loop.call_soon_threadsafe = counted_in(wakings, loop.call_soon_threadsafe)
        oversight = Oversight(asker, AuditRules(), events, lambda: [], lambda: (), [uuid])
        oversight.start(loop)

        async def looks(more, until=lambda: False):
            before = oversight.looks
            while oversight.looks < before + more and not until():
                oversight.beat(is_awake=False, is_at_rest=oversight.is_calm)
                await asyncio.sleep(0.01)

        await looks(1000, lambda: oversight.is_calm)
        await looks(2)
        calls.clear(), wakings.clear()
        await looks(16)
        say([calls, wakings["wakings"]])
        heard()
        before = oversight.looks
        await looks(1000, events.all)
        say([events.all()[0].pid, oversight.looks - before, oversight.is_calm])
        oversight.stop()

    def counted_in(wakings, function):
        def call(*arguments):
            wakings["wakings"] += 1
            return function(*arguments)
        return call

    asyncio.run(main())
"""
HOLDER = "start(); say('ready'); heard(); held = ok(*cuda.cuMemAlloc(GIB)); say('holds'); heard()"
CONTEXT_BYTES = 450 << 20
GIB = 1 << 30


class Asker:
    """Looks at the device as often as it is told, and says who was there each time and what NVML was asked."""

    def __init__(self, node: Any) -> None:
        self._client = node.start(ASKER)
        self._client.hear()

    def seen(self, how: str, times: int) -> tuple[list[dict[int, int]], dict[str, int]]:
        self._client.tell([how, times])
        seen, calls = self._client.hear()
        return [{int(pid): size for pid, size in each.items()} for each in seen], calls


@pytest.fixture
def holder(node: Any) -> Callable[[], Any]:
    def make() -> Any:
        client = node.start(HOLDER)
        client.hear()
        return client

    return make


def in_anothers_place(asker: Asker, holder: Callable[[], Any]) -> Any:
    """Return a process that came, with as much memory, where another was glanced at and went."""
    one = holder()
    asker.seen("glance", 1)
    one.process.kill()
    one.process.wait()
    return holder()


def test_a_list_stands_for_three_glances_as_long_as_the_memory_in_use_is_the_same(
    node: Any, holder: Callable[[], Any]
) -> None:
    asker = Asker(node)
    one = holder()

    seen, calls = asker.seen("glance", 8)

    assert seen == [{one.pid: CONTEXT_BYTES}] * 8
    assert calls["list"] == 2


def test_who_comes_takes_or_goes_is_seen_by_the_next_glance(node: Any, holder: Callable[[], Any]) -> None:
    asker = Asker(node)
    seen = [asker.seen("glance", 1)[0]]
    one = holder()
    seen.append(asker.seen("glance", 1)[0])
    one.tell("take")
    one.hear()
    seen.append(asker.seen("glance", 1)[0])
    one.process.kill()
    one.process.wait()
    seen.append(asker.seen("glance", 1)[0])

    assert seen == [[{}], [{one.pid: CONTEXT_BYTES}], [{one.pid: CONTEXT_BYTES + GIB}], [{}]]


def test_one_that_comes_with_what_another_gave_back_is_seen_by_the_fourth_glance(
    node: Any, holder: Callable[[], Any]
) -> None:
    asker = Asker(node)
    other = in_anothers_place(asker, holder)

    assert asker.seen("glance", 4)[0][-1] == {other.pid: CONTEXT_BYTES}


def test_a_list_from_before_a_whole_look_stands_for_no_glance(node: Any, holder: Callable[[], Any]) -> None:
    """Somebody took another's place meanwhile: as much memory is in use as when the glance's list was asked for."""
    asker = Asker(node)
    other = in_anothers_place(asker, holder)
    asker.seen("look", 1)

    assert asker.seen("glance", 1)[0] == [{other.pid: CONTEXT_BYTES}]


def test_a_devices_counters_are_read_into_two_samples_that_take_turns(make_node: Callable[[str], Any]) -> None:
    asker = Asker(make_node("h200"))
    asker.seen("look", 2)

    _, calls = asker.seen("look", 8)

    assert calls["nvmlGpmSampleGet"] == calls["nvmlGpmMetricsGet"] == 8
    assert "nvmlGpmSampleAlloc" not in calls


def test_an_agent_at_rest_hardly_asks_for_lists_and_its_loop_sleeps(make_node: Callable[[str], Any]) -> None:
    node = make_node("h200")
    beats = node.start(BEATS)

    calls, wakings = beats.hear()

    assert wakings == 0
    assert calls["list"] <= 16 / 4 + 1
    assert sum(calls.values()) <= 16 * 3 + calls["list"]

    stranger = node.start(HOLDER)
    stranger.hear()
    beats.tell("go on")
    pid, looks, is_calm = beats.hear()
    assert pid == stranger.pid
    assert looks <= 3  # one was on its way, one glances, one asks who it is
    assert not is_calm
