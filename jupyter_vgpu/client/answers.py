"""What a node agent answers: the shapes of docs/contracts.md, "HTTP API of the agent"."""

from __future__ import annotations

from typing import TypedDict


class HealthInfo(TypedDict):
    """Answer of `GET /v1/health`."""

    version: str
    pid: int
    started_at: float
    isolated: bool
    note: str
    driver_version: str
    simulated: bool
    devices: int
    claims: int


class _OfNode(TypedDict, total=False):
    node: str


class DeviceInfo(_OfNode):
    """One device; `free_*` is what no claim has been promised, `isolation` the groups of the claims that are there.

    `node` is there where a hub has several.
    """

    uuid: str
    name: str
    index: int
    total_bytes: int
    sm_count: int
    driver_version: str
    simulated: bool
    free_bytes: int
    free_share: float
    drained: bool
    isolation: list[str]
    claims: list[str]


class GuaranteeInfo(TypedDict, total=False):
    """Least part of the device's time in each second in which that much is wanted; absent where none is guaranteed."""

    guarantee: float


class ClaimDeviceInfo(GuaranteeInfo):
    """One device's part of a claim."""

    uuid: str
    name: str
    memory_bytes: int
    share: float
    ceiling: float


class ClaimInfo(_OfNode):
    """One claim, without its secret; `node` where a hub has several."""

    claim: str
    tenant: str
    hub: str
    uid: int
    profile: str
    backend: str
    state: str
    created_at: float
    priority: str
    devices: list[ClaimDeviceInfo]


class EnforcedBy(TypedDict):
    """How strongly a slice is enforced, as verified, not as requested."""

    backend: str
    level: str
    verified: bool
    verified_at: float | None
    isolated: bool
    note: str


class SliceDeviceInfo(GuaranteeInfo):
    """One device of the caller's slice."""

    uuid: str
    name: str
    index: int
    simulated: bool
    memory_limit_bytes: int
    share: float
    ceiling: float
    total_bytes: int


class AgentInfo(TypedDict):
    """The agent that answered."""

    version: str
    started_at: float


class SliceInfo(TypedDict):
    """Answer of `GET /v1/slice`."""

    claim: str
    tenant: str
    profile: str
    state: str
    backend: str
    enforced_by: EnforcedBy
    devices: list[SliceDeviceInfo]
    agent: AgentInfo


class PressureInfo(TypedDict):
    """What other slices did on a device within the last second: how many they are and how much, never who.

    `neighbours` worked there, or waited to; `gpu_time_fraction` is the GPU time that they had together, 0..1.
    """

    neighbours: int
    gpu_time_fraction: float


class GovernedInfo(TypedDict):
    """What the governor of GPU time did for, or to, a slice on a device.

    `entitled` is its weighted max-min fair part as of now, 0..1: its share, more where others want less, less where it
    wants less itself. `violations` are seconds in which it always wanted its share and did not have it; `overruns` are
    windows for which others waited longer than its work should have taken.
    """

    entitled: float
    windows: int
    overruns: int
    violations: int
    closed_seconds: float


class GuaranteedInfo(TypedDict):
    """How what is guaranteed of a device's time was kept.

    `least` is the part, 0..1. `violations` are seconds in which the slice would have used that much, had it never had
    to wait, and had less; `in_a_row` those of them up to the last second. After three it is `raised`: its priority is a
    class higher, and it asks for a quarter more than its due, until a second is none.
    """

    least: float
    violations: int
    in_a_row: int
    raised: bool


class OfGuarantee(TypedDict, total=False):
    """Absent where nothing is guaranteed, or nobody governs."""

    guaranteed: GuaranteedInfo


class TraceRunnerInfo(TypedDict):
    """A claim on a device, as a trace numbers it."""

    runner: int
    claim: str
    tenant: str
    profile: str
    uuid: str


class TraceInfo(TypedDict):
    """What the governor saw and did for some seconds.

    `records` are `[time_ns, runner, kind, value_ns]`, oldest first: time is CLOCK_MONOTONIC; kinds are `gate closed`,
    `gate opened`, `window begun`, `window over`, and with a value `charged` (GPU time since the last such record) and
    `under way` (GPU time launched and not known to be over). `lost`: records written over before they were read.
    """

    seconds: float
    lost: int
    runners: list[TraceRunnerInfo]
    records: list[tuple[int, int, str, int]]


class _SmUsage(TypedDict, total=False):
    """GPU time × the part of the SMs that its launches could fill, over the last second, 0..1.

    Absent where the meter does not know it.
    """

    sm_usage: float


class _OfYoungerAgents(TypedDict, total=False):
    """Absent from older agents.

    `sm_seconds`: the same since the process attached, at most its GPU time. `charged_ahead_seconds`: of its GPU time,
    what was charged too much so far and is taken off what comes next.
    """

    sm_seconds: float
    charged_ahead_seconds: float


class UsageDeviceInfo(_SmUsage, OfGuarantee):
    """What a slice uses of one device now.

    Totals count from when the agent took the claim up; fractions are of the last second, 0..1.
    """

    uuid: str
    name: str
    memory_used_bytes: int
    memory_limit_bytes: int
    memory_overhead_bytes: int
    memory_drift_bytes: int
    launches: int
    launches_per_second: float
    gpu_time_seconds: float
    gpu_time_fraction: float
    waited_seconds: float
    waiting_fraction: float
    throttled_launches: int
    gated_seconds: float
    governed: GovernedInfo | None
    pressure: PressureInfo


class ProcessDeviceInfo(_OfYoungerAgents):
    """What one process uses of one device; overhead is not in `memory_bytes`."""

    uuid: str
    memory_bytes: int
    memory_overhead_bytes: int
    allocations: int
    launches: int
    gpu_time_seconds: float
    waited_seconds: float
    throttled_launches: int
    gated_seconds: float


class ProcessInfo(TypedDict):
    """One attached process."""

    pid: int
    name: str
    attached_at: float
    devices: list[ProcessDeviceInfo]


class UsageInfo(TypedDict):
    """Answer of `GET /v1/usage`."""

    claim: str
    time: float
    devices: list[UsageDeviceInfo]
    processes: list[ProcessInfo]
    enforced_by: EnforcedBy


class EventInfo(TypedDict):
    """One thing that the agent noticed; `claim` and `pid` are `None` where it is about none."""

    at: float
    kind: str
    claim: str | None
    pid: int | None
    message: str


class SubsliceDeviceInfo(TypedDict):
    """What a part of a slice has of one device."""

    uuid: str
    memory_limit_bytes: int
    share: float
    ceiling: float


class SubsliceInfo(TypedDict):
    """One part of a slice: SUBSLICE of docs/contracts.md."""

    claim: str
    name: str
    created_at: float
    devices: list[SubsliceDeviceInfo]
