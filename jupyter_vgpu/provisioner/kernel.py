"""The kernel provisioner: claims a part of the slice before the start, gives it back after the end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Unicode

from jupyter_vgpu.client import UserClient
from jupyter_vgpu.errors import NoCapacityError, VGPUError
from jupyter_vgpu.provisioner.wish import parse_wish, refuse_unknown, wished
from jupyter_vgpu.variables import refuse_misspelt

# What a process that has just ended had comes free within a moment.
_PATIENCE_SECONDS = 3.0
_AGAIN_SECONDS = 0.1


class VGPUProvisioner(LocalProvisioner):
    """Runs a Jupyter kernel as `LocalProvisioner` does, in a part of the slice that this process runs in.

    A value that is not allowed, or does not fit, fails the start with a message that says what would: a Jupyter
    kernel never runs with more than was asked for. Without any value it is `LocalProvisioner`, in a slice or not.
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
    _memory_bytes = 0
    _wished = {"memory": "", "share": ""}
    # Whether a user chose while it ran: from then on the environment of the kernel spec does not count.
    _is_chosen = False
    _is_to_change = False

    def __init__(self, **settings: Any) -> None:
        """Take what the kernel spec's `config` says, and what `jupyter_client` adds.

        Raises:
            BadValueError: A key is not understood, which traitlets would let pass, or a value is no text.
        """
        refuse_unknown(settings, self.class_trait_names())
        super().__init__(**settings)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Return the launch's arguments, with the part's secret in the environment instead of the slice's.

        Raises:
            VGPUError: There is no slice, or not that much of it left.
        """
        kwargs = await super().pre_launch(**kwargs)
        environment: dict[str, str] = kwargs["env"]
        is_anew = self._is_to_change
        if self._is_to_change:
            await self._give_back()
            self._is_to_change = False
        if not self._claim_id:
            await asyncio.to_thread(self._claim, environment, _PATIENCE_SECONDS if is_anew else 0.0)
        if self._secret:
            environment["JUPYTER_VGPU_SECRET"] = self._secret
        return kwargs

    async def cleanup(self, restart: bool = False) -> None:
        """Give the part back, unless the Jupyter kernel is about to start again."""
        await super().cleanup(restart=restart)
        if not restart:
            await self._give_back()

    def vgpu_part(self) -> dict[str, Any]:
        """Return PART of `docs/contracts.md`: what was chosen, and what the Jupyter kernel has by it."""
        return {**self._wished, "claim": self._claim_id, "memory_limit_bytes": self._memory_bytes}

    async def vgpu_choose(self, memory: str, share: str = "") -> None:
        """Have the next start take a part of the slice instead of what the settings say.

        Args:
            memory: As `"2GiB"` or `"1/4"`; empty = the whole slice.
            share: Part of the slice's share; empty = the same part as of the memory.

        Raises:
            VGPUError: It is not allowed, or there is no slice; nothing has changed.
        """
        client = UserClient.from_environment()
        parse_wish(memory, share, {}, await asyncio.to_thread(client.slice))
        self.memory, self.share = memory, share
        self._is_chosen = self._is_to_change = True

    async def _give_back(self) -> None:
        """Give the part back; the agent takes it back by itself when this process ends."""
        client, claim_id = self._client, self._claim_id
        self._claim_id = self._secret = ""
        self._memory_bytes = 0
        if client is not None and claim_id:
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

    def _claim(self, environment: dict[str, str], patience_seconds: float) -> None:
        """Take the part that is wished for, if any.

        Args:
            environment: The Jupyter kernel's.
            patience_seconds: How long what this Jupyter kernel had before may take to come free.
        """
        if not self._is_chosen:
            refuse_misspelt(environment)
        memory, share = wished(self.memory, self.share, {} if self._is_chosen else environment)
        self._wished = {"memory": memory, "share": share}
        if not memory and not share:
            return
        self._client = client = UserClient.from_environment(environment)
        wish = parse_wish(memory, share, {}, client.slice())
        assert wish is not None, "something is wished for"
        name = environment.get("JPY_SESSION_NAME", "").rpartition("/")[2] or f"Jupyter kernel {self.kernel_id}"
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                granted = client.create_subslice(name[:100], wish.memory_bytes, wish.share)
                break
            except NoCapacityError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_AGAIN_SECONDS)
        self._claim_id, self._secret = granted.subslice["claim"], granted.secret
        self._memory_bytes = min(device["memory_limit_bytes"] for device in granted.subslice["devices"])
