"""`%vgpu`: the slice that a notebook runs in, and what it uses of it.

`%load_ext jupyter_vgpu` makes it known to a shell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make `%vgpu` known to this shell."""
    from jupyter_vgpu.magic.line import VGPUMagics

    shell.register_magics(VGPUMagics)
