"""Take a device out of use, and put it back: no new claims come to a drained one, and those that are there stay."""

from __future__ import annotations

import asyncio
import logging

from tornado import web

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.service.pages import Api, KnownHandler, Page
from jupyter_vgpu.service.revocation import LONGEST_REASON, checked_reason

log = logging.getLogger(__name__)

UUID = r"([0-9A-Za-z-]{1,64})"


class DevicePage(Page):
    """`/devices/UUID`: says what it will do; POST does it."""

    async def get(self, uuid: str) -> None:
        """Ask whether that is meant."""
        device = await drainable(self, uuid)
        self.show("device.html", device=device, longest=LONGEST_REASON, xsrf=self.xsrf_form_html())

    async def post(self, uuid: str) -> None:
        """Take the device out of use, or put it back, and go back to the overview."""
        fields = self.form("because", "drained")
        if fields.get("drained") not in ("true", "false"):
            raise BadValueError("drained", fields.get("drained"), "true or false is")
        await drain(self, uuid, fields["drained"] == "true", checked_reason(fields.get("because")))
        self.redirect(self.hub_auth.base_url, status=303)


class DeviceApi(Api):
    """`PUT /api/devices/UUID`."""

    async def put(self, uuid: str) -> None:
        """Take the device out of use, or put it back."""
        body = self.body(("drained", "because"))
        if not isinstance(body.get("drained"), bool):
            raise BadValueError("drained", body.get("drained"), "true or false is")
        device = await drain(self, uuid, body["drained"], checked_reason(body.get("because")))
        self.send({"device": {key: device[key] for key in ("uuid", "name", "index", "drained")}})


async def drainable(handler: KnownHandler, uuid: str) -> DeviceInfo:
    """Return a device that one may take out of use.

    Raises:
        web.HTTPError: 404: there is none, or one may not see it; 403 when one may see it and no more.
    """
    overview = (await handler.lookout.look(0)).seen_by(handler.viewer)
    device = next((device for device in overview.devices if device["uuid"] == uuid), None)
    if device is None:
        raise web.HTTPError(404, "there is no such device, or you may not see it")
    if not handler.viewer.revokes_all:
        raise web.HTTPError(403, "that takes custom:jupyter-vgpu:admin for everybody, or delete:servers")
    return device


async def drain(handler: KnownHandler, uuid: str, is_drained: bool, why: str) -> DeviceInfo:
    """Write down who does it, do it, and return the device.

    Raises:
        web.HTTPError: See `drainable`.
        VGPUError: The ledger or the agent does not answer.
    """
    await drainable(handler, uuid)
    kind = "drained" if is_drained else "in-use"
    by = handler.viewer.name
    await handler.lookout.in_ledger(
        lambda ledger: ledger.audit.note, kind, "", "", f"{uuid}: {why}" if why else uuid, by
    )
    log.info("device %s is set to %s by %s: %s", uuid, kind, by, why or "no reason")
    return await asyncio.to_thread(handler.lookout.client.drain, uuid, is_drained)
