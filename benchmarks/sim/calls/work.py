"""Streams, events, captures, graphs, functions."""

from __future__ import annotations

import ctypes
from ctypes import byref

from asking import NULL, Asked, i32, size, u32, u64, with_context

# A function that does nothing, in the language every driver since 450 knows.
PTX = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry sim_null()\n{\n  ret;\n}\n"
ONE = (u32(1),) * 3


def streams(cuda: Asked) -> None:
    """Streams and what they are told."""
    with_context(cuda)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    stream = cuda.make(ctypes.c_void_p, "cuStreamCreate", "ok", u32(0))
    other = cuda.make(ctypes.c_void_p, "cuStreamCreate", "non-blocking", u32(1))
    cuda.ask("cuStreamCreate", "flags 2", byref(ctypes.c_void_p()), u32(2), says=1)
    cuda.ask("cuStreamCreate", "no place", NULL, u32(0), says=1)
    third = cuda.make(ctypes.c_void_p, "cuStreamCreateWithPriority", "a priority out of range", u32(0), -100)
    for name, kind in (("Flags", u32), ("Priority", i32), ("Id", u64), ("Ctx", ctypes.c_void_p)):
        cuda.ask(f"cuStreamGet{name}", "ok", stream, byref(kind()), says=0)
        cuda.ask(f"cuStreamGet{name}", "no place", stream, NULL, says=1)
        cuda.ask(f"cuStreamGet{name}", "the legacy one", NULL, byref(kind()), says=0)
        cuda.ask(f"cuStreamGet{name}_ptsz", "the thread's", NULL, byref(kind()), says=0)
    for case, handle in (("ok", stream), ("the legacy one", NULL), ("the thread's", ctypes.c_void_p(2))):
        cuda.ask("cuStreamQuery", case, handle, says=0)
        cuda.ask("cuStreamSynchronize", case, handle, says=0)
    cuda.ask("cuStreamWaitEvent", "no event", stream, NULL, u32(0), says=400)
    cuda.ask("cuLaunchHostFunc", "ok", other, call, NULL, says=0)
    cuda.ask("cuLaunchHostFunc", "no function", other, NULL, NULL, says=1)
    cuda.ask("cuStreamAddCallback", "no function", other, NULL, NULL, u32(0), says=1)
    cuda.ask("cuStreamAddCallback", "flags 1", other, call, NULL, u32(1), says=1)
    cuda.ask("cuStreamSynchronize", "with a host function", other, says=0)
    place = u64()
    cuda.library.cuMemAlloc_v2(byref(place), size(4096))
    cuda.ask("cuStreamWriteValue32_v2", "ok", other, place, u32(7), u32(0), says=0)
    cuda.ask("cuStreamWaitValue32_v2", "what it is", other, place, u32(7), u32(1), says=0)
    cuda.ask("cuStreamWriteValue32_v2", "askew", other, u64(place.value + 2), u32(7), u32(0), says=1)
    cuda.ask("cuStreamAttachMemAsync", "not managed", other, place, size(0), u32(4), says=1)
    cuda.ask("cuStreamSynchronize", "after a value", other, says=0)
    cuda.ask("cuStreamDestroy_v2", "none", NULL)
    for handle in (stream, other, third):
        cuda.library.cuStreamDestroy_v2(handle)


def events(cuda: Asked) -> None:
    """Events."""
    with_context(cuda)
    span = ctypes.c_float()
    first = cuda.make(ctypes.c_void_p, "cuEventCreate", "ok", u32(0))
    last = cuda.make(ctypes.c_void_p, "cuEventCreate", "blocking", u32(1))
    plain = cuda.make(ctypes.c_void_p, "cuEventCreate", "no timing", u32(2))
    shared = cuda.make(ctypes.c_void_p, "cuEventCreate", "between processes", u32(6))
    cuda.ask("cuEventCreate", "between processes with timing", byref(ctypes.c_void_p()), u32(4), says=1)
    cuda.ask("cuEventCreate", "flags 8", byref(ctypes.c_void_p()), u32(8), says=1)
    cuda.ask("cuEventCreate", "no place", NULL, u32(0), says=1)
    cuda.ask("cuEventQuery", "never recorded", first, says=0)
    cuda.ask("cuEventSynchronize", "never recorded", first, says=0)
    cuda.ask("cuEventElapsedTime", "never recorded", byref(span), first, last, says=400)
    cuda.ask("cuEventRecord", "none", NULL, NULL, says=400)
    for event in (first, last, plain):
        cuda.library.cuEventRecord(event, NULL)
    cuda.ask("cuEventRecord", "ok", first, NULL, says=0)
    cuda.ask("cuEventRecordWithFlags", "flags 2", first, NULL, u32(2), says=1)
    cuda.ask("cuEventRecord", "the second", last, NULL, says=0)
    cuda.ask("cuEventSynchronize", "ok", last, says=0)
    cuda.ask("cuEventQuery", "ok", last, says=0)
    cuda.ask("cuEventElapsedTime", "ok", byref(span), first, last, says=0)
    cuda.ask("cuEventElapsedTime", "without timing", byref(span), first, plain, says=400)
    cuda.ask("cuEventElapsedTime", "no event", byref(span), first, NULL, says=400)
    cuda.ask("cuEventElapsedTime", "no place", NULL, first, last, says=1)
    cuda.ask("cuEventQuery", "none", NULL, says=400)
    cuda.ask("cuEventSynchronize", "none", NULL, says=400)
    cuda.ask("cuEventDestroy_v2", "none", NULL, says=400)
    handle = ctypes.create_string_buffer(64)
    cuda.ask("cuIpcGetEventHandle", "ok", handle, shared, says=0)
    cuda.ask("cuIpcGetEventHandle", "not between processes", handle, plain)
    cuda.ask("cuStreamWaitEvent", "flags 2", NULL, first, u32(2), says=1)
    cuda.ask("cuStreamWaitEvent", "ok", NULL, first, u32(0), says=0)
    for number, event in enumerate((first, last, plain, shared)):
        cuda.ask("cuEventDestroy_v2", f"number {number}", event, says=0)


def captures(cuda: Asked) -> None:
    """Captures, and what they refuse."""
    with_context(cuda)
    stream, status, graph = ctypes.c_void_p(), i32(), ctypes.c_void_p()
    cuda.library.cuStreamCreate(byref(stream), u32(1))
    cuda.ask("cuStreamIsCapturing", "before", stream, byref(status), says=0)
    cuda.ask("cuStreamIsCapturing", "no place", stream, NULL, says=1)
    cuda.ask("cuStreamBeginCapture_v2", "the legacy stream", NULL, 0, says=900)
    cuda.ask("cuStreamBeginCapture_v2", "mode 9", stream, 9, says=1)
    cuda.ask("cuStreamEndCapture", "before", stream, byref(graph), says=401)
    for mode in range(3):
        begun = f"mode {mode}"
        cuda.ask("cuStreamBeginCapture_v2", begun, stream, mode, says=0)
        cuda.ask("cuStreamBeginCapture_v2", f"{begun}, again", stream, mode, says=401)
        cuda.ask("cuStreamEndCapture", f"{begun}, after that", stream, byref(graph))
        cuda.library.cuStreamBeginCapture_v2(stream, mode)
        cuda.ask("cuStreamIsCapturing", begun, stream, byref(status), says=0)
        cuda.note("cuStreamIsCapturing", f"{begun}: status", status.value, 1)
        cuda.ask("cuStreamQuery", begun, stream, says=900)
        cuda.ask("cuStreamEndCapture", f"{begun}, spoilt", stream, byref(graph), says=901)
        cuda.library.cuStreamBeginCapture_v2(stream, mode)
        place = u64()
        cuda.ask("cuMemAlloc_v2", begun, byref(place), size(4096), says=0 if mode == 2 else 900)
        cuda.ask(
            "cuStreamEndCapture", f"{begun}, after an allocation", stream, byref(graph), says=0 if mode == 2 else 901
        )
        cuda.library.cuStreamBeginCapture_v2(stream, mode)
        cuda.ask("cuStreamSynchronize", f"{begun}, the legacy stream", NULL)
        cuda.ask("cuCtxSynchronize", begun)
        cuda.ask("cuStreamEndCapture", f"{begun}, after that wait", stream, byref(graph))
    cuda.ask("cuThreadExchangeStreamCaptureMode", "ok", byref(i32(2)), says=0)
    cuda.ask("cuThreadExchangeStreamCaptureMode", "mode 9", byref(i32(9)), says=1)
    cuda.ask("cuThreadExchangeStreamCaptureMode", "no place", NULL, says=1)


def graphs(cuda: Asked) -> None:
    """Graphs made by hand."""
    with_context(cuda)
    nothing, count = ctypes.c_void_p(), size()
    graph = cuda.make(ctypes.c_void_p, "cuGraphCreate", "ok", u32(0))
    cuda.ask("cuGraphCreate", "flags 1", byref(nothing), u32(1), says=1)
    cuda.ask("cuGraphCreate", "no place", NULL, u32(0), says=1)
    one = cuda.make(ctypes.c_void_p, "cuGraphAddEmptyNode", "first", graph, NULL, size(0))
    two = cuda.make(ctypes.c_void_p, "cuGraphAddEmptyNode", "second", graph, byref(one), size(1))
    cuda.ask("cuGraphAddEmptyNode", "no graph", byref(nothing), NULL, NULL, size(0), says=1)
    cuda.ask("cuGraphAddEmptyNode", "needs that are not given", byref(nothing), graph, NULL, size(1), says=1)
    cuda.ask("cuGraphAddChildGraphNode", "no child", byref(nothing), graph, NULL, size(0), NULL, says=1)
    cuda.ask("cuGraphGetNodes", "how many", graph, NULL, byref(count), says=0)
    cuda.note("cuGraphGetNodes", "how many: value", count.value, 2)
    cuda.ask("cuGraphGetRootNodes", "how many", graph, NULL, byref(count), says=0)
    cuda.ask("cuGraphGetNodes", "no graph", NULL, NULL, byref(count), says=1)
    cuda.ask("cuGraphNodeGetType", "ok", one, byref(i32()), says=0)
    cuda.ask("cuGraphNodeGetType", "none", NULL, byref(i32()), says=1)
    exec_ = cuda.make(ctypes.c_void_p, "cuGraphInstantiateWithFlags", "ok", graph, u64(0))
    cuda.ask("cuGraphInstantiateWithFlags", "no graph", byref(nothing), NULL, u64(0), says=1)
    cuda.ask("cuGraphInstantiateWithFlags", "all flags", byref(nothing), graph, u64(0xFFFF), says=1)
    cuda.ask("cuGraphLaunch", "ok", exec_, NULL, says=0)
    cuda.ask("cuGraphLaunch", "none", NULL, NULL, says=1)
    cuda.ask("cuGraphUpload", "ok", exec_, NULL, says=0)
    cuda.ask("cuStreamSynchronize", "after a graph", NULL, says=0)
    clone = cuda.make(ctypes.c_void_p, "cuGraphClone", "ok", graph)
    cuda.ask("cuGraphNodeFindInClone", "ok", byref(nothing), two, clone, says=0)
    cuda.ask("cuGraphClone", "no graph", byref(nothing), NULL, says=1)
    cuda.ask("cuGraphDestroyNode", "ok", two, says=0)
    cuda.ask("cuGraphExecDestroy", "ok", exec_, says=0)
    cuda.ask("cuGraphExecDestroy", "none", NULL, says=1)
    cuda.ask("cuGraphDestroy", "ok", graph, says=0)
    cuda.ask("cuGraphDestroy", "a clone", clone, says=0)
    cuda.ask("cuGraphDestroy", "none", NULL, says=1)


def functions(cuda: Asked) -> None:
    """Modules, functions, launches."""
    with_context(cuda)
    nothing, value = ctypes.c_void_p(), i32()
    module = cuda.make(ctypes.c_void_p, "cuModuleLoadData", "ok", PTX)
    cuda.ask("cuModuleLoadData", "no module", byref(nothing), b"this is no module", says=200)
    cuda.ask("cuModuleLoadData", "nothing", byref(nothing), NULL, says=1)
    cuda.ask("cuModuleLoad", "no file", byref(nothing), b"/nonexistent/file.ptx", says=301)
    function = cuda.make(ctypes.c_void_p, "cuModuleGetFunction", "ok", module, b"sim_null")
    cuda.ask("cuModuleGetFunction", "not in it", byref(nothing), module, b"not_in_it", says=500)
    cuda.ask("cuModuleGetFunction", "no name", byref(nothing), module, NULL, says=1)
    cuda.ask("cuModuleGetGlobal_v2", "not in it", byref(u64()), byref(size()), module, b"not_in_it", says=500)
    cuda.ask("cuModuleGetLoadingMode", "ok", byref(value), says=0)
    for attribute in range(8):
        cuda.ask("cuFuncGetAttribute", f"attribute {attribute}", byref(value), attribute, function, says=0)
    cuda.ask("cuFuncGetAttribute", "attribute 99", byref(value), 99, function, says=1)
    cuda.ask("cuFuncGetAttribute", "no place", NULL, 0, function, says=1)
    cuda.ask("cuFuncSetAttribute", "shared memory", function, 8, 1024, says=0)
    cuda.ask("cuFuncSetAttribute", "what cannot be set", function, 0, 1, says=1)
    cuda.ask("cuFuncSetCacheConfig", "ok", function, 1, says=0)
    cuda.ask("cuFuncGetModule", "ok", byref(nothing), function, says=0)
    cuda.ask("cuFuncGetName", "ok", byref(nothing), function, says=0)

    def start(case: str, grid: int, block: int, shared: int = 0, handle: ctypes.c_void_p = function,
              says: int | None = 0) -> None:  # fmt: skip
        shape = (u32(grid), *ONE[:2], u32(block), *ONE[:2], u32(shared))
        cuda.ask("cuLaunchKernel", case, handle, *shape, NULL, NULL, NULL, says=says)

    start("ok", 1, 1)
    start("the largest block", 1, 1024)
    start("a larger block", 1, 1025, says=1)
    start("no blocks", 0, 1, says=1)
    start("no threads", 1, 0, says=1)
    start("no function", 1, 1, handle=NULL, says=400)
    start("more shared memory than it asked for", 1, 1, shared=1 << 20, says=1)
    cuda.ask("cuLaunchKernel", "too many rows", function, u32(1), u32(65536), *ONE, *ONE[:1], u32(0), NULL, NULL, NULL,
             says=1)  # fmt: skip
    cuda.ask("cuCtxSynchronize", "after launches", says=0)
    occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    cuda.ask(occupancy, "ok", byref(value), function, 128, size(0), says=0)
    cuda.ask(occupancy, "no place", NULL, function, 128, size(0), says=1)
    cuda.ask(occupancy, "no threads", byref(value), function, 0, size(0), says=1)
    cuda.ask("cuOccupancyMaxPotentialBlockSize", "ok", byref(value), byref(i32()), function, NULL, size(0), 0, says=0)
    library = cuda.make(ctypes.c_void_p, "cuLibraryLoadData", "ok", PTX, NULL, NULL, u32(0), NULL, NULL, u32(0))
    kernel = cuda.make(ctypes.c_void_p, "cuLibraryGetKernel", "ok", library, b"sim_null")
    cuda.ask("cuKernelGetFunction", "ok", byref(nothing), kernel, says=0)
    cuda.ask("cuLibraryUnload", "ok", library, says=0)
    cuda.ask("cuModuleUnload", "ok", module, says=0)
