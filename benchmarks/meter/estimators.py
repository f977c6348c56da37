"""Ways to tell how much GPU time each tenant had, behind one interface, to be compared with the truth."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_vgpu.nvml.gpm import Counters
from meter.tenants import Tenant


class Estimator:
    """One way. `start` before the work, `watch` while it runs, `stop` after; figures by tenant, seconds.

    Attributes:
        name: As shown.
        most_tenants: Beside more it says nothing.
        needs_nvml: Whether it does not do without NVML.
    """

    name = ""
    most_tenants = 1000
    needs_nvml = False

    def __init__(self, hub: Any, tenants: Sequence[Tenant], seconds: float, nvml: Any) -> None:
        """Take note of who is measured.

        Args:
            hub: The agent's client.
            tenants: All that work.
            seconds: How long the work will take.
            nvml: The `pynvml` module, initialised; `None` = there is none.
        """
        self.hub = hub
        self.tenants = tenants
        self.seconds = seconds
        self.nvml = nvml

    def start(self) -> None:
        """Note where the figures stand."""

    def watch(self) -> None:
        """Look while the tenants work, for less than `seconds`."""

    def stop(self) -> list[float]:
        """Return the GPU time of each tenant since `start`, in their order; nothing = it cannot say."""
        raise NotImplementedError


class Meter(Estimator):
    """The product's own: what the agent says, as `%%vgpu` takes it: less what is known to be too much of it."""

    name = "meter"
    figure = "gpu_time_seconds"

    def _figures(self) -> list[float]:
        usages = [self.hub.usage(tenant.claim) for tenant in self.tenants]
        return [usage["devices"][0][self.figure] - self._too_much(usage) for usage in usages]

    def _too_much(self, usage: Mapping[str, Any]) -> float:
        return sum(process["devices"][0]["charged_ahead_seconds"] for process in usage["processes"])

    def start(self) -> None:
        """Note the agent's totals."""
        self._before = self._figures()

    def stop(self) -> list[float]:
        """Return what was added."""
        return [after - before for after, before in zip(self._figures(), self._before, strict=True)]


class MeterWaited(Meter):
    """What the product says of waiting."""

    name = "meter waited"
    figure = "waited_seconds"

    def _too_much(self, usage: Mapping[str, Any]) -> float:
        return 0.0


class Nvml(Estimator):
    """NVML's utilisation of each process, averaged over its samples, times the wall time."""

    name = "nvml"
    needs_nvml = True

    def start(self) -> None:
        """Note who works, and since when."""
        self._device = self.nvml.nvmlDeviceGetHandleByIndex(0)
        self._samples: dict[int, dict[int, int]] = {tenant.process.pid: {} for tenant in self.tenants}
        self._begun_us = int(time.time() * 1e6)

    def watch(self) -> None:
        """Gather samples until shortly before the end."""
        deadline = time.monotonic() + self.seconds - 0.3
        while time.monotonic() < deadline:
            try:
                for row in self.nvml.nvmlDeviceGetProcessUtilization(self._device, self._begun_us):
                    if row.pid in self._samples and row.smUtil <= 100:
                        self._samples[row.pid][row.timeStamp] = row.smUtil
            except self.nvml.NVMLError:
                pass
            time.sleep(0.1)

    def stop(self) -> list[float]:
        """Return the mean utilisation times the seconds worked."""
        return [
            sum(samples.values()) / len(samples) / 100 * self.seconds if samples else 0.0
            for samples in self._samples.values()
        ]


class DeviceActive(Estimator):
    """How long the device's own counters say that anything ran on it: whose it was they do not say."""

    name = "device active"
    most_tenants = 1
    needs_nvml = True

    def start(self) -> None:
        """Take the first look."""
        self._device = self.nvml.nvmlDeviceGetHandleByIndex(0)
        self._counters = Counters(self.nvml)
        self._begun = time.monotonic()
        self._counters.use("", self._device)

    def stop(self) -> list[float]:
        """Return the active part of the time since; nothing where the device has no such counters."""
        seconds = time.monotonic() - self._begun
        use = self._counters.use("", self._device)
        return [] if use is None else [use.active * seconds]


class WallShare(Estimator):
    """Wall time, divided evenly among the tenants: right only where all are saturated and nothing is lost."""

    name = "wall / tenants"

    def stop(self) -> list[float]:
        """Return everyone's even part."""
        return [self.seconds / len(self.tenants)] * len(self.tenants)


ALL: tuple[type[Estimator], ...] = (Meter, MeterWaited, Nvml, DeviceActive, WallShare)
