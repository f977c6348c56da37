"""Ask a node agent: for hubs (`HubClient`) and for a tenant's own processes (`UserClient`)."""

from jupyter_vgpu.client.answers import (
    AgentInfo,
    ClaimDeviceInfo,
    ClaimInfo,
    DeviceInfo,
    EnforcedBy,
    EventInfo,
    HealthInfo,
    ProcessDeviceInfo,
    ProcessInfo,
    SliceDeviceInfo,
    SliceInfo,
    UsageDeviceInfo,
    UsageInfo,
)
from jupyter_vgpu.client.clients import (
    SYSTEM_RUNTIME_DIR,
    TIMEOUT_SECONDS,
    GrantedClaim,
    HubClient,
    UserClient,
    profile_to_wire,
)

__all__ = [
    "SYSTEM_RUNTIME_DIR",
    "TIMEOUT_SECONDS",
    "AgentInfo",
    "ClaimDeviceInfo",
    "ClaimInfo",
    "DeviceInfo",
    "EnforcedBy",
    "EventInfo",
    "GrantedClaim",
    "HealthInfo",
    "HubClient",
    "ProcessDeviceInfo",
    "ProcessInfo",
    "SliceDeviceInfo",
    "SliceInfo",
    "UsageDeviceInfo",
    "UsageInfo",
    "UserClient",
    "profile_to_wire",
]
