"""The kernel provisioner: claims a part of the slice before the start, gives it back after the end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Unicode

from jupyter_vgpu.client import UserClient
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.provisioner.wish import parse_wish


class VGPUProvisioner(LocalProvisioner):
    """Runs a Jupyter kernel as `LocalProvisioner` does, in a part of the slice that this process runs in.

    A value that is not allowed, or does not fit, fails the start with a message that says what would: a Jupyter
    kernel never runs with more than was asked for.
    """

    memory = Unicode(
        "",
        help="Device memory of the Jupyter kernel and what it starts, as '2GiB' or, as a part of the slice, '1/4'. "
        "Empty (default): as $JUPYTER_VGPU_KERNEL_MEMORY says, and without that the whole slice, beside the others.",
    ).tag(config=True)
    share = Unicode(
        "",
        help="Part of the slice's GPU time that is promised to it, as '1/2' or '50%'. Empty (default): as "
        "$JUPYTER_VGPU_KERNEL_SHARE says, and without that the same part as of the memory.",
    ).tag(config=True)

    _client: UserClient | None = None
    _claim_id = ""
    _secret = ""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Return the launch's arguments, with the part's secret in the environment instead of the slice's.

        Raises:
            VGPUError: There is no slice, or not that much of it left.
        """
        kwargs = await super().pre_launch(**kwargs)
        environment: dict[str, str] = kwargs["env"]
        if not self._claim_id:
            await asyncio.to_thread(self._claim, environment)
        if self._secret:
            environment["JUPYTER_VGPU_SECRET"] = self._secret
        return kwargs

    async def cleanup(self, restart: bool = False) -> None:
        """Give the part back, unless the Jupyter kernel is about to start again."""
        await super().cleanup(restart=restart)
        if not restart and self._client is not None and self._claim_id:
            client, claim_id = self._client, self._claim_id
            self._claim_id = self._secret = ""
            # The agent takes it back by itself when this process ends.
            with contextlib.suppress(VGPUError):
                await asyncio.to_thread(client.release_subslice, claim_id)

    async def get_provisioner_info(self) -> dict[str, Any]:
        """Return what a manager keeps to take the Jupyter kernel up again, the part's id included."""
        info: dict[str, Any] = await super().get_provisioner_info()
        return {**info, "vgpu_subslice": self._claim_id, "vgpu_secret": self._secret}

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        """Take up a Jupyter kernel that another manager started."""
        await super().load_provisioner_info(provisioner_info)
        self._claim_id = str(provisioner_info.get("vgpu_subslice", ""))
        self._secret = str(provisioner_info.get("vgpu_secret", ""))
        if self._claim_id:
            with contextlib.suppress(VGPUError):
                self._client = UserClient.from_environment()

    def _claim(self, environment: dict[str, str]) -> None:
        self._client = UserClient.from_environment(environment)
        wish = parse_wish(self.memory, self.share, environment, self._client.slice())
        if wish is None:
            return
        name = environment.get("JPY_SESSION_NAME", "").rpartition("/")[2] or f"Jupyter kernel {self.kernel_id}"
        granted = self._client.create_subslice(name[:100], wish.memory_bytes, wish.share)
        self._claim_id, self._secret = granted.subslice["claim"], granted.secret
