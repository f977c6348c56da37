"""What a graph's work needs on the host lives as long as a graph may use it."""

from __future__ import annotations

from typing import Any

# The thread that calls destructors calls host functions too, in the order in which it got them.
SETUP = """
    import ctypes
    start()
    told = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    tell, nothing = kind(told.append), kind(lambda _: None)
    stream = ok(*cuda.cuStreamCreate(1))

    def call(function):
        return cuda.CUhostFn(_ptr=ctypes.addressof(function))

    def made(number, count=1):
        return ok(*cuda.cuUserObjectCreate(number, call(tell), count, 1))

    def settled():
        ok(*cuda.cuLaunchHostFunc(stream, call(nothing), 0))
        ok(*cuda.cuStreamSynchronize(stream))
        return list(told)
"""


def test_the_destructor_is_called_with_the_last_reference(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    held = made(5, 2)
    ok(*cuda.cuUserObjectRetain(held, 1))
    ok(*cuda.cuUserObjectRelease(held, 2))
    before = settled()
    ok(*cuda.cuUserObjectRelease(held, 1))
    say([before, settled()])
    """
    ) == [[], [5]]


def test_a_graph_and_whatever_is_made_from_it_hold_the_object(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    graph, parent = ok(*cuda.cuGraphCreate(0)), ok(*cuda.cuGraphCreate(0))
    ok(*cuda.cuGraphRetainUserObject(graph, made(7), 1, 1))
    clone = ok(*cuda.cuGraphClone(graph))
    ok(*cuda.cuGraphAddChildGraphNode(parent, [], 0, graph))
    whole = ok(*cuda.cuGraphInstantiate(parent, 0))
    seen = []
    for destroy, which in (
        (cuda.cuGraphDestroy, graph), (cuda.cuGraphDestroy, parent),
        (cuda.cuGraphDestroy, clone), (cuda.cuGraphExecDestroy, whole),
    ):
        seen.append(settled())
        ok(*destroy(which))
    say([*seen, settled()])
    """
    ) == [[], [], [], [], [7]]


def test_a_graph_gives_back_what_it_holds(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    graph, kept = ok(*cuda.cuGraphCreate(0)), made(9)
    ok(*cuda.cuGraphRetainUserObject(graph, kept, 3, 0))
    ok(*cuda.cuUserObjectRelease(kept, 1))
    ok(*cuda.cuGraphReleaseUserObject(graph, kept, 2))
    before = settled()
    ok(*cuda.cuGraphReleaseUserObject(graph, kept, 1))
    after = settled()
    ok(*cuda.cuGraphDestroy(graph))
    say([before, after, settled()])
    """
    ) == [[], [9], [9]]


def test_the_destructor_waits_for_the_host_functions_of_launches_before(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    graph = ok(*cuda.cuGraphCreate(0))
    ok(*cuda.cuGraphRetainUserObject(graph, made(2), 1, 1))
    host = cuda.CUDA_HOST_NODE_PARAMS()
    host.fn, host.userData = call(tell), 1
    ok(*cuda.cuGraphAddHostNode(graph, [], 0, host))
    whole = ok(*cuda.cuGraphInstantiate(graph, 0))
    launch(function("sim_busy_200000us"), stream)
    ok(*cuda.cuGraphLaunch(whole, stream))
    ok(*cuda.cuGraphDestroy(graph))
    ok(*cuda.cuGraphExecDestroy(whole))
    say(settled())
    """
    ) == [1, 2]


def test_references_that_nobody_has_cannot_be_given_away(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    graph, kept = ok(*cuda.cuGraphCreate(0)), made(3)
    create, retain = cuda.cuUserObjectCreate, cuda.cuGraphRetainUserObject
    refused = [
        code(*create(1, call(tell), 0, 1)), code(*create(1, call(tell), 1, 0)), code(*create(1, 0, 1, 1)),
        code(*cuda.cuUserObjectRelease(kept, 0)), code(*cuda.cuUserObjectRelease(kept, 2)),
        code(*cuda.cuUserObjectRetain(0, 1)), code(*retain(0, kept, 1, 0)), code(*retain(graph, kept, 1, 2)),
        code(*retain(graph, kept, 2, 1)), code(*cuda.cuGraphReleaseUserObject(graph, kept, 1)),
    ]
    ok(*retain(graph, kept, 1, 0))
    refused.append(code(*cuda.cuGraphReleaseUserObject(graph, kept, 2)))
    say([refused, settled()])
    """
    ) == [[1] * 11, []]
