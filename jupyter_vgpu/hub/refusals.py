"""Turn an error of ours into what JupyterHub shows, and keep refusals out of its failure counter.

A full GPU, an unknown profile or an agent that is down is no fault of the hub. JupyterHub 6 knows that of a
`SpawnException`; JupyterHub 5 counts every failed spawn and exits after `consecutive_failure_limit` of them, which
five impatient students reach in a minute.
source: jupyterhub 5.3-5.5 and 6.1, handlers/base.py, `spawn_single_user._track_failure_count`
"""

from __future__ import annotations

from typing import Any

import jupyterhub.spawner
from tornado import web

from jupyter_vgpu.errors import VGPUError

_SpawnException: Any = getattr(jupyterhub.spawner, "SpawnException", None)
COUNTS_REFUSALS = _SpawnException is None


class Refusal(web.HTTPError):
    """A refused spawn on JupyterHub 5, whose spawn page shows `str()` of what was raised."""

    def __str__(self) -> str:
        return str(self.__dict__["jupyterhub_message"])


def refusal(error: VGPUError) -> web.HTTPError:
    """Return what to raise for `error`: with its reason, status and message for people."""
    message = str(error)
    refused: web.HTTPError
    if COUNTS_REFUSALS:
        refused = Refusal(error.http_status, message)
    else:
        refused = _SpawnException(message, reason=error.reason, status_code=error.http_status)
    # What JupyterHub's pages show of an exception of any kind.
    refused.__dict__["jupyterhub_message"] = message
    return refused


def leave_uncounted(settings: dict[str, Any]) -> None:
    """Take back, in advance, the failure that JupyterHub 5 is about to count.

    The counter is compared with its limit at the moment it is raised, so correcting it afterwards would be too late.

    Args:
        settings: The settings of the hub's web application, where the counter lives.
    """
    if COUNTS_REFUSALS:
        settings["failure_count"] = settings.get("failure_count", 0) - 1
