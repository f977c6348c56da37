"""What the nodes of a graph do, asked and changed, before and after it is made executable."""

from __future__ import annotations

from typing import Any

GRAPH = """
    start()
    place = ok(*cuda.cuMemAlloc(16))
    graph = ok(*cuda.cuGraphCreate(0))

    def fill(value):
        params = cuda.CUDA_MEMSET_NODE_PARAMS()
        params.dst, params.value, params.elementSize, params.width, params.height = place, value, 1, 16, 1
        return params

    def executable():
        return ok(*cuda.cuGraphInstantiate(graph, 0))

    def after(exec_):
        out = bytearray(16)
        ok(*cuda.cuGraphLaunch(exec_, 0))
        ok(*cuda.cuMemcpyDtoH(out, place, 16))
        return list(out[:2])
"""


def test_a_fill_is_changed_in_the_graph_and_in_what_was_made_of_it(node: Any) -> None:
    assert node.run(
        GRAPH
        + """
    node = ok(*cuda.cuGraphAddMemsetNode(graph, None, 0, fill(3), None))
    first = executable()
    told = ok(*cuda.cuGraphMemsetNodeGetParams(node))
    ok(*cuda.cuGraphMemsetNodeSetParams(node, fill(4)))
    second = executable()
    before = [after(first), after(second)]
    ok(*cuda.cuGraphExecMemsetNodeSetParams(first, node, fill(5), None))
    say([told.value, told.width, before, after(first), after(second)])
    """
    ) == [3, 16, [[3, 3], [4, 4]], [5, 5], [4, 4]]


def test_a_copy_is_changed_too(node: Any) -> None:
    assert node.run(
        GRAPH
        + """
    import ctypes
    sources = [(ctypes.c_char * 16)(*[value] * 16) for value in (7, 8)]
    def copy(source):
        params = cuda.CUDA_MEMCPY3D()
        params.srcMemoryType, params.dstMemoryType = cuda.CUmemorytype(1), cuda.CUmemorytype(2)
        params.srcHost, params.dstDevice = ctypes.addressof(source), place
        params.WidthInBytes, params.Height, params.Depth = 16, 1, 1
        return params
    context = ok(*cuda.cuCtxGetCurrent())
    node = ok(*cuda.cuGraphAddMemcpyNode(graph, None, 0, copy(sources[0]), context))
    exec_ = executable()
    before = after(exec_)
    ok(*cuda.cuGraphExecMemcpyNodeSetParams(exec_, node, copy(sources[1]), context))
    say([before, after(exec_), int(ok(*cuda.cuGraphMemcpyNodeGetParams(node)).WidthInBytes)])
    """
    ) == [[7, 7], [8, 8], 16]


def test_an_event_node_records_the_event_it_was_given_last(node: Any) -> None:
    assert node.run(
        GRAPH
        + """
    one, other = ok(*cuda.cuEventCreate(0)), ok(*cuda.cuEventCreate(0))
    node = ok(*cuda.cuGraphAddEventRecordNode(graph, None, 0, one))
    exec_ = executable()
    ok(*cuda.cuGraphExecEventRecordNodeSetEvent(exec_, node, other))
    ok(*cuda.cuGraphLaunch(exec_, 0))
    ok(*cuda.cuCtxSynchronize())
    # Between an event and itself lies nothing, once it was recorded.
    say([int(ok(*cuda.cuGraphEventRecordNodeGetEvent(node))) == int(one), code(*cuda.cuEventElapsedTime(one, one)),
         code(*cuda.cuEventElapsedTime(other, other))])
    """
    ) == [True, 400, 0]


def test_a_host_node_and_a_child_are_told(node: Any) -> None:
    assert node.run(
        GRAPH
        + """
    import ctypes
    calls = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    functions = [kind(lambda _, number=number: calls.append(number)) for number in range(2)]
    def host(number):
        params = cuda.CUDA_HOST_NODE_PARAMS()
        params.fn = cuda.CUhostFn(_ptr=ctypes.addressof(functions[number]))
        return params
    node = ok(*cuda.cuGraphAddHostNode(graph, None, 0, host(0)))
    exec_ = executable()
    ok(*cuda.cuGraphExecHostNodeSetParams(exec_, node, host(1)))
    for graph_exec in (executable(), exec_):
        ok(*cuda.cuGraphLaunch(graph_exec, 0))
        ok(*cuda.cuCtxSynchronize())
    parent = ok(*cuda.cuGraphCreate(0))
    child = ok(*cuda.cuGraphAddChildGraphNode(parent, None, 0, graph))
    inner = ok(*cuda.cuGraphChildGraphNodeGetGraph(child))
    say([calls, len(ok(*cuda.cuGraphGetNodes(inner, 1))[0])])
    """
    ) == [[0, 1], 1]


def test_another_kind_s_values_are_refused(node: Any) -> None:
    assert (
        node.run(
            GRAPH
            + """
    node = ok(*cuda.cuGraphAddEmptyNode(graph, None, 0))
    exec_ = executable()
    say([code(*cuda.cuGraphMemsetNodeGetParams(node)), code(*cuda.cuGraphMemsetNodeSetParams(node, fill(1))),
         code(*cuda.cuGraphExecMemsetNodeSetParams(exec_, node, fill(1), None)),
         code(*cuda.cuGraphHostNodeGetParams(node)), code(*cuda.cuGraphEventWaitNodeGetEvent(node)),
         code(*cuda.cuGraphChildGraphNodeGetGraph(node))])
    """
        )
        == [1] * 6
    )
