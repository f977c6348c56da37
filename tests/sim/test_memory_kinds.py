"""Ways to get device memory beside cuMemAlloc: what each costs the board, and that it comes back."""

from __future__ import annotations

from typing import Any

HERE = """
    start()
    before = free_bytes()
    def taken():
        return (before - free_bytes()) // MIB
"""


def test_an_array_costs_its_pitched_size(node: Any) -> None:
    assert node.run(
        HERE
        + """
    shape = cuda.CUDA_ARRAY_DESCRIPTOR()
    shape.Width, shape.Height, shape.NumChannels = 4000, 1000, 4
    shape.Format = cuda.CUarray_format.CU_AD_FORMAT_FLOAT
    array = ok(*cuda.cuArrayCreate(shape))
    costs = taken()
    told = ok(*cuda.cuArrayGetDescriptor(array))
    ok(*cuda.cuArrayDestroy(array))
    say([costs, told.Width, told.Height, taken(), code(*cuda.cuArrayDestroy(array))])
    """
    ) == [62, 4000, 1000, 0, 400]


def test_what_is_copied_into_an_array_comes_out_again(node: Any) -> None:
    assert node.run(
        HERE
        + """
    shape = cuda.CUDA_ARRAY_DESCRIPTOR()
    shape.Width, shape.Height, shape.NumChannels = 10, 3, 1
    shape.Format = cuda.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8
    array = ok(*cuda.cuArrayCreate(shape))
    kinds = cuda.CUmemorytype
    source, target = bytearray(range(30)), bytearray(30)
    import ctypes
    def address(buffer):
        return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
    there = cuda.CUDA_MEMCPY2D()
    there.srcMemoryType, there.srcHost, there.srcPitch = kinds.CU_MEMORYTYPE_HOST, address(source), 10
    there.dstMemoryType, there.dstArray = kinds.CU_MEMORYTYPE_ARRAY, array
    there.WidthInBytes, there.Height = 10, 3
    ok(*cuda.cuMemcpy2D(there))
    back = cuda.CUDA_MEMCPY2D()
    back.srcMemoryType, back.srcArray = kinds.CU_MEMORYTYPE_ARRAY, array
    back.dstMemoryType, back.dstHost, back.dstPitch = kinds.CU_MEMORYTYPE_HOST, address(target), 10
    back.WidthInBytes, back.Height = 10, 3
    ok(*cuda.cuMemcpy2D(back))
    say(source == target)
    """
    )


def test_a_mipmapped_array_costs_all_its_levels(node: Any) -> None:
    assert node.run(
        HERE
        + """
    shape = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    shape.Width, shape.Height, shape.NumChannels = 4096, 4096, 1
    shape.Format = cuda.CUarray_format.CU_AD_FORMAT_FLOAT
    mipmap = ok(*cuda.cuMipmappedArrayCreate(shape, 3))
    costs = taken()
    last = ok(*cuda.cuArrayGetDescriptor(ok(*cuda.cuMipmappedArrayGetLevel(mipmap, 2))))
    beyond = code(*cuda.cuMipmappedArrayGetLevel(mipmap, 3))
    ok(*cuda.cuMipmappedArrayDestroy(mipmap))
    say([costs, last.Width, beyond, taken()])
    """
    ) == [84, 1024, 1, 0]


def test_an_array_that_does_not_fit_is_out_of_memory(make_node: Any) -> None:
    assert (
        make_node("t4").run("""
        start()
        shape = cuda.CUDA_ARRAY3D_DESCRIPTOR()
        shape.Width, shape.Height, shape.Depth, shape.NumChannels = 4096, 4096, 512, 4
        shape.Format = cuda.CUarray_format.CU_AD_FORMAT_FLOAT
        say(code(*cuda.cuArray3DCreate(shape)))
    """)
        == 2
    )


def test_memory_of_another_process_is_seen_by_both_and_paid_by_one(node: Any) -> None:
    exporter = node.start("""
        start()
        place = ok(*cuda.cuMemAlloc(100 * MIB))
        small = ok(*cuda.cuMemAlloc(512))
        ok(*cuda.cuMemsetD8(place, 7, 100 * MIB))
        import ctypes
        handles = [ok(*cuda.cuIpcGetMemHandle(one)) for one in (place, small)]
        say([ctypes.string_at(int(handle.getPtr()), 64).hex() for handle in handles])
        heard()
        out = bytearray(4)
        ok(*cuda.cuMemcpyDtoH(out, place, 4))
        say(list(out))
        heard()
    """)
    importer = node.start(
        HERE
        + """
    handles = [cuda.CUipcMemHandle() for _ in range(2)]
    import ctypes
    texts = heard()
    before = free_bytes()
    for handle, text in zip(handles, texts):
        ctypes.memmove(int(handle.getPtr()), bytes.fromhex(text), 64)
    place, small = [ok(*cuda.cuIpcOpenMemHandle(handle, 1)) for handle in handles]
    out = bytearray(4)
    ok(*cuda.cuMemcpyDtoH(out, int(place) + 99 * MIB, 4))
    ok(*cuda.cuMemsetD8(place, 9, 4))
    ok(*cuda.cuMemsetD8(small, 9, 512))
    costs = taken()
    ok(*cuda.cuIpcCloseMemHandle(small))
    say([list(out), costs, code(*cuda.cuIpcCloseMemHandle(small)), code(*cuda.cuMemFree(place))])
    heard()
    """
    )

    importer.tell(exporter.hear())
    seen = importer.hear()
    exporter.tell(0)

    assert seen == [[7] * 4, 0, 1, 1]
    assert exporter.hear() == [9] * 4


def test_a_handle_is_of_no_use_in_its_own_process_nor_when_it_is_wrong(node: Any) -> None:
    assert node.run("""
        start()
        handle = ok(*cuda.cuIpcGetMemHandle(ok(*cuda.cuMemAlloc(MIB))))
        say([code(*cuda.cuIpcOpenMemHandle(handle, 1)), code(*cuda.cuIpcOpenMemHandle(cuda.CUipcMemHandle(), 1)),
             code(*cuda.cuIpcGetMemHandle(1234))])
    """) == [201, 1, 1]


def test_managed_memory_is_the_board_s_where_it_is_used(node: Any) -> None:
    assert node.run(
        HERE
        + """
    place = ok(*cuda.cuMemAllocManaged(64 * MIB, 1))
    made = taken()
    device, host = cuda.CUmemLocation(), cuda.CUmemLocation()
    device.type, device.id = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    host.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST
    ok(*cuda.cuMemPrefetchAsync(place, 32 * MIB, device, 0, 0))
    half = taken()
    ok(*cuda.cuMemsetD8(place, 0, 64 * MIB))
    whole = taken()
    ok(*cuda.cuMemPrefetchAsync(place, 64 * MIB, host, 0, 0))
    back = taken()
    ok(*cuda.cuMemPrefetchAsync(place, 64 * MIB, device, 0, 0))
    ok(*cuda.cuMemFree(place))
    say([made, half, whole, back, taken()])
    """
    ) == [0, 32, 64, 0, 0]


def test_more_managed_memory_than_the_board_has_is_no_error(make_node: Any) -> None:
    assert (
        make_node("t4").run("""
        start()
        place = ok(*cuda.cuMemAllocManaged(20 * GIB, 1))
        device = cuda.CUmemLocation()
        device.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        say(code(*cuda.cuMemPrefetchAsync(place, 20 * GIB, device, 0, 0)))
    """)
        == 0
    )


def test_a_graph_s_memory_node_is_paid_while_it_lives(node: Any) -> None:
    assert node.run(
        HERE
        + """
    graph = ok(*cuda.cuGraphCreate(0))
    params = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    params.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    params.bytesize = 64 * MIB
    made = ok(*cuda.cuGraphAddMemAllocNode(graph, [], 0, params))
    node = made[0] if isinstance(made, tuple) else made
    address = ok(*cuda.cuGraphMemAllocNodeGetParams(node)).dptr
    executable = ok(*cuda.cuGraphInstantiate(graph, 0))
    unborn = taken()
    ok(*cuda.cuGraphLaunch(executable, 0))
    ok(*cuda.cuCtxSynchronize())
    living = taken()
    ok(*cuda.cuMemFree(address))
    ok(*cuda.cuDeviceGraphMemTrim(0))
    say([unborn, living, taken()])
    """
    ) == [0, 64, 0]


def test_a_green_context_has_a_part_of_the_sms(node: Any) -> None:
    assert node.run(
        HERE
        + """
    kind = cuda.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = ok(*cuda.cuDeviceGetDevResource(0, kind))
    parts, count, rest = ok(*cuda.cuDevSmResourceSplitByCount(2, whole, 0, 30))
    desc = ok(*cuda.cuDevResourceGenerateDesc([parts[0]], 1))
    green = ok(*cuda.cuGreenCtxCreate(desc, 0, cuda.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM))
    stream = ok(*cuda.cuGreenCtxStreamCreate(green, 1, 0))
    launch(function("sim_busy_100us"), stream)
    ok(*cuda.cuStreamSynchronize(stream))
    costs = taken()
    has = ok(*cuda.cuGreenCtxGetDevResource(green, kind)).sm.smCount
    ok(*cuda.cuGreenCtxDestroy(green))
    say([whole.sm.smCount, count, parts[0].sm.smCount, rest.sm.smCount, has, costs])
    """
    ) == [108, 2, 32, 44, 32, 0]


def test_a_multicast_object_costs_nothing_and_takes_its_team_s_memory(make_node: Any) -> None:
    assert make_node("2xh100").run(
        HERE
        + """
    properties = cuda.CUmulticastObjectProp()
    properties.numDevices, properties.size = 2, 2 * MIB
    group = ok(*cuda.cuMulticastCreate(properties))
    memory = cuda.CUmemAllocationProp()
    memory.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    memory.location.type, memory.location.id = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    piece = ok(*cuda.cuMemCreate(2 * MIB, memory, 0))
    costs = taken()
    bind = lambda: code(*cuda.cuMulticastBindMem(group, 0, piece, 0, 2 * MIB, 0))
    tries = [bind()]
    for device in (0, 1):
        ok(*cuda.cuMulticastAddDevice(group, device))
        tries.append(bind())
    ok(*cuda.cuMulticastUnbind(group, 0, 0, 2 * MIB))
    ok(*cuda.cuMemRelease(piece))
    ok(*cuda.cuMemRelease(group))
    say([costs, tries, taken()])
    """
    ) == [2, [1, 600, 0], 0]


def test_multicast_is_not_supported_by_older_boards(node: Any) -> None:
    assert (
        node.run("""
        start()
        properties = cuda.CUmulticastObjectProp()
        properties.numDevices, properties.size = 1, 2 * MIB
        say(code(*cuda.cuMulticastCreate(properties)))
    """)
        == 801
    )
