"""How much of its user's slice a Jupyter kernel is to have. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jupyter_vgpu.client import SliceInfo
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.units import parse_bytes, parse_fraction

MEMORY_VARIABLE = "JUPYTER_VGPU_KERNEL_MEMORY"
SHARE_VARIABLE = "JUPYTER_VGPU_KERNEL_SHARE"


@dataclass(frozen=True)
class Wish:
    """What a Jupyter kernel is to have.

    Attributes:
        memory_bytes: Of each device of the slice, > 0.
        share: Part of the device's time, in (0, 1]; `None` = as much of the slice's share as of its memory.
    """

    memory_bytes: int
    share: float | None


def refuse_unknown(settings: Mapping[str, object], known: Collection[str]) -> None:
    """Refuse a kernel spec's `config` that says something else than how much is wished for.

    Args:
        settings: `config`, with what `jupyter_client` adds to it.
        known: Names of all that may stand there.

    Raises:
        BadValueError: A key that nobody reads, or an amount that is no text.
    """
    for key, value in settings.items():
        if key not in known:
            raise BadValueError(f"kernel_provisioner.config.{key}", value, "only the keys memory and share are")
        if key in ("memory", "share") and not isinstance(value, str):
            raise BadValueError(f"kernel_provisioner.config.{key}", value, 'a text is, as "2GiB" or "1/4"')


def wished(memory: str, share: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return memory and share as they are wished for, not looked at yet; empty = nothing is.

    Args:
        memory: As set; empty = the environment's `JUPYTER_VGPU_KERNEL_MEMORY`.
        share: Likewise; empty = `JUPYTER_VGPU_KERNEL_SHARE`.
        environment: What the kernel spec and the server give the Jupyter kernel.
    """
    return memory or environment.get(MEMORY_VARIABLE, ""), share or environment.get(SHARE_VARIABLE, "")


def parse_wish(memory: str, share: str, environment: Mapping[str, str], mine: SliceInfo) -> Wish | None:
    """Return what is wished for; `None` when nothing is, and the Jupyter kernel runs in the whole slice.

    Args:
        memory: `"2GiB"`, or a part of the slice as `"1/4"`; empty = the environment's `JUPYTER_VGPU_KERNEL_MEMORY`.
        share: A part of the slice's share, as `"1/2"` or `"50%"`; empty = `JUPYTER_VGPU_KERNEL_SHARE`.
        environment: What the kernel spec and the server give the Jupyter kernel.
        mine: The slice.

    Raises:
        BadValueError: A value is not allowed, or there is a share without memory. A typo is never "the whole slice".
    """
    memory, share = wished(memory, share, environment)
    if not memory:
        if share:
            raise BadValueError("share", share, "it is for notebooks with a part of the memory: give `memory` too")
        return None
    least_bytes = min(device["memory_limit_bytes"] for device in mine["devices"])
    whole = min(device["share"] for device in mine["devices"])
    if memory.strip().isascii() and ("/" in memory or "%" in memory):
        memory_bytes = int(least_bytes * parse_fraction(memory, "memory"))
    else:
        memory_bytes = parse_bytes(memory, "memory")
    return Wish(memory_bytes, float(parse_fraction(share, "share")) * whole if share else None)
