"""The environment variables that mean something here.

Whoever misspells one gets what holds without it: another agent, all devices instead of two, a whole slice instead
of a part. So a name that is nearly one of these is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_vgpu.errors import BadValueError

VARIABLES = (
    "JUPYTER_VGPU_AGENT",
    "JUPYTER_VGPU_API",
    "JUPYTER_VGPU_DEVICES",
    "JUPYTER_VGPU_IDLE_SECONDS",
    "JUPYTER_VGPU_KERNEL_MEMORY",
    "JUPYTER_VGPU_KERNEL_SHARE",
    "JUPYTER_VGPU_SECRET",
    "JUPYTER_VGPU_SERVICE_SETTINGS",
    "JUPYTER_VGPU_SIM",
    "JUPYTER_VGPU_SOCKET",
)
# Of 1. One letter too many, too few or wrong leaves 0.93 and more; names that mean something else have at most 0.85.
_NEARLY = 0.9


def refuse_misspelt(environment: Mapping[str, str]) -> None:
    """Refuse an environment that has a name which is nearly one of `VARIABLES`; other names are nobody's business.

    Raises:
        BadValueError: There is such a name; the message says which was probably meant.
    """
    unknown = [name for name in environment if name[:2].upper() == "JU" and name not in VARIABLES]
    if not unknown:
        return
    from difflib import get_close_matches

    for name in unknown:
        if meant := get_close_matches(name.upper(), VARIABLES, 1, _NEARLY):
            # Without its value, which may be a secret.
            raise BadValueError("environment", name, f"{meant[0]} is, if that was meant; otherwise unset it")
