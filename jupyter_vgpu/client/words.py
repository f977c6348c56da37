"""What an agent answered, in words that every face of it has in common."""

from __future__ import annotations

from jupyter_vgpu.client.answers import GovernedInfo, GuaranteedInfo, UsageDeviceInfo


def guarantee_in_words(kept: GuaranteedInfo) -> str:
    """Return what is guaranteed and how it was kept: `"25% of each second, missed in 3"`."""
    least = f"{kept['least'] * 100:.3g}% of each second"
    if not kept["violations"]:
        return f"{least}, never missed"
    return f"{least}, missed in {kept['violations']:,}" + (", now asked for more loudly" if kept["raised"] else "")


def gpu_time_in_words(used: UsageDeviceInfo) -> str:
    """Return what a slice had of a device's time: `"12.3 s, 43% of the last second"`."""
    return f"{used['gpu_time_seconds']:,.1f} s, {used['gpu_time_fraction']:.0%} of the last second"


def waited_in_words(used: UsageDeviceInfo) -> str:
    """Return how long its work waited for its turn: `"3.4 s, 10% of the last second"`."""
    return f"{used['waited_seconds']:,.1f} s, {used['waiting_fraction']:.0%} of the last second"


def held_back_in_words(launches: int, seconds: float) -> str:
    """Return which launches did not go at once, and for how long: `"1,200 launches, for 3.4 s"`."""
    return f"{launches:,} launches, for {seconds:,.1f} s"


def windows_in_words(governed: GovernedInfo) -> str:
    """Return how turns came and went: `"40 given, 2 overrun; below the share for 1 s"`."""
    given = f"{governed['windows']:,} given, {governed['overruns']:,} overrun"
    return f"{given}; below the share for {governed['violations']:,} s"
