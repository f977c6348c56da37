"""An out-of-memory error of the GPU is recognised, whoever raises it, and explained with true figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_vgpu.client import UsageInfo
from jupyter_vgpu.magic.explain import explained
from jupyter_vgpu.magic.frameworks import Cache
from jupyter_vgpu.magic.holders import Holder
from jupyter_vgpu.magic.oom import OutOfMemory, recognise

RunCells = Callable[..., list[dict[str, Any]]]
GIB = 1 << 30

HOLD = """
from cuda.bindings import driver

def check(answer):
    status, *values = answer
    if status:
        raise RuntimeError(status.name)
    return values[0] if values else None

check(driver.cuInit(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
kept = check(driver.cuMemAlloc(8 << 30))
"""
# The agent measures the overhead of a new context within a second or so.
WAIT = """
import time
from jupyter_vgpu.client import UserClient
client = UserClient.from_environment()
end = time.monotonic() + 60
while not client.usage()["devices"][0]["memory_overhead_bytes"] and time.monotonic() < end:
    time.sleep(0.05)
"""
FAIL = "check(driver.cuMemAlloc(15 << 30))"


def raised(module: str, name: str, message: str, bases: tuple[type, ...] = (RuntimeError,)) -> Exception:
    """Return an error of a class that is called as a framework calls its own."""
    kind = type(name, bases, {"__module__": module})
    error: Exception = kind(message)
    return error


TORCH_SAYS = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 19.81 GiB of which 1.02 GiB is free."
)
JAX_SAYS = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes."


@pytest.mark.parametrize(
    ("error", "framework", "asked_bytes"),
    [
        (raised("torch", "OutOfMemoryError", TORCH_SAYS), "torch", 2.5 * GIB),
        (raised("torch.cuda", "OutOfMemoryError", TORCH_SAYS), "torch", 2.5 * GIB),
        (raised("torch", "AcceleratorError", "CUDA error: out of memory"), "torch", None),
        (raised("cupy.cuda.memory", "OutOfMemoryError", "Out of memory allocating 1,073,741,824 bytes (allocated so "
                "far: 512 bytes).", (MemoryError,)), "cupy", GIB),
        (raised("jaxlib._jax", "XlaRuntimeError", JAX_SAYS), "jax", 8 * GIB),
        (raised("jax.errors", "JaxRuntimeError", JAX_SAYS), "jax", 8 * GIB),
        (raised("tensorflow.python.framework.errors_impl", "ResourceExhaustedError", "OOM when allocating tensor with "
                "shape[4096,4096]"), "tensorflow", None),
        (raised("numba.cuda.cudadrv.driver", "CudaAPIError", "[2] Call to cuMemAlloc results in "
                "CUDA_ERROR_OUT_OF_MEMORY"), "numba", None),
        (RuntimeError("CUDA_ERROR_OUT_OF_MEMORY"), "CUDA", None),
        (RuntimeError("CUDA driver error: out of memory"), "CUDA", None),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "CUDA", None),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "CUDA", None),
        (RuntimeError("Triton Error [CUDA]: out of memory"), "CUDA", None),
        (raised("pycuda._driver", "MemoryError", "cuMemAlloc failed: out of memory"), "CUDA", None),
        (raised("jaxlib._jax", "XlaRuntimeError", "RESOURCE_EXHAUSTED: Failed to allocate request for 16.00GiB "
                "(17179869184B) on device ordinal 0"), "jax", 16 * GIB),
        (raised("somewhere", "Own", TORCH_SAYS, (type(raised("torch", "OutOfMemoryError", "")),)), "torch", 2.5 * GIB),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}" if isinstance(value, Exception) else "",
)  # fmt: skip
def test_each_frameworks_own_error_is_recognised(error: Exception, framework: str, asked_bytes: float | None) -> None:
    assert recognise(error) == OutOfMemory(framework, None if asked_bytes is None else int(asked_bytes))


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("out of memory"),
        MemoryError("of the host"),
        raised("torch", "AcceleratorError", "CUDA error: an illegal memory access was encountered"),
        raised("jaxlib._jax", "XlaRuntimeError", "INVALID_ARGUMENT: shapes"),
        RuntimeError("malloc failed: out of memory"),
        raised("mytorch", "OutOfMemoryError", "of my own"),
    ],
)
def test_other_errors_are_not(error: Exception | None) -> None:
    assert recognise(error) is None


def test_what_caused_an_error_counts_too() -> None:
    try:
        try:
            raise raised("torch", "OutOfMemoryError", TORCH_SAYS)
        except RuntimeError as cause:
            raise ValueError("the model does not fit") from cause
    except ValueError as error:
        assert recognise(error) == OutOfMemory("torch", int(2.5 * GIB))


def test_a_circle_of_causes_ends() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one

    assert recognise(one) is None


def usage(used_gib: float, limit_gib: float, overhead_gib: float) -> UsageInfo:
    device = {
        "memory_used_bytes": int(used_gib * GIB),
        "memory_limit_bytes": int(limit_gib * GIB),
        "memory_overhead_bytes": int(overhead_gib * GIB),
    }
    return {"devices": [device]}  # type: ignore[typeddict-item]


def holder(name: str, gib: float, is_this: bool = False, is_notebook: bool = True) -> Holder:
    return Holder(name, is_this, is_notebook and not is_this, int(gib * GIB), 0, 0, None, None, None)


def test_the_explanation_says_who_holds_what_and_what_to_try() -> None:
    explanation = explained(
        OutOfMemory("torch", 2 * GIB),
        usage(10, 10, 0.5),
        [
            holder("this notebook", 7.7, is_this=True),
            holder("B.ipynb", 1.8),
            holder("train (process 9)", 1, False, False),
        ],
        [Cache("torch", int(7.7 * GIB), int(4.6 * GIB))],
    )

    assert (
        explanation.headline
        == "Your slice of the GPU is 10.0 GiB; 0 B of it is free, and this cell asked for 2.0 GiB more."
    )
    assert explanation.held == [
        "this notebook holds 7.7 GiB, of which 3.1 GiB cached by torch",
        "B.ipynb holds 1.8 GiB",
        "train (process 9) holds 1.0 GiB",
        "overhead (contexts and code of all of these): 512.0 MiB",
    ]
    assert explanation.advice[0] == "run `%vgpu free`: 3.1 GiB is only cached"
    assert explanation.advice[1].startswith("restart the Jupyter kernel of B.ipynb")
    assert explanation.advice[2].startswith("end train (process 9)")


def test_a_name_in_the_block_is_text_never_html() -> None:
    name = "<b>`<img src=x>`.ipynb"
    explanation = explained(OutOfMemory("torch", None), usage(10, 10, 0), [holder(name, 4)], [])

    html = explanation._repr_mimebundle_()["text/html"]

    assert "<img" not in html
    assert html.count("&lt;img src=x&gt;") == 2


def test_what_is_more_than_the_slice_is_called_so() -> None:
    explanation = explained(OutOfMemory("torch", 20 * GIB), usage(1, 10, 0), [holder("B.ipynb", 1)], [])

    [advice] = explanation.advice
    assert "more than the whole slice" in advice


@pytest.mark.parametrize(
    ("framework", "said"), [("jax", "XLA_PYTHON_CLIENT_PREALLOCATE"), ("tensorflow", "memory_growth")]
)
def test_frameworks_that_take_all_at_once_are_told_how_not_to(framework: str, said: str) -> None:
    explanation = explained(OutOfMemory(framework, None), usage(1, 10, 0), [], [])

    assert any(said in line for line in explanation.advice)


def test_a_cell_that_dies_of_it_shows_the_block_once_with_true_figures(run_cells: RunCells) -> None:
    _, _, failed, fine = run_cells(HOLD, WAIT, FAIL, "1 / 1")

    assert failed["error"] == "RuntimeError: CUDA_ERROR_OUT_OF_MEMORY"
    [block] = failed["displayed"]
    assert "Your slice of the GPU is 19.8 GiB; 11.4 GiB of it is free" in block["text/plain"]
    assert "this notebook holds 8.0 GiB" in block["text/plain"]
    assert "overhead (contexts and code of all of these): 450.0 MiB" in block["text/plain"]
    assert "<li>this notebook holds 8.0 GiB</li>" in block["text/html"]
    assert "<code>%vgpu free</code>" in block["text/html"]
    assert fine["displayed"] == []


def test_without_a_slice_the_block_says_that_the_holders_are_not_known(run_cells: RunCells) -> None:
    [failed] = run_cells("raise RuntimeError('CUDA_ERROR_OUT_OF_MEMORY')", in_slice=False)

    assert "Who holds it is not known" in failed["displayed"][0]["text/plain"]
