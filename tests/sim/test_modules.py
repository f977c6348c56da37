"""Modules, and what the linker makes of their pieces."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

LONG = "counted_" + "x" * 300


def cubin(variables: dict[str, tuple[str, int, int]], init: bytes) -> bytes:
    """Return a file as NVIDIA's tools make them, as far as its variables go.

    Args:
        variables: By name: the section, where in it, and how many bytes.
        init: What the section `.nv.global.init` holds.
    """
    sections = ["", ".names", ".symbols", ".text.f", ".nv.global", ".nv.global.init"]
    names = b"".join(name.encode() + b"\0" for name in (*sections, *variables))
    symbols = bytes(24)
    for name, (section, start, size) in variables.items():
        symbols += struct.pack("<IBBHQQ", names.index(name.encode()), 0x11, 0, sections.index(section), start, size)
    contents = {".names": (3, names), ".symbols": (2, symbols), ".text.f": (1, bytes(64)), ".nv.global.init": (1, init)}
    body, rows = b"", bytes(64)
    for section in sections[1:]:
        kind, content = contents.get(section, (8, b""))
        row = (names.index(section.encode() + b"\0"), kind, 0, 0, 64 + len(body), len(content), 1, 0, 8, 24)
        rows += struct.pack("<IIQQQQIIQQ", *row)
        body += content + bytes(-len(content) % 8)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    numbers = (2, 190, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(sections), 1)
    return header + struct.pack("<HHIQQQIHHHHHH", *numbers) + body + rows


VARIABLES = {
    LONG: (".nv.global", 0, 1000),
    "weights": (".nv.global.init", 8, 16),
    "f": (".text.f", 0, 64),
}
HELD = cubin(VARIABLES, bytes(range(24)))


def test_a_function_s_name_may_be_of_any_length(node: Any) -> None:
    """Catches a bug where one of 220 letters or more was not found: compilers write all types of a function into it."""
    assert node.run("""
        start()
        names = [b"_Z" + letter * 5000 + b"sim_busy_70us" for letter in (b"x", b"y")]
        first, other = (function(name.decode()) for name in names)
        launch(first)
        ok(*cuda.cuCtxSynchronize())
        say([ok(*cuda.cuFuncGetName(first)) == names[0], ok(*cuda.cuFuncGetName(other)) == names[1]])
    """) == [True, True]


def test_what_the_linker_makes_can_be_loaded(node: Any) -> None:
    assert node.run("""
        start()
        state = ok(*cuda.cuLinkCreate(0, [], []))
        empty = code(*cuda.cuLinkComplete(state))
        text = b"// some PTX"
        ok(*cuda.cuLinkAddData(state, cuda.CUjitInputType.CU_JIT_INPUT_PTX, text, len(text), b"name", 0, [], []))
        image, size = ok(*cuda.cuLinkComplete(state))
        module = ok(*cuda.cuModuleLoadData(image))
        first = ok(*cuda.cuModuleGetFunction(module, b"one"))
        again = ok(*cuda.cuModuleGetFunction(module, b"one"))
        ok(*cuda.cuLinkDestroy(state))
        say([empty, int(first) == int(again), ok(*cuda.cuModuleGetFunctionCount(module))])
    """) == [1, True, 1]


def test_what_the_linker_makes_holds_the_arrays_of_its_pieces(node: Any, tmp_path: Path) -> None:
    (tmp_path / "second.ptx").write_text(".version 8.0\n.global .align 4 .b8 second[32];\n")

    assert node.run(f"""
        start()
        PTX = cuda.CUjitInputType.CU_JIT_INPUT_PTX
        state = ok(*cuda.cuLinkCreate(0, [], []))
        text = b"// first\\n.visible .global .align 4 .b8 first[16];\\n\\0not read"
        ok(*cuda.cuLinkAddData(state, PTX, text, len(text), b"first", 0, [], []))
        ok(*cuda.cuLinkAddFile(state, PTX, b"{tmp_path}/second.ptx", 0, [], []))
        missing = code(*cuda.cuLinkAddFile(state, PTX, b"{tmp_path}/third.ptx", 0, [], []))
        image, size = ok(*cuda.cuLinkComplete(state))
        late = code(*cuda.cuLinkAddFile(state, PTX, b"{tmp_path}/second.ptx", 0, [], []))
        module = ok(*cuda.cuModuleLoadData(image))
        ok(*cuda.cuLinkDestroy(state))
        sizes = [ok(*cuda.cuModuleGetGlobal(module, name))[1] for name in (b"first", b"second")]
        say([missing, late, sizes, code(*cuda.cuModuleGetGlobal(module, b"third"))])
    """) == [301, 1, [16, 32], 500]


def test_functions_and_kernels_take_a_preference_for_their_cache(node: Any) -> None:
    assert node.run("""
        start()
        library = ok(*cuda.cuLibraryLoadData(b"// any text", [], [], 0, [], [], 0))
        kernel = ok(*cuda.cuLibraryGetKernel(library, b"one"))
        prefer = cuda.CUfunc_cache.CU_FUNC_CACHE_PREFER_L1
        answers = [(kernel, 0), (kernel, 7), (0, 0)]
        say([code(*cuda.cuFuncSetCacheConfig(ok(*cuda.cuKernelGetFunction(kernel)), prefer)),
             *(code(*cuda.cuKernelSetCacheConfig(which, prefer, device)) for which, device in answers)])
    """) == [0, 0, 101, 400]


def test_a_cubin_s_variables_are_there_with_what_they_begin_with(node: Any, tmp_path: Path) -> None:
    (tmp_path / "held.cubin").write_bytes(HELD)

    assert (
        node.run(f"""
        start()
        # Small memory is used again: what lay there before must not be seen.
        kept, before = (ok(*cuda.cuMemAlloc(1000)) for _ in range(2))
        ok(*cuda.cuMemsetD8(before, 77, 1000))
        ok(*cuda.cuMemFree(before))
        says = []
        for module in (ok(*cuda.cuModuleLoadData({HELD!r})), ok(*cuda.cuModuleLoad(b"{tmp_path}/held.cubin"))):
            for name in (b"{LONG}", b"weights"):
                place, size = ok(*cuda.cuModuleGetGlobal(module, name))
                content = bytearray(size)
                ok(*cuda.cuMemcpyDtoH(content, place, size))
                says.append([size, sum(content)])
            says.append(code(*cuda.cuModuleGetGlobal(module, b"f")))
        say(says)
    """)
        == [[1000, 0], [16, sum(range(8, 24))], 500] * 2
    )


def test_a_large_variable_of_a_cubin_is_charged_and_given_back(node: Any) -> None:
    image = cubin({"large": (".nv.global", 0, 3 << 30)}, b"")

    assert node.run(f"""
        start()
        before = free_bytes()
        module = ok(*cuda.cuModuleLoadData({image!r}))
        taken = before - free_bytes()
        ok(*cuda.cuModuleUnload(module))
        say([taken, free_bytes() == before])
    """) == [3 << 30, True]


def test_a_file_that_says_it_is_a_cubin_and_is_cut_short_is_read_as_far_as_it_goes(node: Any, tmp_path: Path) -> None:
    paths = []
    for length in range(8, len(HELD), 3):
        paths.append(tmp_path / f"short-{length}.cubin")
        paths[-1].write_bytes(HELD[:length])

    assert node.run(f"""
        start()
        modules = [ok(*cuda.cuModuleLoad(path.encode())) for path in {[str(path) for path in paths]}]
        say([code(*cuda.cuModuleGetGlobal(module, b"weights")) for module in modules])
    """) == [500] * len(paths)


def test_a_device_array_in_a_text_may_have_a_name_of_any_length(node: Any) -> None:
    text = f".version 8.0\n.global .align 8 .b8 {LONG}[48];\n.global .align 8 .b8 more[64];\n"

    assert node.run(f"""
        start()
        module = ok(*cuda.cuModuleLoadData({text.encode()!r}))
        say([ok(*cuda.cuModuleGetGlobal(module, name))[1] for name in (b"{LONG}", b"more")])
    """) == [48, 64]
