"""The hub's side: runs inside JupyterHub, with its rights.

One line in `jupyterhub_config.py` is enough::

    import jupyter_vgpu.hub; jupyter_vgpu.hub.setup(c)

JupyterHub imports this room in every hub where the package is installed, to list its spawners. Nothing may happen
then; what starts with a hub that uses it is in `startup`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_vgpu.hub import spawner as _spawner
from jupyter_vgpu.hub import startup as _startup
from jupyter_vgpu.hub.configuration import setup, with_vgpu
from jupyter_vgpu.hub.injectors import Injector, LocalInjector, NodeInjector
from jupyter_vgpu.hub.settings import VGPUHub

if TYPE_CHECKING:
    from jupyter_vgpu.hub.spawner import VGPULocalProcessSpawner, VGPUSimpleLocalProcessSpawner, VGPUSpawnerMixin

__all__ = [
    "Injector",
    "LocalInjector",
    "NodeInjector",
    "VGPUHub",
    "VGPULocalProcessSpawner",
    "VGPUSimpleLocalProcessSpawner",
    "VGPUSpawnerMixin",
    "setup",
    "with_vgpu",
]


def __getattr__(name: str) -> Any:
    """Hand out a spawner class, and take it as the sign that a hub is being configured to use it (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _startup.arrange(_spawner.VGPUSpawnerMixin)
    return getattr(_spawner, name)
