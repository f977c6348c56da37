"""`%vgpu`: the slice that a notebook runs in, and what it uses of it.

`%load_ext jupyter_vgpu` makes it known to a shell, and explains errors of the GPU's memory from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make `%vgpu` and `%%vgpu` known to this shell, and explain out-of-memory errors in it."""
    from jupyter_vgpu.magic.explain import explain_result
    from jupyter_vgpu.magic.line import VGPUMagics

    shell.register_magics(VGPUMagics)
    # Loading twice, as with `enable-magic` and `%load_ext`, explains once.
    unload_ipython_extension(shell)
    shell.events.register("post_run_cell", explain_result)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Explain no more."""
    from jupyter_vgpu.magic.explain import explain_result

    if explain_result in shell.events.callbacks["post_run_cell"]:
        shell.events.unregister("post_run_cell", explain_result)
