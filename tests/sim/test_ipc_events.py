"""Events of one process in another."""

from __future__ import annotations

from typing import Any

EXPORT = """
    import ctypes
    start()
    stream = ok(*cuda.cuStreamCreate(1))
    event = ok(*cuda.cuEventCreate(2 | 4))
    handle = ok(*cuda.cuIpcGetEventHandle(event))
    say(list(ctypes.string_at(handle.getPtr(), 64)))
"""

IMPORT = """
    import ctypes
    start()
    handle = cuda.CUipcEventHandle()
    ctypes.memmove(handle.getPtr(), bytes(heard()), 64)
    event = ok(*cuda.cuIpcOpenEventHandle(handle))
"""


def exporter(node: Any, work: str = "") -> tuple[Any, Any]:
    client = node.start(
        EXPORT
        + """
    while heard() == "record":
        launch(function("sim_busy_%sus"), stream)
        ok(*cuda.cuEventRecord(event, stream))
        say("recorded")
"""
        % (work or "600000000")
    )
    return client, client.hear()


def importer(node: Any, handle: Any, script: str) -> Any:
    client = node.start(IMPORT + script)
    client.tell(handle)
    return client


def test_an_event_is_done_in_both_processes_until_it_is_recorded_and_then_in_neither(node: Any) -> None:
    client, handle = exporter(node)
    other = importer(
        node,
        handle,
        """
    stream = ok(*cuda.cuStreamCreate(1))
    say(code(*cuda.cuEventQuery(event)))
    heard()
    ok(*cuda.cuStreamWaitEvent(stream, event, 0))
    say([code(*cuda.cuEventQuery(event)), code(*cuda.cuStreamQuery(stream))])
""",
    )
    before = other.hear()

    client.tell("record")
    client.hear()
    other.tell("look")

    assert before == 0
    assert other.hear() == [600, 600]


def test_waiting_for_another_process_s_event_ends_when_its_work_does(node: Any) -> None:
    client, handle = exporter(node, "300000")
    client.tell("record")
    client.hear()

    other = importer(node, handle, "    ok(*cuda.cuEventSynchronize(event)); say(code(*cuda.cuEventQuery(event)))")

    assert other.hear() == 0


def test_an_event_of_a_process_that_was_killed_is_done(node: Any) -> None:
    client, handle = exporter(node)
    other = importer(node, handle, "    say('open'); heard(); ok(*cuda.cuEventSynchronize(event)); say('done')")
    other.hear()
    client.tell("record")
    client.hear()

    client.process.kill()
    client.process.wait(60)
    other.tell("wait")

    assert other.hear() == "done"


def test_either_process_may_record(node: Any) -> None:
    client = node.start(
        EXPORT
        + """
    heard()
    say(code(*cuda.cuEventQuery(event)))
"""
    )
    other = importer(
        node,
        client.hear(),
        """
    stream = ok(*cuda.cuStreamCreate(1))
    launch(function("sim_busy_600000000us"), stream)
    ok(*cuda.cuEventRecord(event, stream))
    say("recorded")
    heard()
""",
    )
    other.hear()

    client.tell("look")

    assert client.hear() == 600


def test_what_cannot_be_shared_is_refused(node: Any) -> None:
    own, plain, nothing = node.run(
        EXPORT
        + """
    say([code(*cuda.cuIpcOpenEventHandle(handle)), code(*cuda.cuIpcGetEventHandle(ok(*cuda.cuEventCreate(2)))),
         code(*cuda.cuIpcOpenEventHandle(cuda.CUipcEventHandle()))])
    """
    )

    assert (own, plain, nothing) == (201, 400, 1)
