"""`jupyter vgpu enable-magic`: `%vgpu` in every IPython shell and Jupyter kernel of this user, without `%load_ext`."""

from __future__ import annotations

import argparse
from pathlib import Path

from jupyter_vgpu.errors import BadValueError

FILE_NAME = "50-jupyter-vgpu.py"
# An environment without jupyter-vgpu that shares the profile starts as if this were not there.
_STARTUP = """\
# Written by `jupyter vgpu enable-magic`; `jupyter vgpu enable-magic --undo` removes it.
try:
    get_ipython().extension_manager.load_extension("jupyter_vgpu")
except ModuleNotFoundError:
    pass
"""


def enable_magic(options: argparse.Namespace) -> int:
    """Write the start-up file, or remove it with `--undo`; return 0.

    Raises:
        BadValueError: There is no such profile, or the file there is somebody else's.
    """
    path = _profile(options.profile) / "startup" / FILE_NAME
    if path.exists() and path.read_text(encoding="utf-8", errors="replace") != _STARTUP:
        raise BadValueError("file", str(path), "it holds something else than this command writes: look at it first")
    if options.undo:
        path.unlink(missing_ok=True)
        print(f"%vgpu needs %load_ext jupyter_vgpu again ({path} is gone)")
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_STARTUP, encoding="utf-8")
    print(f"%vgpu is there in every new Jupyter kernel of this user, by {path}")
    return 0


def _profile(name: str) -> Path:
    """Return the folder of an IPython profile; IPython itself makes only the default one by itself."""
    from IPython.paths import get_ipython_dir

    folder = Path(get_ipython_dir())
    profile = folder / f"profile_{name}"
    if name != "default" and (Path(name).name != name or not profile.is_dir()):
        known = sorted(path.name.removeprefix("profile_") for path in folder.glob("profile_*")) or ["default"]
        raise BadValueError("--profile", name, f"profiles in {folder} are: {', '.join(known)}")
    return profile
