"""Tell an out-of-memory error of the GPU from others. Pure; imports no framework."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# By module and name of the class, or of one that it derives from; with a pattern, the message has to have it too.
# sources: torch/_C (`OutOfMemoryError`, `AcceleratorError`), cupy/cuda/memory.pyx, jaxlib (`XlaRuntimeError`,
# `JaxRuntimeError`), tensorflow/python/framework/errors_impl.py, numba/cuda/cudadrv/driver.py
_BY_CLASS: tuple[tuple[str, str, str, str], ...] = (
    ("torch", "torch", "OutOfMemoryError", ""),
    ("torch", "torch.cuda", "OutOfMemoryError", ""),
    ("torch", "torch", "AcceleratorError", r"out of memory"),
    ("cupy", "cupy.cuda.memory", "OutOfMemoryError", ""),
    ("cupy", "cupy_backends.cuda.api.runtime", "CUDARuntimeError", r"cudaErrorMemoryAllocation"),
    ("cupy", "cupy_backends.cuda.api.driver", "CUDADriverError", r"CUDA_ERROR_OUT_OF_MEMORY"),
    ("jax", "jaxlib", "XlaRuntimeError", r"RESOURCE_EXHAUSTED"),
    ("jax", "jaxlib", "JaxRuntimeError", r"RESOURCE_EXHAUSTED"),
    ("jax", "jax", "JaxRuntimeError", r"RESOURCE_EXHAUSTED"),
    ("tensorflow", "tensorflow", "ResourceExhaustedError", ""),
    ("numba", "numba", "CudaAPIError", r"CUDA_ERROR_OUT_OF_MEMORY"),
)
# What the driver itself calls it, whoever passes it on, and NVIDIA's libraries, whose handles take memory of their own.
# sources: torch/c10/cuda/driver_api.h, triton/backends/nvidia/driver.c, pycuda/src/cpp/cuda.hpp, cublas_api.h
_BY_MESSAGE = re.compile(
    r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|CUDA (?:driver )?(?:error: )?out of memory"
    r"|CU[A-Z]+_(?:STATUS_)?ALLOC_FAILED|Triton Error \[CUDA\]: out of memory|\bcu[A-Z]\w+ failed: out of memory"
)
_ASKED = re.compile(r"(?:allocat\w*(?: request for)?|of size)\s+([\d,.]+)\s*(bytes|B|KiB|MiB|GiB|TiB)\b", re.IGNORECASE)
_UNITS = {"bytes": 0, "b": 0, "kib": 1, "mib": 2, "gib": 3, "tib": 4}
_LONGEST_CHAIN = 16


@dataclass(frozen=True)
class OutOfMemory:
    """A recognised error.

    Attributes:
        framework: `"torch"`, `"cupy"`, `"jax"`, `"tensorflow"`, `"numba"`, or `"CUDA"` for any other client.
        asked_bytes: What was asked for; `None` when the message does not say.
    """

    framework: str
    asked_bytes: int | None


def recognise(error: BaseException | None) -> OutOfMemory | None:
    """Return what `error`, or what caused it, says about the GPU's memory; `None` when it is about something else."""
    for link in _chain(error):
        framework = _framework(link)
        if framework:
            return OutOfMemory(framework, _asked_bytes(str(link)))
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _framework(error: BaseException) -> str:
    message = str(error)
    for framework, module, name, pattern in _BY_CLASS:
        for kind in type(error).__mro__:
            of_module = kind.__module__ == module or kind.__module__.startswith(f"{module}.")
            if of_module and kind.__name__ == name and re.search(pattern, message, re.IGNORECASE):
                return framework
    return "CUDA" if _BY_MESSAGE.search(message) else ""


def _asked_bytes(message: str) -> int | None:
    found = _ASKED.search(message)
    if found is None:
        return None
    try:
        return int(float(found[1].replace(",", "").rstrip(".")) * 1024 ** _UNITS[found[2].lower()])
    except (ValueError, OverflowError):
        return None
