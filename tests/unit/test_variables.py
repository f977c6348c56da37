"""Environment variables: a misspelt one is refused, since it would count as none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jupyter_vgpu
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.variables import VARIABLES, refuse_misspelt

PACKAGE = Path(jupyter_vgpu.__file__).parent
# What the tests, the demo and the build have, and JupyterHub's own that come nearest.
OF_OTHERS = ("JUPYTER_VGPU_TEST_RUN", "JUPYTER_VGPU_DEMO_DIR", "JUPYTER_VGPU_NO_PANEL", "JUPYTERHUB_API_TOKEN")


def test_all_variables_that_are_read_are_known() -> None:
    named = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"JUPYTER_VGPU_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8"))
    }

    assert named == set(VARIABLES)


@pytest.mark.parametrize("name", VARIABLES)
def test_a_slip_of_one_letter_is_refused_with_the_name_that_was_meant(name: str) -> None:
    swapped = name[:-2] + name[-1] + name[-2]

    for slip in (name[:-1], name + "S", swapped, name[:3] + name[4:], name.lower(), name.replace("R_V", "RV")):
        with pytest.raises(BadValueError, match=f"environment: '{slip}' is not allowed; {name} is"):
            refuse_misspelt({"HOME": "/", name: "y", slip: "x"})


def test_what_is_spelt_right_and_what_others_have_is_let_pass() -> None:
    refuse_misspelt(dict.fromkeys((*VARIABLES, *OF_OTHERS, "HOME", "jupyter"), "x"))
