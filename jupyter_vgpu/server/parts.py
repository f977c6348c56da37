"""Give a notebook a part of the slice: what its Jupyter kernel's provisioner can do, and the restart that it takes."""

from __future__ import annotations

from typing import Any, Protocol, TypedDict, runtime_checkable

from jupyter_vgpu.errors import BadValueError, VGPUError


class PartInfo(TypedDict):
    """PART of `docs/contracts.md`: what a notebook's Jupyter kernel was given of the slice.

    Attributes:
        memory: As it was chosen, as `"2GiB"` or `"1/4"`; empty = the whole slice, beside the others.
        share: As it was chosen; empty = the same part as of the memory.
        claim: Id of the part; empty for the whole slice.
        memory_limit_bytes: Of each device; 0 for the whole slice.
    """

    memory: str
    share: str
    claim: str
    memory_limit_bytes: int


@runtime_checkable
class Divisible(Protocol):
    """A kernel provisioner that can run its Jupyter kernel in a part of the slice, as ours can."""

    def vgpu_part(self) -> PartInfo:
        """Return what the Jupyter kernel has now."""
        ...

    async def vgpu_choose(self, memory: str, share: str = "") -> None:
        """Have the next start take `memory` of the slice, empty for the whole, and `share` of its share.

        Raises:
            VGPUError: It is not allowed, or there is no slice; nothing has changed.
        """
        ...


def part_of(manager: Any) -> PartInfo | None:
    """Return what a kernel manager's Jupyter kernel has of the slice; `None` where no part can be chosen for it."""
    provisioner = getattr(manager, "provisioner", None)
    return provisioner.vgpu_part() if isinstance(provisioner, Divisible) else None


async def restart_in_part(kernel_manager: Any, kernel_id: str, memory: str) -> PartInfo:
    """Start a Jupyter kernel anew in a part of the slice, and return the part.

    When it cannot have that much, it is started anew with what it had.

    Args:
        kernel_manager: The server's `MappingKernelManager`.
        kernel_id: One of its Jupyter kernels.
        memory: As `"2GiB"` or `"1/4"`; empty = the whole slice.

    Raises:
        VGPUError: It cannot have that; the message says what it could.
    """
    manager = kernel_manager.get_kernel(kernel_id)
    provisioner = manager.provisioner
    if not isinstance(provisioner, Divisible):
        raise BadValueError(
            "kernel_id",
            kernel_id,
            "only a Jupyter kernel that this package's provisioner `vgpu` starts can have a part",
        )
    before = provisioner.vgpu_part()
    await provisioner.vgpu_choose(memory)
    try:
        await kernel_manager.restart_kernel(kernel_id)
    except VGPUError:
        await provisioner.vgpu_choose(before["memory"], before["share"])
        await kernel_manager.restart_kernel(kernel_id)
        raise
    return provisioner.vgpu_part()
