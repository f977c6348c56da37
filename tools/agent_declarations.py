"""Write `jupyter_vgpu/_agent_api.py`: what cffi makes of `native/agent/agent_api.h`, ready to load.

Run it after a change of that header. Until then the header itself is read, which takes each agent 20 ms.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import cffi

ROOT = Path(__file__).parents[1]
HEADER = ROOT / "native" / "agent" / "agent_api.h"
MODULE = ROOT / "jupyter_vgpu" / "_agent_api.py"
HEAD = '''"""Made by tools/agent_declarations.py from native/agent/agent_api.h."""

MADE_FROM = "{digest}"  # SHA-256 of the header
'''


def module_of(header: Path) -> str:
    """Return the module's text for a header of plain C declarations."""
    declarations = header.read_bytes()
    interface = cffi.FFI()
    interface.cdef(declarations.decode())
    interface.set_source("jupyter_vgpu._agent_api", None)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.py"
        interface.emit_python_code(str(made))
        text = made.read_text()
    return HEAD.format(digest=hashlib.sha256(declarations).hexdigest()) + text.partition("\n")[2]


if __name__ == "__main__":
    MODULE.write_text(module_of(HEADER))
