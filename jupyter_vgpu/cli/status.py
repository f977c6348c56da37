"""`jupyter vgpu status`: the slice this shell runs in, or else the node's agent."""

from __future__ import annotations

import argparse
import json
import time

from jupyter_vgpu.cli.agents import the_agent
from jupyter_vgpu.cli.text import facts, table
from jupyter_vgpu.client import EnforcedBy, HubClient, UserClient
from jupyter_vgpu.errors import UnknownClaimError
from jupyter_vgpu.units import format_bytes


def status(options: argparse.Namespace, command: list[str]) -> int:
    """Show the slice, or the agent when this shell runs in none or `--agent` names one; return 0."""
    if options.agent is None:
        try:
            client = UserClient.from_environment()
        except UnknownClaimError:
            pass
        else:
            return _slice(client, options.json)
    return _agent(the_agent(options.agent), options.json)


def _enforced_by(enforced: EnforcedBy) -> str:
    seen = "verified" if enforced["verified"] else "not verified"
    return f"{enforced['backend']} ({enforced['level']}, {seen}): {enforced['note']}"


def _slice(client: UserClient, as_json: bool) -> int:
    mine, usage = client.slice(), client.usage()
    if as_json:
        print(json.dumps({"slice": mine, "usage": usage}, indent=2))
        return 0
    print(
        facts(
            [
                ("slice", f"{mine['profile']} of {mine['tenant']} ({mine['state']})"),
                ("enforced by", _enforced_by(mine["enforced_by"])),
            ]
        )
    )
    rows = [
        [
            device["name"],
            f"{format_bytes(used['memory_used_bytes'])} of {format_bytes(used['memory_limit_bytes'])}",
            f"{device['share']:.1%}",
            f"{device['ceiling']:.0%}",
            f"{used['launches']} ({used['launches_per_second']:.0f}/s)",
        ]
        for device, used in zip(mine["devices"], usage["devices"], strict=True)
    ]
    print("\n" + table(["DEVICE", "MEMORY", "SHARE", "CEILING", "LAUNCHES"], rows))
    if usage["processes"]:
        processes = [
            [
                str(process["pid"]),
                process["name"],
                format_bytes(sum(device["memory_bytes"] for device in process["devices"])),
                str(sum(device["launches"] for device in process["devices"])),
            ]
            for process in usage["processes"]
        ]
        print("\n" + table(["PID", "PROCESS", "MEMORY", "LAUNCHES"], processes))
    return 0


def _agent(client: HubClient, as_json: bool) -> int:
    health = client.health()
    if as_json:
        print(json.dumps({"agent": health}, indent=2))
        return 0
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(health["started_at"]))
    print(
        facts(
            [
                ("agent", f"{health['version']}, process {health['pid']}, since {since}"),
                ("directory", str(client.runtime_dir)),
                ("driver", f"{health['driver_version']}{' (simulated)' if health['simulated'] else ''}"),
                ("devices", str(health["devices"])),
                ("claims", str(health["claims"])),
                ("isolated", "yes" if health["isolated"] else health["note"]),
            ]
        )
    )
    return 0
