"""Read settings from a YAML file, more strictly than YAML is: what is written twice would silently count once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from jupyter_vgpu.errors import BadValueError

KEYS = ("profiles", "group_overrides", "quotas", "isolated")


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a node.

        Raises:
            yaml.YAMLError: A key stands there twice.
        """
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def load_yaml(path: Path) -> Mapping[str, Any]:
    """Return what a settings file holds, its keys checked.

    Raises:
        BadValueError: It cannot be read, is not YAML, or has another key than `KEYS`.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())
        raise BadValueError("VGPUHub.profiles_file", str(path), f"a readable YAML file is ({text})") from error
    if not isinstance(content, dict):
        raise BadValueError("VGPUHub.profiles_file", str(path), f"a mapping with some of {', '.join(KEYS)} is")
    for key in content:
        if key not in KEYS:
            raise BadValueError(f"{path}: {key}", content[key], f"only the keys {', '.join(KEYS)} are")
    return content
