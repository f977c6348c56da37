"""Why a simulated board answers some calls differently: each difference that is meant has its reason here."""

from __future__ import annotations

import re

_ENDS = "the real driver follows the place without a look and ends the process; a simulated board never does that"

# Group, name and case as patterns; the first that matches the whole of each counts.
REASONS = (
    ("functions", "cuModuleLoadData|cuModuleGetFunction", "no module|not in it",
     "any text is a module here, with a function of every name"),
    ("captures", "cuThreadExchangeStreamCaptureMode", "no place", _ENDS),
    ("devices", "cuDeviceGetName", "no room", _ENDS),
    ("entry points", "cuGetProcAddress_v2", "no name|no place", _ENDS),
    ("nvml: state", "nvmlDeviceGet(AccountingMode|Display(Active|Mode)|EnforcedPowerLimit|MultiGpuBoard|"
     "PowerManagement(Default)?Limit|PowerUsage)", "no device", _ENDS),
    ("nvml: processes", "nvmlDeviceGetAccountingPids", "while off", "a simulated board keeps no accounts of processes"),
    ("nvml: state", "nvmlDeviceGetInforomConfigurationChecksum", "ok", "a simulated board has no InfoROM"),
)  # fmt: skip


def reason_for(group: str, name: str, case: str) -> str | None:
    """Return why this call may differ; None when no reason is known."""
    for patterns in REASONS:
        if all(re.fullmatch(pattern, text) for pattern, text in zip(patterns, (group, name, case), strict=False)):
            return patterns[3]
    return None
