"""Every way to an entry point: exported symbols, cuGetProcAddress with versions, flags and status."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.native import SIMULATED_CUDA, SIMULATED_NVML

SOURCES = Path(__file__).resolve().parents[2] / "native" / "sim"
ROW = re.compile(r"SIM_(ENTRY|TWIN)\((\w+), (\w+), (\d+)\)")

# What the fixture `answers` asks, through nothing but ctypes.
SETUP = """
    import ctypes
    library = ctypes.CDLL("libcuda.so.1")

    def address(symbol):
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value

    def ask(name, version, flags=0):
        pointer, status = ctypes.c_void_p(1), ctypes.c_int(-1)
        result = library.cuGetProcAddress_v2(
            name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags), ctypes.byref(status)
        )
        return result, pointer.value, status.value
"""


def rows(*files: str) -> list[tuple[str, str, str, int]]:
    files = files or ("driver.def", "unsupported.def")
    found = [row for file in files for row in ROW.findall((SOURCES / file).read_text())]
    return [(kind, name, symbol, int(version)) for kind, name, symbol, version in found]


def exported(library: Path) -> set[str]:
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in listing.stdout.splitlines()}


def test_the_list_names_exactly_what_is_exported() -> None:
    assert {symbol for _, _, symbol, _ in rows()} == exported(SIMULATED_CUDA)


# Declared, but not in the real libcuda.so.1 (580) for Linux on x86-64.
ELSEWHERE = {"cuWGLGetDevice", "cuEventCreateFromEGLSync"}


@pytest.mark.parametrize("header", ["cudaTypedefs.h", "cudaEGLTypedefs.h", "cudaGLTypedefs.h", "cudaVDPAUTypedefs.h"])
def test_the_list_has_every_function_of_nvidia_s_headers_in_each_version_of_the_simulated_driver(header: str) -> None:
    files = metadata.files("nvidia-cuda-runtime") or []
    (found,) = [file for file in files if file.name == header]
    text = Path(str(found.locate())).read_text()
    declared = {(name, int(version)) for name, version in re.findall(r"PFN_(cu\w+?)_v(\d+)(?:_pt[ds][sz])?\)", text)}
    expected = {(name, version) for name, version in declared if version <= 13000 and name not in ELSEWHERE}

    assert expected
    assert not expected - {(name, version) for _, name, _, version in rows()}


@pytest.mark.parametrize("file", ["driver.def", "unsupported.def"])
def test_the_lists_stand_in_the_order_of_names(file: str) -> None:
    names = [name for _, name, _, _ in rows(file)]

    assert names == sorted(names)


def test_nothing_but_nvml_is_exported_by_nvml() -> None:
    assert all(symbol.startswith("nvml") for symbol in exported(SIMULATED_NVML))


def test_every_row_is_found_by_its_name_version_and_flag(node: Any) -> None:
    asked = [[name, version, 2 if kind == "TWIN" else 0, symbol] for kind, name, symbol, version in rows()]

    wrong = node.run(
        SETUP
        + f"""
    asked = {asked!r}
    say([row for row in asked if ask(*row[:3]) != (0, address(row[3]), 0)])
    """
    )

    assert wrong == []


def test_the_newest_version_the_caller_knows_is_returned(node: Any) -> None:
    assert (
        node.run(
            SETUP
            + """
    say([
        ask("cuMemAlloc", 2000)[1] == address("cuMemAlloc"),
        ask("cuMemAlloc", 3010)[1] == address("cuMemAlloc"),
        ask("cuMemAlloc", 3020)[1] == address("cuMemAlloc_v2"),
        ask("cuMemAlloc", 13000)[1] == address("cuMemAlloc_v2"),
        ask("cuCtxCreate", 11040)[1] == address("cuCtxCreate_v3"),
        ask("cuStreamGetCaptureInfo", 11030)[1] == address("cuStreamGetCaptureInfo_v2"),
        ask("cuGraphInstantiate", 11000)[1] == address("cuGraphInstantiate_v2"),
        ask("cuGraphInstantiate", 12000)[1] == address("cuGraphInstantiateWithFlags"),
        ask("cuGetProcAddress", 12000)[1] == address("cuGetProcAddress_v2"),
    ])
    """
        )
        == [True] * 9
    )


def test_the_per_thread_flag_chooses_the_twin_where_there_is_one(node: Any) -> None:
    assert (
        node.run(
            SETUP
            + """
    say([
        ask("cuLaunchKernel", 12000, 2)[1] == address("cuLaunchKernel_ptsz"),
        ask("cuMemcpyHtoD", 12000, 2)[1] == address("cuMemcpyHtoD_v2_ptds"),
        ask("cuMemAlloc", 12000, 2)[1] == address("cuMemAlloc_v2"),
        ask("cuLaunchKernel", 5000, 2)[1] == address("cuLaunchKernel"),
        ask("cuLaunchKernel", 12000, 1)[1] == address("cuLaunchKernel"),
    ])
    """
        )
        == [True] * 5
    )


def test_what_is_not_found_is_told_from_what_is_too_new(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    say([ask("cuNoSuchFunction", 13000), ask("cuMemAllocAsync", 11010), ask("cuMemAlloc_v2", 13000)])
    """
    ) == [[0, None, 1], [0, None, 2], [0, None, 1]]


def test_bad_arguments_are_answered(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    pointer = ctypes.c_void_p()
    say([
        library.cuGetProcAddress_v2(None, ctypes.byref(pointer), 12000, ctypes.c_uint64(0), None),
        library.cuGetProcAddress_v2(b"cuInit", None, 12000, ctypes.c_uint64(0), None),
        library.cuGetProcAddress_v2(b"cuInit", ctypes.byref(pointer), 12000, ctypes.c_uint64(64), None),
        library.cuGetProcAddress_v2(b"cuInit", ctypes.byref(pointer), 12000, ctypes.c_uint64(0), None),
        library.cuGetProcAddress_v2(b"cuInit", ctypes.byref(pointer), 13010, ctypes.c_uint64(0), None),
        library.cuGetProcAddress(b"cuInit", ctypes.byref(pointer), 12000, ctypes.c_uint64(0)),
    ])
    """
    ) == [1, 1, 1, 0, 1, 0]


def test_a_call_the_board_does_not_have_says_that_it_is_not_supported(node: Any) -> None:
    assert node.run("""
        before = code(*cuda.cuTexObjectDestroy(0))
        start()
        say([before, code(*cuda.cuTexObjectDestroy(0)), code(*cuda.cuGraphDebugDotPrint(0, b"", 0))])
    """) == [3, 801, 801]


def test_the_cuda_runtime_finds_no_tables_and_says_that_this_is_not_supported(node: Any) -> None:
    """Of cuda-bindings, whose runtime module has NVIDIA's own runtime in it."""
    assert node.run("""
        from cuda.bindings import runtime
        say([code(*runtime.cudaGetDeviceCount()), code(*runtime.cudaMalloc(100)), code(*runtime.cudaDeviceReset())])
    """) == [801, 801, 801]


def test_a_preloaded_library_does_not_get_between_the_driver_and_itself(node: Any, tmp_path: Path) -> None:
    source, library = tmp_path / "between.c", tmp_path / "between.so"
    source.write_text("int cuMemFree_v2(unsigned long long place) { (void)place; return 77; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)

    through_name, through_address, through_driver = node.run(
        SETUP
        + """
    everything = ctypes.CDLL(None)
    start()
    by_address = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)(ask("cuMemFree", 13000)[1])
    say([everything.cuMemFree_v2(0), by_address(0), library.cuMemFree(0)])
    """,
        LD_PRELOAD=str(library),
    )

    assert through_name == 77  # it is in the way
    assert (through_address, through_driver) == (0, 0)
