"""The user's own view of their slice, served by their Jupyter server.

Three endpoints under the server's base URL, for whoever may use the server:
`GET jupyter-vgpu/slice`, `GET jupyter-vgpu/usage` and the event stream
`GET jupyter-vgpu/live`. None of them counts as activity, so an open panel
never keeps an idle server from being culled.

Nothing here reads NVML or the device: the agent is asked over its user
socket, and a missing slice, agent, GPU or driver is an answer, not a failure.
"""

from __future__ import annotations

from typing import Any


def extension_points() -> list[dict[str, Any]]:
    """Return what Jupyter Server needs to know to load the extension."""
    from jupyter_vgpu.server.app import VGPUServerExtension

    return [{"module": "jupyter_vgpu.server", "app": VGPUServerExtension}]
