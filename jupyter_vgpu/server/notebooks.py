"""Which notebook uses how much of the slice.

The agent knows processes, Jupyter Server knows Jupyter kernels and the
documents they run for; here the two meet.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from jupyter_vgpu.client import ProcessInfo, UsageInfo
from jupyter_vgpu.processes import started_by
from jupyter_vgpu.server.kernel_news import state_of
from jupyter_vgpu.server.parts import PartInfo, part_of

_NAMES_SECONDS = 5.0
# So long a Jupyter kernel is new: its document gets its name while it starts.
_NEW_SECONDS = 30.0
# JupyterLab opens a document's session under such a path, and gives it the document's once the Jupyter kernel is there.
_NO_NAME = re.compile(r"(.*/)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Kernel:
    """A running Jupyter kernel of this server.

    Attributes:
        kernel_id: Jupyter Server's id of it.
        kernel_name: Of its kernel spec, as `"python3"`.
        execution_state: `"idle"`, `"busy"`, `"starting"`, ...
        pid: Its process.
        path: Path of the document it runs for, below the server's root; empty when it runs for none.
        kind: Jupyter Server's type of that document, as `"notebook"` or `"console"`; empty likewise.
        part: What it was given of the slice; `None` where no part can be chosen for it.
    """

    kernel_id: str
    kernel_name: str
    execution_state: str
    pid: int
    path: str = ""
    kind: str = ""
    part: PartInfo | None = None


class _NotebookDeviceNeeded(TypedDict):
    uuid: str
    memory_bytes: int
    launches: int


class NotebookDeviceInfo(_NotebookDeviceNeeded, total=False):
    """What one notebook uses of one device; fractions are since the reading before."""

    memory_overhead_bytes: int
    gpu_time_seconds: float
    waited_seconds: float
    gpu_time_fraction: float
    waiting_fraction: float
    sm_usage: float


class NotebookInfo(TypedDict):
    """One notebook (or console): NOTEBOOK in `docs/contracts.md`; `pids` is empty where it does not use the slice."""

    kernel_id: str
    kernel_name: str
    execution_state: str
    path: str
    kind: str
    part: PartInfo | None
    pids: list[int]
    devices: list[NotebookDeviceInfo]


class KernelList:
    """The Jupyter kernels of a server that are processes of this machine, and the documents they run for.

    The server keeps its documents in a database: it is asked only for a Jupyter kernel not yet known, and every few
    seconds, for a document may get another name.
    """

    def __init__(self, kernel_manager: Any, session_manager: Any, log: logging.Logger) -> None:
        """Ask nothing yet.

        Args:
            kernel_manager: The server's `MappingKernelManager`.
            session_manager: The server's `SessionManager`.
            log: Where a server that answers in another way than Jupyter Server is told.
        """
        self._kernels = kernel_manager
        self._sessions = session_manager
        self._log = log
        self._documents: dict[str, tuple[str, str]] = {}
        self._asked_at = float("-inf")

    async def now(self) -> list[Kernel]:
        """Return them as they are now."""
        kernel_ids = list(self._kernels.list_kernel_ids())
        is_old = time.monotonic() - self._asked_at >= _NAMES_SECONDS
        if kernel_ids and (is_old or not self._documents.keys() >= set(kernel_ids)):
            self._documents = await self._read_documents()
            self._asked_at = time.monotonic()
        kernels = []
        for kernel_id in kernel_ids:
            manager = self._kernels.get_kernel(kernel_id)
            pid = getattr(getattr(manager, "provisioner", None), "pid", None)
            if isinstance(pid, int):
                path, kind = self._documents.get(kernel_id, ("", ""))
                name, state = str(manager.kernel_name), state_of(manager)
                kernels.append(Kernel(kernel_id, name, state, pid, path, kind, part_of(manager)))
        return kernels

    async def _read_documents(self) -> dict[str, tuple[str, str]]:
        """Return path and type of each document that a Jupyter kernel runs for, by the Jupyter kernel's id."""
        try:
            sessions = await self._sessions.list_sessions()
        except Exception:
            # A session store may be somebody else's, and may fail; notebooks are then without a name.
            self._log.exception("jupyter_vgpu: the names of this server's notebooks are not known")
            return {}
        documents: dict[str, tuple[str, str]] = {}
        for session in sessions:
            kernel_id = (session.get("kernel") or {}).get("id", "")
            if _NO_NAME.fullmatch(str(session.get("path", ""))):
                continue
            if kernel_id not in documents or session.get("type") == "notebook":
                documents[kernel_id] = (str(session.get("path", "")), str(session.get("type", "")))
        return documents


class Starters:
    """Remembers which Jupyter kernel started a process: that never changes, and takes a walk through /proc to find."""

    def __init__(self) -> None:
        """Know nobody."""
        self._among: frozenset[int] = frozenset()
        self._attached_at: dict[int, float] = {}
        self._known: dict[int, int | None] = {}

    def keep(self, processes: Sequence[ProcessInfo]) -> None:
        """Forget all but these: another process may get the same number."""
        attached_at = {process["pid"]: process["attached_at"] for process in processes}
        kept = attached_at.items() & self._attached_at.items()
        self._known = {pid: self._known[pid] for pid, _ in kept if pid in self._known}
        self._attached_at = attached_at

    def starter(self, pid: int, starters: Collection[int]) -> int | None:
        """Return which of `starters` started a process, as `processes.started_by`."""
        among = frozenset(starters)
        if among != self._among:
            self._among = among
            self._known.clear()
        if pid not in self._known:
            self._known[pid] = started_by(pid, among)
        return self._known[pid]


def by_notebook(
    usage: UsageInfo,
    before: UsageInfo | None,
    kernels: Sequence[Kernel],
    starter: Callable[[int, Collection[int]], int | None] = started_by,
) -> list[NotebookInfo]:
    """Split what the slice uses by notebook.

    Args:
        usage: What is used now.
        before: An earlier reading of the same slice, for what happened since; `None` when there is none.
        kernels: The server's Jupyter kernels.
        starter: Returns which of some processes started a process; `None` for none of them.

    Returns:
        All of them, in the order of `kernels`, those that use nothing with nothing. Processes that no Jupyter kernel
        started are in none.
    """
    by_pid = {kernel.pid: kernel for kernel in kernels}
    parts: dict[str, list[ProcessInfo]] = {}
    for process in usage["processes"]:
        pid = starter(process["pid"], by_pid.keys())
        if pid is not None:
            parts.setdefault(by_pid[pid].kernel_id, []).append(process)
    past = {} if before is None else {process["pid"]: process for process in before["processes"]}
    seconds = 0.0 if before is None else usage["time"] - before["time"]
    return [
        {
            "kernel_id": kernel.kernel_id,
            "kernel_name": kernel.kernel_name,
            "execution_state": kernel.execution_state,
            "path": kernel.path,
            "kind": kernel.kind,
            "part": kernel.part,
            "pids": [process["pid"] for process in parts.get(kernel.kernel_id, [])],
            "devices": [
                _device(device["uuid"], parts.get(kernel.kernel_id, []), past, seconds) for device in usage["devices"]
            ],
        }
        for kernel in kernels
    ]


def _device(
    uuid: str, processes: Sequence[ProcessInfo], past: dict[int, ProcessInfo], seconds: float
) -> NotebookDeviceInfo:
    used = [device for process in processes for device in process["devices"] if device["uuid"] == uuid]
    total: NotebookDeviceInfo = {
        "uuid": uuid,
        "memory_bytes": sum(device["memory_bytes"] for device in used),
        "launches": sum(device["launches"] for device in used),
    }
    # Older agents measure neither overhead nor time.
    if all("memory_overhead_bytes" in device for device in used):
        total["memory_overhead_bytes"] = sum(device["memory_overhead_bytes"] for device in used)
    if all("gpu_time_seconds" in device and "waited_seconds" in device for device in used):
        total["gpu_time_seconds"] = sum(device["gpu_time_seconds"] for device in used)
        total["waited_seconds"] = sum(device["waited_seconds"] for device in used)
        if seconds > 0:
            gpu, waited = (_before(uuid, processes, past, figure) for figure in ("gpu_time_seconds", "waited_seconds"))
            total["gpu_time_fraction"] = min(1.0, max(0.0, (total["gpu_time_seconds"] - gpu) / seconds))
            total["waiting_fraction"] = min(1.0, max(0.0, (total["waited_seconds"] - waited) / seconds))
    if used and seconds > 0 and all("sm_seconds" in device for device in used):
        filled = sum(device["sm_seconds"] for device in used) - _before(uuid, processes, past, "sm_seconds")
        total["sm_usage"] = min(1.0, max(0.0, filled / seconds))
    return total


def _before(
    uuid: str,
    processes: Sequence[ProcessInfo],
    past: dict[int, ProcessInfo],
    figure: Literal["gpu_time_seconds", "waited_seconds", "sm_seconds"],
) -> float:
    """Return what the same processes had of a figure, in seconds, at the reading before."""
    return sum(
        device.get(figure, 0.0)
        for process in processes
        for device in (past[process["pid"]]["devices"] if process["pid"] in past else [])
        if device["uuid"] == uuid
    )
