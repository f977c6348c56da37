"""Modules, and what the linker makes of their pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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
