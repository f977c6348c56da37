"""The admin's page says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from traitlets.config import Config

from jupyter_vgpu.config import PROFILE_KEYS
from jupyter_vgpu.hub import VGPUHub

PAGE = (Path(__file__).parents[2] / "docs" / "hub.md").read_text(encoding="utf-8")


def rows_of_the_table_headed(head: str) -> list[str]:
    table = PAGE.split(f"| {head} |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


def test_every_profile_key_is_in_the_table_and_no_other() -> None:
    assert sorted(rows_of_the_table_headed("key")) == sorted(PROFILE_KEYS)


def test_every_setting_is_in_the_table_and_no_other() -> None:
    assert sorted(rows_of_the_table_headed("`c.VGPUHub.…`")) == sorted(VGPUHub.class_trait_names(config=True))


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_every_example_is_a_configuration_that_is_accepted(example: str) -> None:
    c = Config()

    exec(example, {"c": c})

    assert VGPUHub.read(c).offered
