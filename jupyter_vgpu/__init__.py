"""Enforced slices of NVIDIA GPUs for the users of a JupyterHub.

Importing the package loads nothing but its version: each process imports the
room it needs (`hub`, `server`, `magic`, `agent`, `cli`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_vgpu._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["__version__"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Where Jupyter Server finds the extension `jupyter_vgpu`."""
    points: list[dict[str, Any]] = import_module("jupyter_vgpu.server").extension_points()
    return points


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the prebuilt panel, relative to this package."""
    return [{"src": "labextension", "dest": "@jupyter-vgpu/labextension"}]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make `%vgpu` known to this shell: `%load_ext jupyter_vgpu`."""
    import_module("jupyter_vgpu.magic").load_ipython_extension(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Explain out-of-memory errors no more: `%unload_ext jupyter_vgpu`."""
    import_module("jupyter_vgpu.magic").unload_ipython_extension(shell)
