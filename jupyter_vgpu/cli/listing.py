"""`jupyter vgpu devices` and `jupyter vgpu claims`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from jupyter_vgpu.cli.agents import named_agent, the_agent
from jupyter_vgpu.cli.text import table
from jupyter_vgpu.errors import AgentUnreachableError, NotAuthorizedError
from jupyter_vgpu.units import format_bytes


def devices(options: argparse.Namespace) -> int:
    """List the devices: the agent's, with what is free, else what the driver says; return 0."""
    try:
        found: list[dict[str, Any]] = [dict(device) for device in the_agent(options.agent).devices()]
    except (AgentUnreachableError, NotAuthorizedError) as error:
        if named_agent(options.agent) is not None:
            raise
        found = _devices_without_agent()
        print(f"(what is free is not known: {error})", file=sys.stderr)
    if options.json:
        print(json.dumps({"devices": found}, indent=2))
        return 0
    rows = [
        [
            str(device["index"]),
            device["name"],
            format_bytes(device["total_bytes"]),
            "?" if device["free_bytes"] is None else format_bytes(device["free_bytes"]),
            "?" if device["free_share"] is None else f"{device['free_share']:.0%}",
            "?" if device["claims"] is None else str(len(device["claims"])),
            device["uuid"],
        ]
        for device in found
    ]
    print(table(["#", "DEVICE", "MEMORY", "FREE", "FREE SHARE", "CLAIMS", "UUID"], rows))
    return 0


def _devices_without_agent() -> list[dict[str, Any]]:
    """Return the devices in the agent's shape; what only an agent knows is `None`."""
    from jupyter_vgpu.inventory import read_devices
    from jupyter_vgpu.nvml import Nvml

    return [
        {
            "uuid": device.uuid,
            "name": device.name,
            "index": device.index,
            "total_bytes": device.total_bytes,
            "sm_count": device.sm_count,
            "driver_version": device.driver_version,
            "simulated": device.is_simulated,
            "free_bytes": None,
            "free_share": None,
            "claims": None,
        }
        for device in read_devices(Nvml())
    ]


def claims(options: argparse.Namespace) -> int:
    """List the claims that hold a slice on this node; return 0."""
    found = the_agent(options.agent).claims()
    if options.json:
        print(json.dumps({"claims": found}, indent=2))
        return 0
    if not found:
        print("nobody holds a slice on this node")
        return 0
    rows = [
        [
            claim["claim"],
            claim["tenant"],
            claim["hub"],
            claim["profile"],
            claim["backend"],
            " + ".join(format_bytes(device["memory_bytes"]) for device in claim["devices"]),
            " + ".join(f"{100 * device['share']:.3g}%" for device in claim["devices"]),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(claim["created_at"])),
        ]
        for claim in found
    ]
    print(table(["CLAIM", "TENANT", "HUB", "PROFILE", "BACKEND", "MEMORY", "SHARE", "SINCE"], rows))
    return 0
