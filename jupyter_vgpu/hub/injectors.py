"""How edits reach a server's processes, one injector per platform.

Backends make edits, injectors apply them (DESIGN.md 6): neither knows the other.
"""

from __future__ import annotations

import os
import pwd
from typing import Any, Protocol

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Edits


class Injector(Protocol):
    """What a platform must be able to do."""

    def uid(self, spawner: Any) -> int:
        """Return the host user that the server's processes will run as.

        Raises:
            VGPUError: There is none.
        """

    def environment(self, edits: Edits, environment: dict[str, str]) -> dict[str, str]:
        """Return `environment` with the edits applied.

        Raises:
            VGPUError: They cannot be applied; a server without them would have no limit.
        """


class LocalInjector:
    """Servers that are processes of this node: everything they need is there, only the environment changes."""

    def __init__(self, as_hub_user: bool = False) -> None:
        """Say whose processes they are.

        Args:
            as_hub_user: They run as the hub's own user; otherwise as the system user of the same name.
        """
        self._as_hub_user = as_hub_user

    def uid(self, spawner: Any) -> int:
        """Return the host user; see `Injector.uid`."""
        if self._as_hub_user:
            return os.getuid()
        try:
            return pwd.getpwnam(spawner.user.name).pw_uid
        except KeyError:
            raise BadValueError(
                "user", spawner.user.name, "the name of a user of this system is (getent passwd lists them)"
            ) from None

    def environment(self, edits: Edits, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment with the edits; see `Injector.environment`."""
        for path in edits.preload:
            # The loader would split the path, find neither half and start the server without any limit.
            if " " in path or ":" in path:
                raise BadValueError("LD_PRELOAD", path, "a path without space and colon is: install jupyter-vgpu there")
        return edits.applied_to(environment)


def injector_for(spawner_class: type) -> Injector | None:
    """Return the injector for a spawner's platform; `None` when there is none for it."""
    if issubclass(spawner_class, SimpleLocalProcessSpawner):
        return LocalInjector(as_hub_user=True)
    if issubclass(spawner_class, LocalProcessSpawner):
        return LocalInjector()
    return None
