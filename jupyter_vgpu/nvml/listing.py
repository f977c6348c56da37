"""The processes on each device, made into rows only where NVML says something else than the last time.

Belongs to NVML's thread. An agent asks once a second at least, and hardly ever is anybody new; of fifty processes the
rows alone took 1.7 ms each time. Where nobody does anything it asks for less still: how much of the device's memory is
used, which no context comes or goes without changing.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

from jupyter_vgpu.nvml.rows import ProcessRow, true_processes

LIBRARY_NAME = "libnvidia-ml.so.1"
_FUNCTION = "nvmlDeviceGetComputeRunningProcesses_v3"
_ROOM = 64
# Glances in a row for which the list may stand, though one process may have come with just what another gave back.
_MOST_GLANCES = 3


class Listing:
    """NVML's last answer for each device, as it came and as rows."""

    def __init__(self, nvml: Any) -> None:
        """Take the `pynvml` module, initialised."""
        self._nvml = nvml
        self._function = None
        with contextlib.suppress(OSError, AttributeError):
            # The library that the module has loaded; a driver before 510 has no such function.
            self._function = getattr(ctypes.CDLL(LIBRARY_NAME), _FUNCTION)
        self._room = (nvml.c_nvmlProcessInfo_v3_t * _ROOM)()
        self._last: dict[str, tuple[bytes, list[ProcessRow]]] = {}
        # Memory in use before the list was asked for, the list, and for how many more glances it stands.
        self._glanced: dict[str, tuple[int, list[ProcessRow], int]] = {}

    def processes(self, uuid: str, handle: Any, total_bytes: Callable[[], int]) -> list[ProcessRow]:
        """Return the processes with a context on a device; rows that cannot be true are left out.

        The list is the same object as before where nothing has changed, and not the caller's to change.

        Args:
            uuid: Of the device.
            handle: NVML's of it.
            total_bytes: Asked for the device's memory where there is something new.

        Raises:
            pynvml.NVMLError: NVML does not say.
        """
        self._glanced.pop(uuid, None)
        if self._function is None:
            found = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            return true_processes([self._row(each.pid, each.usedGpuMemory) for each in found], total_bytes())
        answer = self._answer(self._function, handle)
        last = self._last.get(uuid)
        if last is None or last[0] != answer:
            infos = (self._room._type_ * (len(answer) // ctypes.sizeof(self._room._type_))).from_buffer_copy(answer)
            rows = [self._row(info.pid, info.usedGpuMemory) for info in infos]
            last = self._last[uuid] = (answer, true_processes(rows, total_bytes()))
        return last[1]

    def glance(
        self, uuid: str, handle: Any, total_bytes: Callable[[], int], used_bytes: Callable[[], int | None]
    ) -> list[ProcessRow]:
        """Return the same, asked for only where the memory in use is not what it was at the last glance.

        Args:
            uuid: Of the device.
            handle: NVML's of it.
            total_bytes: As for `processes`.
            used_bytes: Asked for the memory in use, by whomever; `None` = NVML does not say, and the list is asked for.

        Raises:
            pynvml.NVMLError: NVML does not say.
        """
        # Before the list: whoever comes in between is found at the next glance.
        used = used_bytes()
        last_used, rows, glances = self._glanced.get(uuid, (None, [], 0))
        if used is not None and used == last_used and glances > 0:
            self._glanced[uuid] = (used, rows, glances - 1)
            return rows
        rows = self.processes(uuid, handle, total_bytes)
        if used is not None:
            self._glanced[uuid] = (used, rows, _MOST_GLANCES)
        return rows

    def _answer(self, function: Any, handle: Any) -> bytes:
        """Return NVML's rows as they lie in memory.

        source: NVML API Reference, nvmlDeviceGetComputeRunningProcesses: the count that did not suffice becomes the one
        that does.
        """
        nvml = self._nvml
        while True:
            count = ctypes.c_uint(len(self._room))
            result = function(handle, ctypes.byref(count), self._room)
            if result != nvml.NVML_ERROR_INSUFFICIENT_SIZE:
                break
            # More may come meanwhile.
            self._room = (self._room._type_ * max(2 * len(self._room), 2 * count.value))()
        if result != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(result)
        return ctypes.string_at(self._room, count.value * ctypes.sizeof(self._room._type_))

    def _row(self, pid: int, used_bytes: int | None) -> ProcessRow:
        is_said = used_bytes is not None and used_bytes != self._nvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
        return ProcessRow(int(pid), int(used_bytes) if is_said and used_bytes is not None else None)
