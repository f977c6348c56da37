"""`jupyter vgpu status`: the slice this shell runs in, or else the node's agent."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from jupyter_vgpu.cli.agents import the_agent
from jupyter_vgpu.cli.scheduling import happenings
from jupyter_vgpu.cli.text import facts, table
from jupyter_vgpu.cli.trace import refuse_unwritable, write_trace
from jupyter_vgpu.client import (
    EnforcedBy,
    EventInfo,
    HubClient,
    ProcessInfo,
    SliceDeviceInfo,
    UsageDeviceInfo,
    UserClient,
    gpu_time_in_words,
    guarantee_in_words,
    held_back_in_words,
    waited_in_words,
    windows_in_words,
)
from jupyter_vgpu.errors import BadValueError, UnknownClaimError
from jupyter_vgpu.units import format_bytes

_MOST_EVENTS = 5
DEFAULT_TRACE_SECONDS, SHORTEST_TRACE_SECONDS, LONGEST_TRACE_SECONDS = 1.0, 0.01, 30.0  # docs/contracts.md


def status(options: argparse.Namespace) -> int:
    """Show the slice, or the agent when this shell runs in none or `--agent` names one; return 0.

    Raises:
        VGPUError: An option is not allowed, or the agent does not answer.
    """
    if options.trace_seconds is not None and options.trace is None:
        raise BadValueError("--trace-seconds", options.trace_seconds, "it is only together with --trace FILE")
    if options.trace is not None:
        if options.trace_seconds is None:
            options.trace_seconds = DEFAULT_TRACE_SECONDS
        return _trace(the_agent(options.agent), options.trace, options.trace_seconds)
    if options.agent is None:
        try:
            client = UserClient.from_environment()
        except UnknownClaimError:
            pass
        else:
            return _slice(client, options.json)
    return _agent(the_agent(options.agent), options.json)


def _trace(client: HubClient, path: Path, seconds: float) -> int:
    if not SHORTEST_TRACE_SECONDS <= seconds <= LONGEST_TRACE_SECONDS:
        allowed = f"a number of seconds from {SHORTEST_TRACE_SECONDS:g} to {LONGEST_TRACE_SECONDS:g} is"
        raise BadValueError("--trace-seconds", seconds, allowed)
    refuse_unwritable(path)
    trace = client.trace(seconds)
    write_trace(happenings(trace), path)
    lost = f", {trace['lost']:,} more were lost" if trace["lost"] else ""
    print(f"{path}: {seconds:g} s, {len(trace['records']):,} records{lost}; open it at https://ui.perfetto.dev")
    return 0


def _enforced_by(enforced: EnforcedBy) -> list[tuple[str, str]]:
    seen = "verified" if enforced["verified"] else "not verified"
    by = f"{enforced['backend']} ({enforced['level']}, {seen})"
    return [("enforced by", by), *([("", enforced["note"])] if enforced["note"] else [])]


def _slice(client: UserClient, as_json: bool) -> int:
    mine, usage, events = client.slice(), client.usage(), client.events()
    if as_json:
        print(json.dumps({"slice": mine, "usage": usage, "events": events}, indent=2))
        return 0
    print(
        facts(
            [
                ("slice", f"{mine['profile']} of {mine['tenant']} ({mine['state']})"),
                *_enforced_by(mine["enforced_by"]),
            ]
        )
    )
    for device, used in zip(mine["devices"], usage["devices"], strict=True):
        print("\n" + facts(_device(device, used)))
    if usage["processes"]:
        head = ["PID", "PROCESS", "MEMORY", "OVERHEAD", "GPU TIME", "WAITED", "LAUNCHES", "HELD BACK"]
        print("\n" + table(head, [_process(process) for process in usage["processes"]]))
    _print_events(events)
    return 0


def _device(device: SliceDeviceInfo, used: UsageDeviceInfo) -> list[tuple[str, str]]:
    memory = f"{format_bytes(used['memory_used_bytes'])} of {format_bytes(used['memory_limit_bytes'])}"
    if used["memory_overhead_bytes"]:
        memory += f", {format_bytes(used['memory_overhead_bytes'])} of it contexts and code"
    return [
        ("device", f"{device['name']} ({device['uuid']})"),
        ("memory", memory),
        (
            "GPU time",
            f"{gpu_time_in_words(used)} (share {100 * device['share']:.3g}%, ceiling {100 * device['ceiling']:.3g}%)",
        ),
        *([("guarantee", guarantee_in_words(used["guaranteed"]))] if "guaranteed" in used else []),
        ("waited", waited_in_words(used)),
        ("launches", f"{used['launches']} ({used['launches_per_second']:.0f}/s)"),
        ("held back", held_back_in_words(used["throttled_launches"], used["gated_seconds"])),
        *([("windows", windows_in_words(used["governed"]))] if used["governed"] is not None else []),
    ]


def _process(process: ProcessInfo) -> list[str]:
    devices = process["devices"]
    return [
        str(process["pid"]),
        process["name"],
        format_bytes(sum(device["memory_bytes"] for device in devices)),
        format_bytes(sum(device["memory_overhead_bytes"] for device in devices)),
        f"{sum(device['gpu_time_seconds'] for device in devices):.1f} s",
        f"{sum(device['waited_seconds'] for device in devices):.1f} s",
        str(sum(device["launches"] for device in devices)),
        str(sum(device["throttled_launches"] for device in devices)),
    ]


def _print_events(events: Sequence[EventInfo]) -> None:
    if events:
        rows = [
            [time.strftime("%H:%M:%S", time.localtime(event["at"])), event["kind"], event["message"]]
            for event in events[-_MOST_EVENTS:]
        ]
        print("\n" + table(["NOTICED", "KIND", f"WHAT ({len(events)} in all)"], rows))


def _agent(client: HubClient, as_json: bool) -> int:
    health, events = client.health(), client.events()
    if as_json:
        print(json.dumps({"agent": health, "events": events}, indent=2))
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
    _print_events(events)
    return 0
