"""A device's own counters of how busy it was between two looks, where it has them (Hopper and later).

Belongs to NVML's thread.
source: NVML API Reference, "GPM Functions".
"""

from __future__ import annotations

from typing import Any

from jupyter_vgpu.nvml.rows import DeviceUse, true_fraction


class Counters:
    """Samples of the counters, one kept for each device: every look is compared with the one before."""

    def __init__(self, nvml: Any) -> None:
        """Take the `pynvml` module, initialised."""
        self._nvml = nvml
        self._last: dict[str, Any] = {}
        self._spare: dict[str, Any] = {}
        self._without: set[str] = set()

    def use(self, uuid: str, handle: Any) -> DeviceUse | None:
        """Return how busy the device was since the last call; `None` at the first, or where it has no counters."""
        if uuid in self._without:
            return None
        try:
            if uuid not in self._last and not self._nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                self._without.add(uuid)
                return None
            # Two of them take turns.
            sample = self._spare.pop(uuid, None) or self._nvml.nvmlGpmSampleAlloc()
            self._nvml.nvmlGpmSampleGet(handle, sample)
        except (self._nvml.NVMLError, AttributeError):
            self._without.add(uuid)
            return None
        last, self._last[uuid] = self._last.get(uuid), sample
        if last is None:
            return None
        self._spare[uuid] = last
        return self._between(last, sample)

    def _between(self, last: Any, sample: Any) -> DeviceUse | None:
        nvml = self._nvml
        wanted = (nvml.NVML_GPM_METRIC_GRAPHICS_UTIL, nvml.NVML_GPM_METRIC_SM_UTIL)
        question = nvml.c_nvmlGpmMetricsGet_t()
        question.version = nvml.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(wanted)
        question.sample1, question.sample2 = last, sample
        for place, metric in enumerate(wanted):
            question.metrics[place].metricId = metric
        try:
            nvml.nvmlGpmMetricsGet(question)
        except nvml.NVMLError:
            return None
        active, sm_busy = (
            true_fraction(metric.value) if metric.nvmlReturn == nvml.NVML_SUCCESS else None
            for metric in question.metrics[: len(wanted)]
        )
        return None if active is None else DeviceUse(active, sm_busy)
