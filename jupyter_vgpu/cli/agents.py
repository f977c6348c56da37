"""Which agent a command asks."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_vgpu.client import SYSTEM_RUNTIME_DIR, HubClient
from jupyter_vgpu.errors import AgentUnreachableError

AGENT_VARIABLE = "JUPYTER_VGPU_AGENT"


def named_agent(option: Path | None) -> Path | None:
    """Return the runtime directory that the user named: by `--agent`, else by environment; `None` when neither."""
    if option is not None:
        return option
    named = os.environ.get(AGENT_VARIABLE, "")
    return Path(named) if named else None


def the_agent(option: Path | None) -> HubClient:
    """Return a client of the agent that the user named, else of the system's. Nothing is asked yet."""
    return HubClient(named_agent(option) or SYSTEM_RUNTIME_DIR)


def is_there(client: HubClient) -> bool:
    """Return whether there is an agent at all: one that can be reached, whether or not it serves this user."""
    if not (client.runtime_dir / "hub.sock").exists():
        return False
    try:
        client.health()
    except AgentUnreachableError:
        return False
    return True
