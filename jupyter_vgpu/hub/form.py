"""The spawn page's part about the GPU: plain HTML, made on the server.

Works without scripts, by keyboard and read aloud: one fieldset, one radio button
per profile with its label and a described-by note. A script (`spawn_page.js`) keeps
the figures new while the page is open.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.hub.availability import Offer
from jupyter_vgpu.hub.choices import KEY
from jupyter_vgpu.model import PRIORITIES, Profile
from jupyter_vgpu.quota import Use, format_hours, format_moment
from jupyter_vgpu.units import format_bytes, format_ppm

SCRIPT = Path(__file__).with_name("spawn_page.js").read_bytes()
SCRIPT_VERSION = hashlib.sha256(SCRIPT).hexdigest()[:12]


def options_form(
    offers: Sequence[Offer],
    devices: Sequence[DeviceInfo] | None,
    last_choice: object = None,
    trouble: str = "",
    uses: Sequence[Use] = (),
    live_url: str = "",
    script_url: str = "",
) -> str:
    """Return the fieldset for JupyterHub's spawn form.

    Args:
        offers: What is offered, in order.
        devices: The agent's answer, `None` when it gave none.
        last_choice: Profile name of the user's last spawn; anything that is no offer counts as none.
        trouble: Why the agent's answer is missing; empty when it is not.
        uses: The user's quotas and how much of them is used.
        live_url: Where newer figures come from; empty = nowhere.
        script_url: The script that takes them in; empty = none.
    """
    chosen = _preselected(offers, last_choice)
    rows = "".join(_row(number, offer, offer is chosen, devices) for number, offer in enumerate(offers))
    script = f'<script src="{escape(script_url)}" defer></script>' if script_url else ""
    return (
        '<fieldset class="jupyter-vgpu-profiles mb-3" aria-describedby="jupyter-vgpu-state"'
        f' data-live="{escape(live_url)}"><legend>GPU</legend>'
        f'<p id="jupyter-vgpu-state" class="{"text-muted" if devices is not None else "alert alert-warning"}">'
        f"{escape(state(devices, trouble))}</p>{_quotas(uses)}{rows}"
        '<p id="jupyter-vgpu-news" role="status" class="visually-hidden"></p>'
        f"</fieldset>{script}"
    )


def _preselected(offers: Sequence[Offer], last_choice: object) -> Offer | None:
    """Return the last choice if it can be had, else the default, else the first that can; `None` if none can."""
    available = [offer for offer in offers if offer.can_be_had and not offer.refusal]
    available = available or [offer for offer in offers if offer.can_be_chosen]
    for offer in available:
        if offer.profile.name == last_choice:
            return offer
    for offer in available:
        if offer.profile.is_default:
            return offer
    return available[0] if available else None


def state(devices: Sequence[DeviceInfo] | None, trouble: str) -> str:
    """Return in words which devices there are, or that the agent does not answer.

    Args:
        devices: The agent's answer, `None` when it gave none.
        trouble: Why the agent's answer is missing.
    """
    if devices is None:
        return (
            "No GPU can be had at the moment: the GPU agent of this node does not answer. Reload this page to ask "
            f"again. ({trouble})"
        )
    kinds = Counter(f"{device['name']} ({format_bytes(device['total_bytes'])})" for device in devices)
    names = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
    return f"On this node: {names}." if names else "This node has no GPU."


def _quotas(uses: Sequence[Use]) -> str:
    """Return what is used and left of the user's quotas, one paragraph each."""
    return "".join(f'<p class="jupyter-vgpu-quota text-muted">{escape(_left(use))}</p>' for use in uses)


def _left(use: Use) -> str:
    quota = use.quota
    left = ""
    parts = []
    if quota.slices is not None:
        parts.append(f"{use.slices} of {quota.slices} slices")
    if quota.memory_bytes is not None:
        parts.append(f"{format_bytes(use.memory_bytes)} of {format_bytes(quota.memory_bytes)} GPU memory")
    if quota.gpu_hours is not None:
        days = round(quota.window_seconds / 86_400, 2)
        parts.append(
            f"{format_hours(use.gpu_hours).split()[0]} of {format_hours(quota.gpu_hours)} in the last {days:.10g} days"
        )
        left = f" {format_hours(max(0.0, quota.gpu_hours - use.gpu_hours))} left."
    if quota.priority is not None:
        parts.append(f"priority up to {PRIORITIES[quota.priority]!r}")
    if quota.guaranteed_ppm is not None:
        held, most = (f"{ppm / 10_000:.6g} %" for ppm in (use.guaranteed_ppm, quota.guaranteed_ppm))
        parts.append(f"{held} of {most} of a GPU's time guaranteed")
    return f"{use.whose[:1].upper()}{use.whose[1:]} quota, used: {', '.join(parts)}.{left}"


def _row(number: int, offer: Offer, is_chosen: bool, devices: Sequence[DeviceInfo] | None) -> str:
    name = escape(offer.profile.name)
    state = "" if offer.can_be_chosen else " disabled"
    checked = " checked" if is_chosen else ""
    notes = [offer.profile.description, what_it_is(offer.profile, devices), _how_long(offer.profile)]
    refused = ' data-refused=""' if offer.refusal else ""
    return (
        f'<div class="form-check mb-2" data-profile="{name}"{refused}>'
        f'<input class="form-check-input border-secondary" type="radio" name="{KEY}" id="jupyter-vgpu-{number}"'
        f' value="{name}" aria-describedby="jupyter-vgpu-{number}-note" required{checked}{state}>'
        f' <label class="form-check-label" for="jupyter-vgpu-{number}">{name}</label>'
        f' <div id="jupyter-vgpu-{number}-note" class="form-text">'
        f"{' '.join(escape(note) for note in notes if note)}"
        f' <span class="jupyter-vgpu-free">{escape(how_many(offer))}</span></div></div>'
    )


def what_it_is(profile: Profile, devices: Sequence[DeviceInfo] | None) -> str:
    """Return in words what a profile gives, with sizes where the node's devices are alike.

    Args:
        profile: The profile.
        devices: The node's devices; `None` when they are not known.
    """
    if not profile.devices:
        return "No GPU."
    where = f" on each of {profile.devices} GPUs" if profile.devices > 1 else ""
    if profile.backend == "whole":
        return f"{profile.devices} whole GPUs, nobody else's." if where else "A whole GPU, nobody else's."
    sizes = {profile.memory.of(device["total_bytes"]) for device in devices or ()}
    if len(sizes) == 1:
        memory = f"{format_bytes(sizes.pop())} of GPU memory"
    elif profile.memory.size_bytes is not None:
        memory = f"{format_bytes(profile.memory.size_bytes)} of GPU memory"
    else:
        memory = f"{profile.memory.fraction} of the GPU's memory"
    share = f", {format_ppm(profile.share_ppm)} of its time" if profile.share_ppm else ""
    least = f", {format_ppm(profile.guarantee_ppm)} guaranteed each second" if profile.guarantee_ppm else ""
    return f"{memory}{share}{least}{where}."


def _how_long(profile: Profile) -> str:
    return "" if profile.max_hours is None else f"For at most {profile.max_hours:.10g} hours."


def how_many(offer: Offer) -> str:
    """Return in words whether a profile can be had now, how many of it there are, and when there will be one."""
    if offer.refusal:
        return f"Not for you now: {offer.refusal}."
    if not offer.profile.devices:
        return "Always free."
    if offer.free is None or not offer.total:
        return f"Not available: {offer.obstacle}."
    if not offer.free:
        when = f" One is free by {format_moment(offer.free_at)} at the latest." if offer.free_at is not None else ""
        return f"None of {offer.total} free now: {offer.obstacle}.{when}" + (
            " You can wait for one." if offer.can_wait else ""
        )
    return f"{offer.free} of {offer.total} free now."
