"""What an agent answered, in words that every face of it has in common."""

from __future__ import annotations

from jupyter_vgpu.client.answers import GuaranteedInfo


def guarantee_in_words(kept: GuaranteedInfo) -> str:
    """Return what is guaranteed and how it was kept: `"25% of each second, missed in 3"`."""
    least = f"{kept['least'] * 100:.3g}% of each second"
    if not kept["violations"]:
        return f"{least}, never missed"
    return f"{least}, missed in {kept['violations']:,}" + (", now asked for more loudly" if kept["raised"] else "")
