"""The hub's side: runs inside JupyterHub, with its rights.

One line in `jupyterhub_config.py` is enough::

    import jupyter_vgpu.hub; jupyter_vgpu.hub.setup(c)
"""

from jupyter_vgpu.hub.configuration import setup, with_vgpu
from jupyter_vgpu.hub.injectors import Injector, LocalInjector
from jupyter_vgpu.hub.settings import VGPUHub
from jupyter_vgpu.hub.spawner import VGPULocalProcessSpawner, VGPUSimpleLocalProcessSpawner, VGPUSpawnerMixin

__all__ = [
    "Injector",
    "LocalInjector",
    "VGPUHub",
    "VGPULocalProcessSpawner",
    "VGPUSimpleLocalProcessSpawner",
    "VGPUSpawnerMixin",
    "setup",
    "with_vgpu",
]
