"""What the package promises about itself."""

from __future__ import annotations

import ast
import json
import sys
from importlib.metadata import entry_points, requires
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_oldest_dependencies_are_the_lower_bounds_of_the_package() -> None:
    stated = {}
    for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["hub"]:
        requirement = Requirement(text)
        (bound,) = [part.version for part in requirement.specifier if part.operator == ">="]
        stated[requirement.name.lower()] = bound

    pinned = {}
    for line in (ROOT / ".ci/oldest-dependencies/requirements.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pinned[name.lower()] = version

    assert pinned == stated


def test_every_import_of_the_package_is_a_stated_dependency() -> None:
    distribution_of = {"_cffi_backend": "cffi", "pynvml": "nvidia-ml-py", "IPython": "ipython", "yaml": "pyyaml"}
    stated = {Requirement(text).name.lower().replace("-", "_") for text in requires("jupyter-vgpu") or []}

    unstated = set()
    for path in (ROOT / "jupyter_vgpu").rglob("*.py"):
        for name in _imported_roots(path) - sys.stdlib_module_names - {"jupyter_vgpu"}:
            if distribution_of.get(name, name).lower().replace("-", "_") not in stated:
                unstated.add(f"{name} ({path.relative_to(ROOT)})")

    assert unstated == set()


def test_jupyterhub_finds_both_spawners_by_name() -> None:
    ours = {point.name: point.load() for point in entry_points(group="jupyterhub.spawners") if "vgpu" in point.name}

    assert {name: spawner.__name__ for name, spawner in ours.items()} == {
        "vgpu-local": "VGPULocalProcessSpawner",
        "vgpu-simple": "VGPUSimpleLocalProcessSpawner",
    }


def test_the_panel_and_the_package_have_one_version() -> None:
    from jupyter_vgpu import __version__

    panel = json.loads((ROOT / "labextension" / "package.json").read_text())["version"]

    assert panel == __version__


def test_the_changelog_knows_this_version() -> None:
    from jupyter_vgpu import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def _imported_roots(path: Path) -> set[str]:
    roots = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            roots.add(node.module.partition(".")[0])
    return roots
