"""How edits reach a server's processes, one injector per platform.

Backends make edits, injectors apply them (DESIGN.md 6): neither knows the other.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any, Protocol

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Edits


class Injector(Protocol):
    """What a platform must be able to do.

    One that has a method `place(spawner, node)` besides can have servers started on any node: it is called before the
    server starts, with the name of the node in `VGPUHub.agents` that has the slice. Others start them on the hub's own.
    """

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
        """Return the host user; see `Injector.uid`.

        Raises:
            BadValueError: There is no system user of that name.
        """
        if self._as_hub_user:
            return os.getuid()
        try:
            return pwd.getpwnam(spawner.user.name).pw_uid
        except KeyError:
            raise BadValueError(
                "user", spawner.user.name, "the name of a user of this system is (getent passwd lists them)"
            ) from None

    def environment(self, edits: Edits, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment with the edits; see `Injector.environment`.

        Raises:
            BadValueError: The loader could not find the library by the path that it has.
        """
        for path in edits.preload:
            # The loader would split the path, find neither half and start the server without any limit.
            if " " in path or ":" in path:
                raise BadValueError("LD_PRELOAD", path, "a path without space and colon is: install jupyter-vgpu there")
        return edits.applied_to(environment)


class NodeInjector(LocalInjector):
    """Servers that a spawner starts on a node of ours to choose, where an agent of that node and the library are.

    What the environment names are paths on that node, as its own agent gives them.
    """

    def __init__(self, place: Callable[[Any, str], None], uid: Callable[[Any], int] | None = None) -> None:
        """Say how a spawner is told.

        Args:
            place: Has a spawner start its server on a node, by the node's name in `VGPUHub.agents`.
            uid: Says which user of that node its processes will run as; `None` = the one that a system user of the
                Hub user's name has here, as where all nodes have the same users.
        """
        super().__init__()
        self.place = place
        self._uid = uid

    def uid(self, spawner: Any) -> int:
        """Return the user of the server's node; see `Injector.uid`."""
        return super().uid(spawner) if self._uid is None else self._uid(spawner)


def injector_for(spawner_class: type) -> Injector | None:
    """Return the injector for a spawner's platform; `None` when there is none for it."""
    if issubclass(spawner_class, SimpleLocalProcessSpawner):
        return LocalInjector(as_hub_user=True)
    if issubclass(spawner_class, LocalProcessSpawner):
        return LocalInjector()
    return None
