"""The Jupyter Server extension: wires endpoints to the one reader."""

from __future__ import annotations

import os

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_server.extension.application import ExtensionApp

from jupyter_vgpu.server.figures import SliceLooker
from jupyter_vgpu.server.handlers import ENDPOINTS, READER
from jupyter_vgpu.server.kernel_news import ServerNews
from jupyter_vgpu.server.live import FiguresReader
from jupyter_vgpu.server.notebooks import KernelList
from jupyter_vgpu.server.session import HubPage, Session


class VGPUServerExtension(ExtensionApp):
    """Serves the user's slice and its use to their browser."""

    name = "jupyter_vgpu"
    description = "The user's slice of a GPU: what it is and what it uses."
    load_other_extensions = True

    def initialize_settings(self) -> None:
        """Make the reader; it asks nobody until somebody looks."""
        settings, log = self.settings, self.log
        kernels = KernelList(settings["kernel_manager"], settings["session_manager"], log)
        self._hub = HubPage(log)
        session = Session(self.serverapp, self._hub)
        news = ServerNews(settings["kernel_manager"], settings.get("event_logger"), log)
        settings[READER] = FiguresReader(SliceLooker(), kernels.now, news, session.now, log)
        self._offer_parts()

    def _offer_parts(self) -> None:
        """Have our provisioner start the Jupyter kernels whose spec names none, so that each can be given a part.

        Without a part it does what Jupyter's own does. What the admin chose instead stays.
        """
        factory = KernelProvisionerFactory.instance(parent=self.serverapp)
        is_free = factory.default_provisioner_name == "local-provisioner"
        if is_free and "JUPYTER_VGPU_SECRET" in os.environ and "vgpu" in factory.provisioners:
            factory.default_provisioner_name = "vgpu"

    def initialize_handlers(self) -> None:
        """Add the endpoints; Jupyter Server puts its base URL before them."""
        self.handlers.extend((f"/{path}", handler) for path, handler in ENDPOINTS)

    async def stop_extension(self) -> None:
        """End the streams, so that the server can stop at once."""
        reader = self.settings.get(READER)
        if reader is not None:
            self._hub.close()
            await reader.close()
