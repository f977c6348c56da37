"""Whether the panel that a browser is given is the one that the sources make: an older one makes tests lie."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "labextension"
BUILT = ROOT / "jupyter_vgpu" / "labextension"
INSTALLED = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "@jupyter-vgpu" / "labextension"
BUILD = "`make labextension` builds it"
INSTALL = f"`{Path(sys.prefix) / 'bin' / 'jupyter-builder'} develop --overwrite {ROOT}` makes it the built one for good"


def what_is_stale(sources: Path = SOURCES, built: Path = BUILT, installed: Path = INSTALLED) -> str:
    """Return what keeps a browser from the panel of the sources, and which command helps; empty when nothing does.

    Args:
        sources: What the panel is made from.
        built: What the build made of it.
        installed: Where JupyterLab finds it: a copy of what was built when it was installed, or a link to that.
    """
    made = built / "package.json"
    if not made.is_file():
        return f"the panel is not built; {BUILD}"
    made_at = made.stat().st_mtime
    # As the Makefile has it, but for the panel's own tests, which no browser loads.
    newer = [
        path.relative_to(sources)
        for folder in ("src", "style", "schema")
        for path in sorted((sources / folder).rglob("*"))
        if path.is_file() and "__tests__" not in path.parts and path.stat().st_mtime > made_at
    ]
    if newer:
        return f"the panel is older than its source {newer[0]}; {BUILD}"
    for path in sorted(path for path in built.rglob("*") if path.is_file()):
        name = path.relative_to(built)
        there = installed / name
        if not there.is_file() or there.read_bytes() != path.read_bytes():
            return f"the panel in {installed} is not the one that was built: {name} differs; {INSTALL}"
    return ""
