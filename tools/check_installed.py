"""Check an installed jupyter_vgpu: run by the Python it is installed for, outside the checkout.

Prints one line per part that is missing and ends with status 1 if there is any.
"""

from __future__ import annotations

import ctypes
import json
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path


def missing_parts() -> list[str]:
    """Return a sentence per part that did not come along or does not load."""
    package = Path(import_module("jupyter_vgpu").__file__ or "").parent
    share = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "@jupyter-vgpu" / "labextension"
    config = Path(sys.prefix) / "etc" / "jupyter" / "jupyter_server_config.d" / "jupyter_vgpu.json"
    wanted = [
        package / "lib" / "libjupyter_vgpu.so",
        package / "lib" / "libjupyter_vgpu_agent.so",
        package / "lib" / "agent_api.h",
        package / "lib" / "sim" / "libcuda.so.1",
        package / "lib" / "sim" / "libnvidia-ml.so.1",
        package / "boards" / "a100-80.json",
        share / "package.json",
        config,
    ]
    faults = [f"{path} is missing" for path in wanted if not path.is_file()]
    if faults:
        return faults

    if (package.parent / "pyproject.toml").exists():
        faults.append(f"{package} is a checkout, not an installation")
    for name in ("libjupyter_vgpu.so", "libjupyter_vgpu_agent.so"):
        try:
            ctypes.CDLL(str(package / "lib" / name))
        except OSError as error:
            faults.append(f"{name} does not load: {error}")
    entry = json.loads((share / "package.json").read_text())["jupyterlab"]["_build"]["load"]
    if not (share / entry).is_file():
        faults.append(f"the panel names {entry}, which is missing")
    for module in ("jupyter_vgpu.cli", "jupyter_vgpu.server", "jupyter_vgpu.magic", "jupyter_vgpu.agent"):
        import_module(module)
    if not [entry for entry in entry_points(group="jupyterhub.spawners") if entry.name == "vgpu-local"]:
        faults.append("JupyterHub would not find the spawner vgpu-local")
    return faults


if __name__ == "__main__":
    found = missing_parts()
    print("\n".join(found) if found else f"all parts are there, in {sys.prefix}")
    sys.exit(1 if found else 0)
