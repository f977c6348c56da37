"""What the frameworks that are loaded keep for themselves: read it, free it.

No framework is imported here: one that the notebook did not load has nothing
to give back. Each call into one may fail in its own way (no CUDA build, a
device that is gone), and then counts as nothing.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Cache:
    """What one framework's allocator holds.

    Attributes:
        framework: `"torch"`, `"cupy"` or `"jax"`.
        held_bytes: What it has from the driver.
        used_bytes: What of that the notebook's own objects use.
    """

    framework: str
    held_bytes: int
    used_bytes: int

    @property
    def cached_bytes(self) -> int:
        """What could be given back at once."""
        return max(0, self.held_bytes - self.used_bytes)


def caches() -> list[Cache]:
    """Return what each loaded framework holds; those that cannot tell, or use no GPU, are left out."""
    found = []
    for name, read in (("torch", _torch_cache), ("cupy", _cupy_cache)):
        module = sys.modules.get(name)
        if module is not None:
            with contextlib.suppress(Exception):
                held, used = read(module)
                if held:
                    found.append(Cache(name, held, used))
    return found


def free() -> list[str]:
    """Give back what is only cached; return the frameworks that were asked to.

    Also lets go of what the last traceback keeps alive: the local variables of the functions that failed.
    """
    _forget_locals(getattr(sys, "last_traceback", None))
    gc.collect()
    asked = []
    for name, release in (("torch", _free_torch), ("cupy", _free_cupy), ("jax", _free_jax)):
        module = sys.modules.get(name)
        if module is not None:
            with contextlib.suppress(Exception):
                release(module)
                asked.append(name)
    return asked


def _forget_locals(last: TracebackType | None) -> None:
    """Let go of the local variables of the functions in a traceback; those of cells are global, and stay."""
    if last is None:
        return
    traceback.clear_frames(last)
    for frame, _ in traceback.walk_tb(last):
        # Whoever printed the traceback had the locals copied; looking at them again brings the copy up to date.
        _ = frame.f_locals


def forget_peak() -> None:
    """Let torch count its peak anew."""
    torch = _torch_in_use()
    if torch is not None:
        with contextlib.suppress(Exception):
            for index in range(torch.cuda.device_count()):
                torch.cuda.reset_peak_memory_stats(index)


def peak() -> Cache | None:
    """Return torch's own peak since `forget_peak`, over all devices; `None` when it is not in use."""
    torch = _torch_in_use()
    if torch is None:
        return None
    with contextlib.suppress(Exception):
        indices = range(torch.cuda.device_count())
        return Cache(
            "torch",
            sum(int(torch.cuda.max_memory_reserved(index)) for index in indices),
            sum(int(torch.cuda.max_memory_allocated(index)) for index in indices),
        )
    return None


def _torch_in_use() -> Any:
    torch = sys.modules.get("torch")
    with contextlib.suppress(Exception):
        if torch is not None and torch.cuda.is_initialized():
            return torch
    return None


def _torch_cache(torch: Any) -> tuple[int, int]:
    if not torch.cuda.is_initialized():
        return 0, 0
    indices = range(torch.cuda.device_count())
    return _sum(torch.cuda.memory_reserved, indices), _sum(torch.cuda.memory_allocated, indices)


def _cupy_cache(cupy: Any) -> tuple[int, int]:
    pool = cupy.get_default_memory_pool()
    return int(pool.total_bytes()), int(pool.used_bytes())


def _free_torch(torch: Any) -> None:
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _free_cupy(cupy: Any) -> None:
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()


def _free_jax(jax: Any) -> None:
    jax.clear_caches()


def _sum(figure: Callable[[int], Any], indices: range) -> int:
    return sum(int(figure(index)) for index in indices)
