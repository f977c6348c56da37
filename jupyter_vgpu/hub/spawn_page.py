"""What one user sees on the spawn page: asked of agent and ledger when the page is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.availability import Offer, offers
from jupyter_vgpu.hub.choices import KEY
from jupyter_vgpu.hub.form import options_form
from jupyter_vgpu.hub.reconciliation import ServerKey, tenant_name
from jupyter_vgpu.hub.settings import VGPUHub
from jupyter_vgpu.quota import QuotaError, Use


async def spawn_form(settings: VGPUHub, key: ServerKey, groups: Sequence[str], spawner: Any) -> str:
    """Return our part of the spawn form.

    Args:
        settings: The hub's.
        key: The server that is to be started.
        groups: Its user's groups.
        spawner: Its spawner, for the last choice and the log.
    """
    devices: list[DeviceInfo] | None = None
    uses: list[Use] = []
    trouble = ""
    offered = [
        replace(o, can_wait=settings.queue_timeout_seconds > 0) for o in offers(settings.offered_to(groups), None)
    ]
    try:
        devices = await settings.desk.devices()
        offered = [
            replace(
                offer,
                can_wait=settings.queue_timeout_seconds > 0,
                refusal=await _refusal(settings, key, groups, offer, devices),
            )
            for offer in offers(settings.offered_to(groups), devices)
        ]
        uses = await settings.desk.uses(key[0], groups)
    except VGPUError as error:
        spawner.log.warning("%s is shown a form without figures: %s", tenant_name(*key), error)
        trouble = str(error)
    return options_form(offered, devices, spawner.user_options.get(KEY), trouble, uses)


async def _refusal(
    settings: VGPUHub, key: ServerKey, groups: Sequence[str], offer: Offer, devices: Sequence[DeviceInfo]
) -> str:
    """Return why a quota refuses this user an offer; empty when none does."""
    try:
        await settings.desk.check_quota(key, offer.profile, groups, devices)
    except QuotaError as error:
        return str(error)
    return ""
