"""The governor of GPU time, as the agent drives it.

All that is decided a thousand times a second is native (`native/governor/`, `native/agent/steering.c`) and runs
in a thread of its own; this is its face towards Python: claims are added and dropped, counters are read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_vgpu.errors import NativeLibraryError
from jupyter_vgpu.model import PRIORITIES, Priority
from jupyter_vgpu.pages import TenantPages, native_parts

Kind = Literal["gate closed", "gate opened", "window begun", "window over", "charged", "under way"]

# In the order of native/agent/records.h.
KINDS: tuple[Kind, ...] = ("gate closed", "gate opened", "window begun", "window over", "charged", "under way")

_TAKE = 8192


@dataclass(frozen=True)
class Steered:
    """What the governor knows of one claim on one device.

    Attributes:
        windows: Windows that it was given.
        overruns: Windows for which others had to wait beyond the time that its work should have taken.
        violations: Seconds in which it always wanted its promised share and did not have it.
        closed_ns: Time that its gate was closed.
        entitled: Weighted max-min fair part of the device as of now, 0..1.
        use: Part of the device's time that it has, lately, 0..1.
        is_open: Its gate is open.
        is_governed: It is, or may soon be, held back.
    """

    windows: int
    overruns: int
    violations: int
    closed_ns: int
    entitled: float
    use: float
    is_open: bool
    is_governed: bool


@dataclass(frozen=True)
class Guaranteed:
    """How a claim's guarantee on one device was kept.

    Attributes:
        least: Part of the device's time that is guaranteed, above 0.
        violations: Seconds in which it would have used that much, had it never had to wait, and had less.
        in_a_row: Of those, up to the last second.
        is_raised: Its priority is a class higher, and it asks for a quarter more than its due.
    """

    least: float
    violations: int
    in_a_row: int
    is_raised: bool


@dataclass(frozen=True)
class Record:
    """One thing that the governor saw or did.

    Attributes:
        time_ns: CLOCK_MONOTONIC.
        runner: Number of a claim on a device, as `Steering.numbers` has it.
        kind: What.
        value_ns: GPU time `charged` since the last such record, or `under way` now; 0 for the others.
    """

    time_ns: int
    runner: int
    kind: Kind
    value_ns: int


class Steering:
    """The governor's thread, running from `__init__` to `close`."""

    def __init__(self, devices: Mapping[str, int]) -> None:
        """Start the thread.

        Args:
            devices: A number, 0..63, for each of the node's devices by UUID.

        Raises:
            NativeLibraryError: The native part is missing, or memory is short.
        """
        self._ffi, self._library = native_parts()
        self._devices = dict(devices)
        self.numbers: dict[int, tuple[TenantPages, int]] = {}
        self._steering = self._library.jvgpu_steering_make()
        if self._steering == self._ffi.NULL:
            raise NativeLibraryError("the governor cannot be made: memory is short")
        # Native throughout, without the interpreter's lock; Python only lends the thread.
        self._thread = threading.Thread(
            target=self._library.jvgpu_steering_run, args=(self._steering,), name="governor", daemon=True
        )
        self._thread.start()

    def add(self, pages: TenantPages, index: int, uuid: str, priority: Priority, guarantee_ppm: int = 0) -> None:
        """Steer the claim's device at `index`; a device that the node lacks, or too many claims on it: not steered."""
        device = self._devices.get(uuid)
        if device is not None:
            number = int(
                self._library.jvgpu_steering_add(
                    self._steering, pages.native(), index, device, PRIORITIES.index(priority)
                )
            )
            if number:
                self.numbers[number] = (pages, index)
                if guarantee_ppm:
                    self.guarantee(pages, index, guarantee_ppm)

    def guarantee(self, pages: TenantPages, index: int, least_ppm: int) -> None:
        """Guarantee a part of the claim's device at `index` in each second; one that is not steered has none.

        Args:
            pages: The claim's.
            index: Of the device in the claim.
            least_ppm: Parts per million, at most the share; 0 = nothing.
        """
        self._library.jvgpu_steering_guarantee(self._steering, pages.native(), index, least_ppm)

    def guaranteed(self, pages: TenantPages, index: int) -> Guaranteed | None:
        """Return how the guarantee of the claim's device at `index` was kept; `None` = there is none."""
        kept = self._ffi.new("jvgpu_guaranteed_t *")
        missing = self._library.jvgpu_steering_guaranteed(self._steering, pages.native(), index, kept)
        if missing or not kept.least_ppm:
            return None
        return Guaranteed(int(kept.least_ppm) / 1e6, int(kept.violations), int(kept.in_a_row), bool(kept.is_raised))

    def drop(self, pages: TenantPages) -> None:
        """Steer none of the claim's devices any more and leave its gates open. Before the pages are closed."""
        self._library.jvgpu_steering_drop(self._steering, pages.native())
        self.numbers = {number: held for number, held in self.numbers.items() if held[0] is not pages}

    def read(self, pages: TenantPages, index: int) -> Steered | None:
        """Return what is known of the claim's device at `index`; `None` when it is not steered."""
        steered = self._ffi.new("jvgpu_steered_t *")
        if self._library.jvgpu_steering_read(self._steering, pages.native(), index, steered):
            return None
        return Steered(
            windows=int(steered.windows),
            overruns=int(steered.overruns),
            violations=int(steered.violations),
            closed_ns=int(steered.closed_ns),
            entitled=int(steered.entitled_ppm) / 1e6,
            use=int(steered.use_ppm) / 1e6,
            is_open=bool(steered.is_open),
            is_governed=bool(steered.is_governed),
        )

    @property
    def begun_fd(self) -> int:
        """Descriptor that is readable when somebody has begun on a device where nobody did anything; this object's."""
        return int(self._library.jvgpu_steering_begun_fd(self._steering))

    def record(self, keep: bool) -> None:
        """Begin to keep records of what happens, or keep and remember none."""
        self._library.jvgpu_steering_record(self._steering, int(keep))

    def take(self) -> tuple[list[Record], int]:
        """Return the records since the last call, oldest first, and how many were lost before they were taken."""
        records: list[Record] = []
        lost = 0
        room: Any = self._ffi.new(f"jvgpu_trace_t[{_TAKE}]")
        missed = self._ffi.new("uint64_t *")
        while True:
            count = int(self._library.jvgpu_steering_take(self._steering, room, _TAKE, missed))
            lost += int(missed[0])
            for row in room[0:count]:
                records.append(Record(int(row.time_ns), int(row.runner), KINDS[row.kind], int(row.value_ns)))
            if count < _TAKE:
                return records, lost

    def close(self) -> None:
        """End the thread; every gate is open."""
        self._library.jvgpu_steering_stop(self._steering)
        self._thread.join()
        self._library.jvgpu_steering_free(self._steering)
        self._steering = self._ffi.NULL
        self.numbers.clear()
