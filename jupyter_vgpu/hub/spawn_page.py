"""What one user sees on the spawn page: asked of agent and ledger when the page is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.availability import Offer, offers
from jupyter_vgpu.hub.choices import KEY
from jupyter_vgpu.hub.form import SCRIPT_VERSION, options_form
from jupyter_vgpu.hub.reconciliation import ServerKey, tenant_name
from jupyter_vgpu.hub.settings import VGPUHub
from jupyter_vgpu.hub.watch import Sight
from jupyter_vgpu.quota import QuotaError, Use


async def spawn_form(settings: VGPUHub, key: ServerKey, groups: Sequence[str], spawner: Any) -> str:
    """Return our part of the spawn form.

    Args:
        settings: The hub's.
        key: The server that is to be started.
        groups: Its user's groups.
        spawner: Its spawner, for the last choice, the log and the hub's address.
    """
    sight = await settings.watch.look()
    trouble = sight.trouble
    offered = offers_of(settings, key[0], groups, sight)
    uses: list[Use] = []
    try:
        if sight.devices is not None:
            offered = [
                replace(offer, refusal=await _refusal(settings, key, groups, offer, sight.devices)) for offer in offered
            ]
        uses = await settings.desk.uses(key[0], groups)
    except VGPUError as error:
        trouble = trouble or str(error)
    if trouble:
        spawner.log.warning("%s is shown a form without all figures: %s", tenant_name(*key), trouble)
    base = f"{spawner.hub.base_url}vgpu/"
    return options_form(
        offered,
        sight.devices,
        spawner.user_options.get(KEY),
        trouble,
        uses,
        live_url=f"{base}live?{urlencode({'user': key[0]})}",
        script_url=f"{base}spawn_page.js?{urlencode({'v': SCRIPT_VERSION})}",
    )


def offers_of(settings: VGPUHub, user: str, groups: Sequence[str], sight: Sight) -> list[Offer]:
    """Return what a user who is in `groups` is offered, as far as there is room; quotas are not asked."""
    isolation = settings.desk.isolation(user, groups)
    can_wait = settings.queue_timeout_seconds > 0
    found = offers(settings.offered_to(groups), sight.devices, isolation, sight.ends)
    return [replace(offer, can_wait=can_wait) for offer in found]


async def _refusal(
    settings: VGPUHub, key: ServerKey, groups: Sequence[str], offer: Offer, devices: Sequence[DeviceInfo]
) -> str:
    """Return why a quota refuses this user an offer; empty when none does."""
    try:
        if offer.profile.devices:
            await settings.desk.check_quota(key, offer.profile, groups, devices)
    except QuotaError as error:
        return str(error)
    return ""
