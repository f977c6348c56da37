"""The agent's figures for Prometheus, read at the moment they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jupyter_vgpu.agent.events import KINDS
from jupyter_vgpu.agent.figures import NS, Totals
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.pages import Reading
from jupyter_vgpu.steering import Guaranteed, Steered
from jupyter_vgpu.units import PPM

__all__ = ["CONTENT_TYPE", "render"]


@dataclass(frozen=True)
class _Seen:
    """What the agent knows of one claim on one device."""

    limit_bytes: int
    used_bytes: int
    overhead_bytes: int
    drift_bytes: int
    totals: Totals
    steered: Steered | None  # None = time is left to the driver
    guaranteed: Guaranteed | None  # None = nothing is

    @classmethod
    def of(cls, tenant: Tenant, index: int, agent: Agent) -> _Seen:
        return cls(
            limit_bytes=tenant.claim.grants[index].memory_bytes,
            used_bytes=tenant.memory_bytes(index),
            overhead_bytes=tenant.overhead_bytes(index),
            drift_bytes=agent.drift_bytes(tenant, index),
            totals=tenant.totals(index),
            steered=tenant.steered(index),
            guaranteed=tenant.guaranteed(index),
        )


@dataclass(frozen=True)
class _Figure:
    """One metric of a claim on a device: `read` returns its value, `None` where it is not known."""

    kind: type[GaugeMetricFamily] | type[CounterMetricFamily]
    name: str
    text: str
    read: Callable[[_Seen], float | None]

    def family(self) -> GaugeMetricFamily | CounterMetricFamily:
        return self.kind(f"jupyter_vgpu_claim_{self.name}", self.text, labels=["claim", "tenant", "hub", "uuid"])


def _governed(read: Callable[[Steered], float]) -> Callable[[_Seen], float | None]:
    return lambda seen: None if seen.steered is None else read(seen.steered)


def _kept(read: Callable[[Guaranteed], float]) -> Callable[[_Seen], float | None]:
    return lambda seen: None if seen.guaranteed is None else read(seen.guaranteed)


_GAUGE, _COUNTER = GaugeMetricFamily, CounterMetricFamily
_FIGURES = (
    _Figure(_GAUGE, "memory_limit_bytes", "Memory limit.", lambda seen: seen.limit_bytes),
    _Figure(_GAUGE, "memory_used_bytes", "Memory in use.", lambda seen: seen.used_bytes),
    _Figure(
        _GAUGE, "memory_overhead_bytes", "Of the memory in use, what no call shows.", lambda seen: seen.overhead_bytes
    ),
    _Figure(
        _GAUGE,
        "memory_drift_bytes",
        "What NVML saw throughout the last second beyond what is charged; negative: less.",
        lambda seen: seen.drift_bytes,
    ),
    _Figure(_COUNTER, "launches", "Launches.", lambda seen: seen.totals.launches),
    _Figure(_COUNTER, "gpu_time_seconds", "GPU time had.", lambda seen: seen.totals.busy_ns / NS),
    _Figure(
        _COUNTER,
        "waited_seconds",
        "Time with work in flight, less GPU time.",
        lambda seen: seen.totals.waited_ns / NS,
    ),
    _Figure(
        _COUNTER,
        "sm_seconds",
        "GPU time, times the part of the SMs that the launches could fill.",
        lambda seen: seen.totals.sm_ns / NS,
    ),
    _Figure(
        _COUNTER,
        "throttled_launches",
        "Launches that had to wait for leave to go.",
        lambda seen: seen.totals.throttled,
    ),
    _Figure(
        _COUNTER,
        "gated_seconds",
        "Time that launches waited for leave to go.",
        lambda seen: seen.totals.gated_ns / NS,
    ),
    _Figure(_COUNTER, "windows", "Exclusive windows given.", _governed(lambda steered: steered.windows)),
    _Figure(
        _COUNTER,
        "overruns",
        "Windows that were not drained in time.",
        _governed(lambda steered: steered.overruns),
    ),
    _Figure(
        _COUNTER,
        "violations",
        "Seconds in which the promised share was wanted all the time and not had.",
        _governed(lambda steered: steered.violations),
    ),
    _Figure(
        _GAUGE,
        "entitled_ratio",
        "Weighted max-min fair part of the device's time.",
        _governed(lambda steered: steered.entitled),
    ),
    _Figure(
        _GAUGE,
        "guarantee_ratio",
        "Guaranteed part of the device's time in each second in which that much is wanted.",
        _kept(lambda kept: kept.least),
    ),
    _Figure(
        _COUNTER,
        "guarantee_violations",
        "Seconds in which the claim would have used what it is guaranteed and had less.",
        _kept(lambda kept: kept.violations),
    ),
    _Figure(
        _GAUGE,
        "raised",
        "1 while the guarantee was missed three times in a row.",
        _kept(lambda kept: kept.is_raised),
    ),
)


@dataclass(frozen=True)
class _ProcessFigure:
    """One metric of an attached process on a device; it ends with the process. Windows are its claim's."""

    kind: type[GaugeMetricFamily] | type[CounterMetricFamily]
    name: str
    text: str
    read: Callable[[Reading], float]

    def family(self) -> GaugeMetricFamily | CounterMetricFamily:
        labels = ["claim", "tenant", "hub", "uuid", "pid"]
        return self.kind(f"jupyter_vgpu_process_{self.name}", self.text, labels=labels)


_PROCESS_FIGURES = (
    _ProcessFigure(
        _GAUGE, "memory_bytes", "Memory that it was granted, overhead not included.", lambda read: read.granted_bytes
    ),
    _ProcessFigure(_COUNTER, "launches", "Launches.", lambda read: read.launches),
    _ProcessFigure(_COUNTER, "gpu_time_seconds", "GPU time had.", lambda read: read.busy_ns / NS),
    _ProcessFigure(
        _COUNTER, "waited_seconds", "Time with work in flight, less GPU time.", lambda read: read.waited_ns / NS
    ),
    _ProcessFigure(
        _COUNTER,
        "throttled_launches",
        "Launches that had to wait for leave to go.",
        lambda read: read.throttled,
    ),
    _ProcessFigure(
        _COUNTER,
        "gated_seconds",
        "Time that launches waited for leave to go.",
        lambda read: read.gated_ns / NS,
    ),
)


class _AgentCollector(Collector):
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterable[Metric]:
        yield from self._devices()
        yield from self._claims()
        yield from self._processes()
        yield from self._events()

    def _devices(self) -> Iterable[Metric]:
        of_device = ["uuid"]
        total = GaugeMetricFamily("jupyter_vgpu_device_memory_bytes", "Memory of the device.", labels=of_device)
        free = GaugeMetricFamily(
            "jupyter_vgpu_device_free_memory_bytes", "Memory promised to no claim.", labels=of_device
        )
        share = GaugeMetricFamily(
            "jupyter_vgpu_device_free_share_ratio", "Part of the device's time promised to no claim.", labels=of_device
        )
        for room in self._agent.rooms():
            total.add_metric([room.uuid], room.total_bytes)
            free.add_metric([room.uuid], max(0, room.free_bytes))
            share.add_metric([room.uuid], max(0, room.free_share_ppm) / PPM)
        yield from (total, free, share)

    def _claims(self) -> Iterable[Metric]:
        families = [figure.family() for figure in _FIGURES]
        processes = GaugeMetricFamily(
            "jupyter_vgpu_claim_processes", "Attached processes.", labels=["claim", "tenant", "hub"]
        )
        verified = GaugeMetricFamily(
            "jupyter_vgpu_claim_verified",
            "1 when the claim's enforcement was seen in every attached process.",
            labels=["claim", "tenant", "hub", "backend"],
        )
        for tenant in self._agent.tenants:
            claim = tenant.claim
            who = [claim.claim_id, claim.tenant, claim.hub]
            for index, grant in enumerate(claim.grants):
                seen = _Seen.of(tenant, index, self._agent)
                for figure, family in zip(_FIGURES, families, strict=True):
                    if (value := figure.read(seen)) is not None:
                        family.add_metric([*who, grant.uuid], value)
            processes.add_metric(who, len(tenant.processes))
            verification = tenant.verification
            verified.add_metric(
                [*who, claim.backend], float(verification is not None and verification.enforcement.is_verified)
            )
        yield from (*families, processes, verified)

    def _processes(self) -> Iterable[Metric]:
        families = [figure.family() for figure in _PROCESS_FIGURES]
        for tenant in self._agent.tenants:
            claim = tenant.claim
            for process in tenant.processes.values():
                for index, grant in enumerate(claim.grants):
                    read = tenant.reading(process, index)
                    labels = [claim.claim_id, claim.tenant, claim.hub, grant.uuid, str(process.pid)]
                    for figure, family in zip(_PROCESS_FIGURES, families, strict=True):
                        family.add_metric(labels, figure.read(read))
        yield from families

    def _events(self) -> Iterable[Metric]:
        events = self._agent.events
        looks = CounterMetricFamily("jupyter_vgpu_audit_looks", "Looks of the audit that are back.")
        looks.add_metric([], self._agent.oversight.looks if self._agent.oversight is not None else 0)
        yield looks
        noted = CounterMetricFamily("jupyter_vgpu_events", "What the audit noted, by kind.", labels=["kind"])
        for kind in KINDS:
            noted.add_metric([kind], events.counts[kind])
        of_claims = CounterMetricFamily(
            "jupyter_vgpu_claim_events", "What the audit noted of a claim.", labels=["claim", "tenant", "hub", "kind"]
        )
        for claim in self._agent.book.claims:
            for kind, count in events.counts_of(claim.claim_id).items():
                of_claims.add_metric([claim.claim_id, claim.tenant, claim.hub, kind], count)
        yield from (noted, of_claims)


def render(agent: Agent) -> bytes:
    """Return the figures of `agent` in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_AgentCollector(agent))
    return generate_latest(registry)
