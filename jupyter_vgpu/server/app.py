"""The Jupyter Server extension: wires endpoints to the one reader."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from jupyter_vgpu.server.figures import SliceLooker
from jupyter_vgpu.server.handlers import ENDPOINTS, READER
from jupyter_vgpu.server.live import FiguresReader
from jupyter_vgpu.server.notebooks import KernelList


class VGPUServerExtension(ExtensionApp):
    """Serves the user's slice and its use to their browser."""

    name = "jupyter_vgpu"
    description = "The user's slice of a GPU: what it is and what it uses."
    load_other_extensions = True

    def initialize_settings(self) -> None:
        """Make the reader; it asks nobody until somebody looks."""
        kernels = KernelList(self.settings["kernel_manager"], self.settings["session_manager"], self.log)
        self.settings[READER] = FiguresReader(SliceLooker().look, kernels.now, self.log)

    def initialize_handlers(self) -> None:
        """Add the endpoints; Jupyter Server puts its base URL before them."""
        self.handlers.extend((f"/{path}", handler) for path, handler in ENDPOINTS)

    async def stop_extension(self) -> None:
        """End the streams, so that the server can stop at once."""
        reader = self.settings.get(READER)
        if reader is not None:
            await reader.close()
