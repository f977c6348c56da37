"""Memory nodes of graphs: made one by one or captured, taken by launch or upload, kept until a trim."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass

from driver import NODE_ADDRESS, Driver, allocation_node, any_node
from ways import Give, Take, Ways

GRAPHS = Ways()
FAMILY = "graphs"
RELAXED = 2


@dataclass
class Running:
    """A graph whose memory is alive.

    Attributes:
        address: Of that memory, to be freed before the trim; 0 = it is free already.
    """

    graph: int
    executable: int
    address: int


def _trim(driver: Driver, taken: Running) -> None:
    if taken.address:
        driver.call("cuMemFree_v2", taken.address)
    driver.wait()
    driver.call("cuGraphExecDestroy", taken.executable)
    driver.call("cuGraphDestroy", taken.graph)
    driver.call("cuDeviceGraphMemTrim", 0)


# --- nodes: each returns a graph with one allocation, and its address -------------------------------------

Make = Callable[[Driver, int], tuple[int, int]]


def _by_alloc_node(driver: Driver, size: int) -> tuple[int, int]:
    graph = driver.out("cuGraphCreate", 0)
    params = ctypes.create_string_buffer(allocation_node(size))
    driver.out("cuGraphAddMemAllocNode", graph, 0, 0, params)
    return graph, struct.unpack_from("=Q", params.raw, NODE_ADDRESS)[0]


def _by_any_node(symbol: str) -> Make:
    def make(driver: Driver, size: int) -> tuple[int, int]:
        graph = driver.out("cuGraphCreate", 0)
        params = ctypes.create_string_buffer(any_node(allocation_node(size)))
        # From the second version on, edges have data of their own.
        edges = () if symbol == "cuGraphAddNode" else (0,)
        driver.out(symbol, graph, 0, *edges, 0, params)
        return graph, struct.unpack_from("=Q", params.raw, 16 + NODE_ADDRESS)[0]

    return make


def _captured(symbol: str) -> Make:
    def make(driver: Driver, size: int) -> tuple[int, int]:
        stream = driver.stream()
        pool = (driver.out("cuDeviceGetDefaultMemPool", 0),) if "FromPool" in symbol else ()
        driver.call("cuStreamBeginCapture_v2", stream, RELAXED)
        address = driver.out(symbol, size, *pool, stream)
        return driver_graph(driver, stream), address

    return make


def driver_graph(driver: Driver, stream: int) -> int:
    """End a stream's capture and return its graph."""
    graph = ctypes.c_uint64()
    driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    return graph.value


# --- executable graphs --------------------------------------------------------------------------------------


def _instantiate(driver: Driver, symbol: str, graph: int) -> int:
    if symbol in ("cuGraphInstantiate", "cuGraphInstantiate_v2"):
        return driver.out(symbol, graph, 0, 0, 0)
    if symbol == "cuGraphInstantiateWithFlags":
        return driver.out(symbol, graph, 0)
    return driver.out(symbol, graph, struct.pack("=QQQiI", 0, 0, 0, 0, 0))


def _run(make: Make, instantiate: str = "cuGraphInstantiateWithFlags", start: str = "cuGraphLaunch") -> Take:
    def take(driver: Driver, size: int) -> Running:
        graph, address = make(driver, size)
        executable = 0
        try:
            executable = _instantiate(driver, instantiate, graph)
            driver.call(start, executable, driver.stream())
            if "Upload" in start:
                driver.call("cuGraphLaunch", executable, driver.stream())
        except Exception:
            if executable:
                driver.call("cuGraphExecDestroy", executable)
            driver.call("cuGraphDestroy", graph)
            raise
        driver.wait()
        return Running(graph, executable, address)

    return take


def _add(name: str, functions: str, take: Take, give: Give = _trim) -> None:
    GRAPHS.add(FAMILY, name, f"{functions} cuGraphExecDestroy cuDeviceGraphMemTrim", give)(take)


_add("allocation node", "cuGraphAddMemAllocNode cuGraphInstantiateWithFlags cuGraphLaunch", _run(_by_alloc_node))
for _symbol in ("cuGraphAddNode", "cuGraphAddNode_v2", "cuGraphAddNode_v3"):
    _add(f"allocation node by {_symbol}", f"{_symbol} cuGraphInstantiateWithFlags", _run(_by_any_node(_symbol)))
for _symbol in ("cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz"):
    _add(f"captured {_symbol}", f"{_symbol} cuGraphInstantiateWithFlags cuGraphLaunch", _run(_captured(_symbol)))
for _symbol in (
    "cuGraphInstantiate",
    "cuGraphInstantiate_v2",
    "cuGraphInstantiateWithParams",
    "cuGraphInstantiateWithParams_ptsz",
):
    _add(f"made executable by {_symbol}", f"cuGraphAddMemAllocNode {_symbol}", _run(_by_alloc_node, _symbol))
for _symbol in ("cuGraphUpload", "cuGraphUpload_ptsz", "cuGraphLaunch_ptsz"):
    _add(f"started by {_symbol}", f"cuGraphAddMemAllocNode {_symbol}", _run(_by_alloc_node, start=_symbol))


@GRAPHS.add(
    FAMILY,
    "freed by its user, and kept for the next launch",
    "cuGraphAddMemAllocNode cuGraphLaunch cuMemFree_v2 cuDeviceGraphMemTrim",
    _trim,
)
def _kept(driver: Driver, size: int) -> Running:
    running: Running = _run(_by_alloc_node)(driver, size)
    driver.call("cuMemFree_v2", running.address)
    running.address = 0
    return running
