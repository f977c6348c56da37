"""The default: the preloaded library enforces, the agent holds the limits. Any GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from jupyter_vgpu.backends.base import Enforcement, Node
from jupyter_vgpu.model import Claim, Edits, Profile
from jupyter_vgpu.native import INTERCEPT_LIBRARY, SIMULATED_CUDA, SIMULATED_DRIVER_DIR, present


def preload_edits(secret: str, node: Node) -> Edits:
    """Return the edits that put the library into a process and lead it to the agent.

    Raises:
        NativeLibraryError: The library, or the simulated driver, is missing.
    """
    library = present(INTERCEPT_LIBRARY)
    env = {
        "JUPYTER_VGPU_SOCKET": str(node.attach_socket),
        "JUPYTER_VGPU_SECRET": secret,
        "JUPYTER_VGPU_API": str(node.user_socket),
    }
    mounted = [library.parent, node.attach_socket, node.user_socket]
    library_path = []
    if node.simulated_state is not None:
        present(SIMULATED_CUDA)
        env["JUPYTER_VGPU_SIM"] = str(node.simulated_state)
        library_path = [str(SIMULATED_DRIVER_DIR)]
        mounted.append(node.simulated_state)
    return Edits(
        env=env,
        preload=[str(library)],
        library_path=library_path,
        mounts=[{"hostPath": str(path), "containerPath": str(path), "options": _mount(path, node)} for path in mounted],
    )


def _mount(path: Path, node: Node) -> list[str]:
    """Return mount options: everything is read-only but a simulated board, which its processes write."""
    return ["bind", "rw" if path == node.simulated_state else "ro", "nosuid", "nodev"]


def has_mapped(pid: int, library: Path) -> bool | None:
    """Return whether the process has `library` mapped; `None` when the agent may not look, or it is gone.

    source: proc_pid_maps(5). A file that was replaced since reads "… (deleted)".
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return any(line.split(maxsplit=5)[-1].removesuffix(" (deleted)") == str(library) for line in maps.splitlines())


class InterceptBackend:
    """Memory by library and agent; time by the governor once there is one."""

    name: ClassVar[str] = "intercept"
    level: ClassVar[str] = "cooperative"
    requirement: ClassVar[str] = "intercept takes any profile but one with backend whole"

    def supports(self, profile: Profile) -> bool:
        """Return whether the profile leaves the choice: any share and any memory can be enforced."""
        return profile.backend != "whole"

    def prepare(self, claim: Claim, secret: str, node: Node) -> Edits:
        """Return the preload and the way to the agent."""
        return preload_edits(secret, node)

    def release(self, claim: Claim) -> None:
        """Nothing was made."""

    def observe(self, claim: Claim, pids: Sequence[int]) -> Enforcement:
        """Return whether every attached process really has the library mapped."""
        if not pids:
            return Enforcement(self.level, False, "no process of this slice uses the GPU now")
        mapped = {pid: has_mapped(pid, INTERCEPT_LIBRARY) for pid in pids}
        if missing := [pid for pid, answer in mapped.items() if answer is False]:
            return Enforcement(
                self.level, False, f"attached without the library: process {', '.join(map(str, missing))}"
            )
        if unseen := [pid for pid, answer in mapped.items() if answer is None]:
            return Enforcement(self.level, False, f"the agent cannot look into process {', '.join(map(str, unseen))}")
        return Enforcement(self.level, True, "memory is limited by a preloaded library in each process of the slice")
