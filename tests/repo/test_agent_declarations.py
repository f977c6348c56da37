"""What cffi is given ready to load is what the header of the agent's native part declares."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import cffi
import pytest

from jupyter_vgpu import _agent_api, pages
from jupyter_vgpu.native import AGENT_LIBRARY

HEADER = Path(__file__).parents[2] / "native" / "agent" / "agent_api.h"


@pytest.fixture(scope="module")
def read_anew() -> Any:
    interface = cffi.FFI()
    interface.cdef(HEADER.read_text())
    return interface


def name_of(kind: Any) -> str:
    """Return a type's name; a structure's is its own or its typedef's, as cffi likes."""
    return re.sub(r"struct (jvgpu_\w+)_s", r"\1_t", kind.cname)


def shape_of(interface: Any, name: str) -> list[tuple[str, str, int]]:
    fields = interface.typeof(name).fields or []
    return [(field, name_of(kind.type), kind.offset) for field, kind in fields]


def test_it_was_made_from_the_header_that_there_is() -> None:
    digest = hashlib.sha256(HEADER.read_bytes()).hexdigest()

    assert digest == _agent_api.MADE_FROM, f"{HEADER} was changed: `python tools/agent_declarations.py`"


def test_every_function_and_structure_is_as_the_header_has_it(read_anew: Any) -> None:
    functions = re.findall(r"^\w[^;()]*?(jvgpu_\w+)\(", HEADER.read_text(), re.MULTILINE)
    ready, anew = (each.dlopen(str(AGENT_LIBRARY)) for each in (_agent_api.ffi, read_anew))
    assert len(functions) > 20

    for name in functions:
        has = name_of(_agent_api.ffi.typeof(getattr(ready, name)))
        assert has == name_of(read_anew.typeof(getattr(anew, name))), name
    assert _agent_api.ffi.list_types() == read_anew.list_types()
    # cffi ends the process that asks a structure without fields for them.
    for name in filter(lambda name: shape_of(read_anew, name), read_anew.list_types()[0]):
        assert shape_of(_agent_api.ffi, name) == shape_of(read_anew, name), name


def test_another_header_is_read_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches structures read as an older build had them."""
    (tmp_path / "agent_api.h").write_text(HEADER.read_text() + "typedef struct { uint64_t fresh; } jvgpu_fresh_t;\n")
    assert pages._interface() is _agent_api.ffi
    monkeypatch.setattr(pages, "AGENT_DECLARATIONS", tmp_path / "agent_api.h")

    assert shape_of(pages._interface(), "jvgpu_fresh_t") == [("fresh", "uint64_t", 0)]
