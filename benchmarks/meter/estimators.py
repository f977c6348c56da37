"""Ways to tell how much GPU time each tenant had, behind one interface, to be compared with the truth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any


class Estimator:
    """One way. `start` before the work, `watch` while it runs, `stop` after; figures by tenant, seconds."""

    name = ""

    def __init__(self, hub: Any, tenants: Sequence[Any], seconds: float) -> None:
        """Take note of who is measured; `seconds` is how long the work will take."""
        self.hub = hub
        self.tenants = tenants
        self.seconds = seconds

    def start(self) -> None:
        """Note where the figures stand."""

    def watch(self) -> None:
        """Look while the tenants work, for less than `seconds`."""

    def stop(self) -> list[float]:
        """Return the GPU time of each tenant since `start`, in their order."""
        raise NotImplementedError


class Meter(Estimator):
    """The product's own: what the agent says."""

    name = "meter"
    figure = "gpu_time_seconds"

    def _figures(self) -> list[float]:
        usages = [self.hub.usage(tenant.granted.claim["claim"]) for tenant in self.tenants]
        return [usage["devices"][0][self.figure] for usage in usages]

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


class Nvml(Estimator):
    """NVML's utilisation of each process, averaged over its samples, times the wall time."""

    name = "nvml"

    def start(self) -> None:
        """Open NVML."""
        import pynvml

        pynvml.nvmlInit()
        self._nvml = pynvml
        self._device = pynvml.nvmlDeviceGetHandleByIndex(0)
        self._samples: dict[int, dict[int, int]] = {tenant.process.pid: {} for tenant in self.tenants}
        self._begun_us = int(time.time() * 1e6)

    def watch(self) -> None:
        """Gather samples until shortly before the end."""
        deadline = time.monotonic() + self.seconds - 0.3
        while time.monotonic() < deadline:
            try:
                for row in self._nvml.nvmlDeviceGetProcessUtilization(self._device, self._begun_us):
                    if row.pid in self._samples and row.smUtil <= 100:
                        self._samples[row.pid][row.timeStamp] = row.smUtil
            except self._nvml.NVMLError:
                pass
            time.sleep(0.1)

    def stop(self) -> list[float]:
        """Return the mean utilisation times the seconds worked."""
        return [
            sum(samples.values()) / len(samples) / 100 * self.seconds if samples else 0.0
            for samples in self._samples.values()
        ]


class WallShare(Estimator):
    """Wall time, divided evenly among the tenants: right only where all are saturated and nothing is lost."""

    name = "wall / tenants"

    def stop(self) -> list[float]:
        """Return everyone's even part."""
        return [self.seconds / len(self.tenants)] * len(self.tenants)


ALL = (Meter, MeterWaited, Nvml, WallShare)
