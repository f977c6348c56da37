"""NVML behind one thread and a time limit, with its absurd answers left out.

NVML may stall for seconds, return rows of nonsense, or be missing. Whoever asks
here waits at most `timeout_seconds`; a call that is still stuck in the driver keeps
the thread, and everyone after it is told so at once. Nothing here is on a launch path.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from jupyter_vgpu.errors import NoDriverError
from jupyter_vgpu.nvml.gpm import Counters
from jupyter_vgpu.nvml.listing import Listing
from jupyter_vgpu.nvml.rows import (
    DeviceLook,
    DeviceRow,
    DeviceUse,
    ProcessRow,
    is_true_device,
    true_fraction,
    true_utilisation,
)

TIMEOUT_SECONDS = 3.0
_UTILISATION_SECONDS = 1.0

# Cores per SM by compute capability, since NVML counts cores only.
# source: CUDA C++ Programming Guide 13.0, "Compute Capabilities", arithmetic throughput (32-bit float add)
_CORES_PER_SM = {"6.0": 64, "7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64}
_CORES_PER_SM_OTHERWISE = 128

log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class Nvml:
    """One thread that talks to NVML.

    Thread-safe. The thread is a daemon: a call that never returns does not keep the process alive.
    """

    def __init__(self, library: Path | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Say which library; it is loaded at the first question.

        Args:
            library: The simulated driver's `libnvidia-ml.so.1`; `None` = the one the loader finds.
            timeout_seconds: Longest wait for one answer.
        """
        self.library = library
        self.timeout_seconds = timeout_seconds
        self._questions: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._busy_since: float | None = None
        self._nvml: Any = None
        self._counters: Counters | None = None
        self._listing: Listing | None = None
        self._handles: dict[str, Any] = {}

    def devices(self) -> list[DeviceRow]:
        """Return the devices of this node in NVML's order, those left out of which NVML says nonsense.

        Raises:
            NoDriverError: No driver, or no answer within the time limit.
        """
        return self._ask(self._read_devices)

    def processes(self, uuid: str) -> list[ProcessRow]:
        """Return the processes with a context on a device; rows of nonsense are left out.

        Raises:
            NoDriverError: No driver, no such device, or no answer within the time limit.
        """
        return self._ask(lambda: self._read_processes(uuid))

    def look(self, uuid: str, with_utilisation: bool = False, is_glance: bool = False) -> DeviceLook:
        """Return who is on a device and how busy it was; rows of nonsense are left out.

        Args:
            uuid: Of the device.
            with_utilisation: Whether to ask for each process's part too, of the last second. It takes 1.6 ms.
                source: measured, H200.
            is_glance: Whether nobody is thought to have come or gone since the last look: as long as the device's used
                memory says the same, the list of processes is the last one.

        Raises:
            NoDriverError: No driver, no such device, or no answer within the time limit.
        """
        return self._ask(lambda: self._read_look(uuid, with_utilisation, is_glance))

    def distances(self, uuids: Sequence[str]) -> dict[tuple[str, str], int]:
        """Return how far devices are from each other, by pairs as `combinations` gives them; larger is slower.

        0 = joined by NVLink, else NVML's level of their common ancestor: 10 = one switch … 50 = the other side of the
        machine. Empty where NVML does not say it of every pair.
        source: nvml.h, nvmlGpuTopologyLevel_t

        Raises:
            NoDriverError: No driver, or no answer within the time limit.
        """
        return self._ask(lambda: self._read_distances(uuids))

    def close(self) -> None:
        """Let the thread end once it has answered what was asked. Asking again starts another."""
        with self._lock:
            if self._thread is not None:
                self._questions.put(None)
                self._thread = None

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        answer: concurrent.futures.Future[_Answer] = concurrent.futures.Future()

        def put() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(question())
                except BaseException as error:  # it is the asker's to handle
                    answer.set_exception(error)

        self._start()
        busy_since = self._busy_since
        if busy_since is not None and time.monotonic() - busy_since > self.timeout_seconds:
            raise NoDriverError(f"NVML has been stuck in one call for {time.monotonic() - busy_since:.0f} s")
        self._questions.put(put)
        try:
            return answer.result(self.timeout_seconds)
        except concurrent.futures.TimeoutError:
            answer.cancel()
            raise NoDriverError(f"NVML has not answered within {self.timeout_seconds:g} s") from None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._questions = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._work, args=(self._questions,), name="jvgpu-nvml", daemon=True
                )
                self._thread.start()

    def _work(self, questions: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while (question := questions.get()) is not None:
            self._busy_since = time.monotonic()
            question()
            self._busy_since = None

    # Everything below runs in the thread.

    def _loaded(self) -> Any:  # nvidia-ml-py has no types
        """Return the `pynvml` module, initialised."""
        if self._nvml is None:
            if self.library is not None:
                _load_in_place(self.library)
            import pynvml  # it is slow to import, and not every command needs it

            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                raise NoDriverError(
                    f"no NVIDIA driver answers on this machine ({error}); without one, take a simulated board: "
                    "`jupyter vgpu run --simulate a100-80 …`, or `agent --simulate a100-80`"
                ) from error
            self._nvml = pynvml
            self._counters = Counters(pynvml)
            self._listing = Listing(pynvml)
        return self._nvml

    def _read_devices(self) -> list[DeviceRow]:
        nvml = self._loaded()
        driver_version = _text(_said(nvml, nvml.nvmlSystemGetDriverVersion, default=""))
        rows: dict[str, DeviceRow] = {}
        for index in range(_said(nvml, nvml.nvmlDeviceGetCount, default=0)):
            row = self._read_device(index, driver_version)
            if row is None or not is_true_device(row):
                log.warning("device %d is left out: NVML says nothing sensible of it (%s)", index, row)
            elif row.uuid in rows:
                log.warning("device %d is left out: NVML gives it the UUID of device %d", index, rows[row.uuid].index)
            else:
                rows[row.uuid] = row
        return list(rows.values())

    def _read_device(self, index: int, driver_version: str) -> DeviceRow | None:
        nvml = self._loaded()
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
            name = _text(nvml.nvmlDeviceGetName(handle))
        except nvml.NVMLError as error:
            log.warning("device %d: %s", index, error)
            return None
        capability = _said(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle, default=None)
        capability_text = "" if capability is None else f"{capability[0]}.{capability[1]}"
        cores = _said(nvml, nvml.nvmlDeviceGetNumGpuCores, handle, default=0)
        return DeviceRow(
            index=index,
            uuid=uuid,
            name=name,
            total_bytes=_usable_bytes(nvml, handle),
            compute_capability=capability_text,
            sm_count=cores // _CORES_PER_SM.get(capability_text, _CORES_PER_SM_OTHERWISE),
            driver_version=driver_version,
        )

    def _read_distances(self, uuids: Sequence[str]) -> dict[tuple[str, str], int]:
        nvml = self._loaded()
        distances = {}
        for one, other in combinations(uuids, 2):
            handles = [
                _said(nvml, nvml.nvmlDeviceGetHandleByUUID, uuid.encode(), default=None) for uuid in (one, other)
            ]
            link = _said(nvml, nvml.nvmlDeviceGetP2PStatus, *handles, nvml.NVML_P2P_CAPS_INDEX_NVLINK, default=None)
            level = _said(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, *handles, default=None)
            if level is None:
                return {}
            distances[one, other] = 0 if link == nvml.NVML_P2P_STATUS_OK else int(level)
        return distances

    def _handle(self, uuid: str) -> Any:
        """Return NVML's handle of a device; it is good for as long as NVML is."""
        nvml = self._loaded()
        if uuid not in self._handles:
            self._handles[uuid] = nvml.nvmlDeviceGetHandleByUUID(uuid.encode())
        return self._handles[uuid]

    def _read_processes(self, uuid: str, is_glance: bool = False) -> list[ProcessRow]:
        nvml, listing = self._loaded(), self._listing
        assert listing is not None
        try:
            handle = self._handle(uuid)
            if is_glance:
                return listing.glance(
                    uuid, handle, lambda: _usable_bytes(nvml, handle), lambda: _used_bytes(nvml, handle)
                )
            return listing.processes(uuid, handle, lambda: _usable_bytes(nvml, handle))
        except nvml.NVMLError as error:
            raise NoDriverError(f"NVML does not list the processes of {uuid}: {error}") from error

    def _read_look(self, uuid: str, with_utilisation: bool, is_glance: bool) -> DeviceLook:
        processes = self._read_processes(uuid, is_glance)
        handle = self._handle(uuid)
        return DeviceLook(
            processes, self._read_use(uuid, handle), self._read_utilisation(handle) if with_utilisation else {}
        )

    def _read_use(self, uuid: str, handle: Any) -> DeviceUse | None:
        nvml, counters = self._loaded(), self._counters
        if counters is not None and (use := counters.use(uuid, handle)) is not None:
            return use
        rates = _said(nvml, nvml.nvmlDeviceGetUtilizationRates, handle, default=None)
        active = None if rates is None else true_fraction(rates.gpu)
        return None if active is None else DeviceUse(active)

    def _read_utilisation(self, handle: Any) -> dict[int, float]:
        nvml = self._loaded()
        since_us = int((time.time() - _UTILISATION_SECONDS) * 1e6)
        samples = _said(nvml, nvml.nvmlDeviceGetProcessUtilization, handle, since_us, default=[])
        return true_utilisation([(int(sample.pid), float(sample.smUtil)) for sample in samples])


def _said(nvml: Any, question: Callable[..., Any], *arguments: Any, default: Any) -> Any:
    """Return NVML's answer, or `default` where it has none."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return default


def _text(answer: bytes | str) -> str:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


def _usable_bytes(nvml: Any, handle: Any) -> int:
    """Return the memory that programs can use, in bytes; 0 when NVML does not say.

    source: nvml.h, nvmlMemory_v2_t: `total` includes `reserved`, which no program gets.
    """
    memory = _said(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2), default=None)
    if memory is not None and 0 <= memory.reserved < memory.total:
        return int(memory.total - memory.reserved)
    memory = _said(nvml, nvml.nvmlDeviceGetMemoryInfo, handle, default=None)
    return 0 if memory is None else int(memory.total)


def _used_bytes(nvml: Any, handle: Any) -> int | None:
    """Return the memory that all programs together have, in bytes; `None` when NVML does not say."""
    memory = _said(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2), default=None)
    return None if memory is None else int(memory.used)


def _load_in_place(library: Path) -> None:
    """Load `library` so that a later `dlopen` of NVML's name finds it, before any other of that name.

    source: dlopen(3): a library that is loaded already under this name (DT_SONAME) is not searched for again.
    """
    try:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise NoDriverError(f"the simulated driver does not load: {error}; build it with `make native`") from error
