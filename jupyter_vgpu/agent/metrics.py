"""The agent's figures for Prometheus, read at the moment they are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jupyter_vgpu.agent.events import KINDS
from jupyter_vgpu.agent.figures import NS
from jupyter_vgpu.agent.service import Agent
from jupyter_vgpu.units import PPM

__all__ = ["CONTENT_TYPE", "render"]


class _AgentCollector(Collector):
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterable[Metric]:
        yield from self._devices()
        yield from self._claims()
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
        of_claim = ["claim", "tenant", "hub", "uuid"]
        limit = GaugeMetricFamily("jupyter_vgpu_claim_memory_limit_bytes", "Memory limit.", labels=of_claim)
        used = GaugeMetricFamily("jupyter_vgpu_claim_memory_used_bytes", "Memory in use.", labels=of_claim)
        drift = GaugeMetricFamily(
            "jupyter_vgpu_claim_memory_drift_bytes",
            "What NVML saw throughout the last second beyond what is charged; negative: less.",
            labels=of_claim,
        )
        overhead = GaugeMetricFamily(
            "jupyter_vgpu_claim_memory_overhead_bytes", "Of the memory in use, what no call shows.", labels=of_claim
        )
        launches = CounterMetricFamily("jupyter_vgpu_claim_launches", "Launches.", labels=of_claim)
        gpu_time = CounterMetricFamily("jupyter_vgpu_claim_gpu_time_seconds", "GPU time had.", labels=of_claim)
        waited = CounterMetricFamily(
            "jupyter_vgpu_claim_waited_seconds", "Time with work in flight, less GPU time.", labels=of_claim
        )
        sm_time = CounterMetricFamily(
            "jupyter_vgpu_claim_sm_seconds",
            "GPU time, times the part of the SMs that the launches could fill.",
            labels=of_claim,
        )
        throttled = CounterMetricFamily(
            "jupyter_vgpu_claim_throttled_launches", "Launches that had to wait for leave to go.", labels=of_claim
        )
        gated = CounterMetricFamily(
            "jupyter_vgpu_claim_gated_seconds", "Time that launches waited for leave to go.", labels=of_claim
        )
        windows = CounterMetricFamily("jupyter_vgpu_claim_windows", "Exclusive windows given.", labels=of_claim)
        overruns = CounterMetricFamily(
            "jupyter_vgpu_claim_overruns", "Windows that were not drained in time.", labels=of_claim
        )
        violations = CounterMetricFamily(
            "jupyter_vgpu_claim_violations",
            "Seconds in which the promised share was wanted all the time and not had.",
            labels=of_claim,
        )
        entitled = GaugeMetricFamily(
            "jupyter_vgpu_claim_entitled_ratio", "Weighted max-min fair part of the device's time.", labels=of_claim
        )
        least = GaugeMetricFamily(
            "jupyter_vgpu_claim_guarantee_ratio",
            "Guaranteed part of the device's time in each second in which that much is wanted.",
            labels=of_claim,
        )
        missed = CounterMetricFamily(
            "jupyter_vgpu_claim_guarantee_violations",
            "Seconds in which the claim would have used what it is guaranteed and had less.",
            labels=of_claim,
        )
        raised = GaugeMetricFamily(
            "jupyter_vgpu_claim_raised", "1 while the guarantee was missed three times in a row.", labels=of_claim
        )
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
                limit.add_metric([*who, grant.uuid], grant.memory_bytes)
                used.add_metric([*who, grant.uuid], tenant.memory_bytes(index))
                overhead.add_metric([*who, grant.uuid], tenant.overhead_bytes(index))
                drift.add_metric([*who, grant.uuid], self._agent.drift_bytes(tenant, index))
                totals = tenant.totals(index)
                launches.add_metric([*who, grant.uuid], totals.launches)
                gpu_time.add_metric([*who, grant.uuid], totals.busy_ns / NS)
                waited.add_metric([*who, grant.uuid], totals.waited_ns / NS)
                sm_time.add_metric([*who, grant.uuid], totals.sm_ns / NS)
                throttled.add_metric([*who, grant.uuid], totals.throttled)
                gated.add_metric([*who, grant.uuid], totals.gated_ns / NS)
                if (steered := tenant.steered(index)) is not None:
                    windows.add_metric([*who, grant.uuid], steered.windows)
                    overruns.add_metric([*who, grant.uuid], steered.overruns)
                    violations.add_metric([*who, grant.uuid], steered.violations)
                    entitled.add_metric([*who, grant.uuid], steered.entitled)
                if (kept := tenant.guaranteed(index)) is not None:
                    least.add_metric([*who, grant.uuid], kept.least)
                    missed.add_metric([*who, grant.uuid], kept.violations)
                    raised.add_metric([*who, grant.uuid], kept.is_raised)
            processes.add_metric(who, len(tenant.processes))
            seen = tenant.verification
            verified.add_metric([*who, claim.backend], float(seen is not None and seen.enforcement.is_verified))
        yield from (limit, used, overhead, drift, launches, gpu_time, waited, sm_time, throttled, gated)
        yield from (windows, overruns, violations, entitled, least, missed, raised, processes, verified)

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
