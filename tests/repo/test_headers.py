"""No function that allocates, frees, exports, launches or captures goes unnoticed: NVIDIA's header is walked."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "native" / "src"

# What a name has in it if the function gives or takes memory, submits work or changes what capturing means.
WORDS = re.compile(
    "Alloc|Create|Malloc|Import|Export|Map|Register|Retain|Open|Free|Destroy|Release|Unmap|Trim|Close|Unregister|Launch|"
    "Reserve|Load|SetLimit|Attach|Detach|AddMem|AddKernel|AddNode|Instantiate|Capture|Prefetch|Checkpoint|Multicast|Bind|"
    "Memcpy|Memset"
)


def api_name(symbol: str) -> str:
    """Return a symbol's name without version and per-thread-stream twin."""
    return re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", symbol)


def rows(kind: str, name: str) -> set[str]:
    """Return the first column of a table of the native sources."""
    return set(re.findall(rf"^{kind}\((\w+)", (SOURCES / name).read_text(), re.MULTILINE))


def symbols_in(header: str) -> set[str]:
    """Return every symbol that cuda.h names: declarations, and what its defines turn them into."""
    symbols = set(re.findall(r"\bCUDAAPI (cu\w+)\(", header))
    symbols |= set(re.findall(r"^\s*#\s*define cu\w+\s+(cu\w+)\s*$", header, re.MULTILINE))
    for twin, suffix in (("PTDS", "_ptds"), ("PTSZ", "_ptsz")):
        symbols |= {name + suffix for name in re.findall(rf"__CUDA_API_{twin}\((cu\w+)\)", header)}
    return symbols


# The oldest toolkit that is supported and the newest.
PACKAGES = ["nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime"]


@pytest.fixture(scope="module", params=PACKAGES)
def declared(request: pytest.FixtureRequest) -> set[str]:
    """Return every function that a cuda.h declares, old versions and twins included."""
    files = metadata.files(request.param) or []
    header = next((file for file in files if file.name == "cuda.h"), None)
    assert header is not None, f"cuda.h is missing: pip install {request.param} (it is in the test extra)"
    return symbols_in(Path(str(header.locate())).read_text())


def test_every_function_that_matters_is_handled_or_listed_with_a_reason(declared: set[str]) -> None:
    handled = {api_name(name) for name in rows("CU", "entrypoints.def")}
    listed = rows("HARMLESS", "unhandled.def")

    unnoticed = {api_name(name) for name in declared if WORDS.search(name)} - handled - listed

    assert not unnoticed, "neither in entrypoints.def nor in unhandled.def"


def test_every_version_and_twin_of_a_handled_function_is_handled(declared: set[str]) -> None:
    symbols = rows("CU", "entrypoints.def")
    handled = {api_name(name) for name in symbols}
    unversioned_is_newest = {name for name in declared if name not in symbols and f"{name}_v2" in symbols}

    missing = {name for name in declared if api_name(name) in handled} - symbols - unversioned_is_newest

    assert not missing


def test_nothing_is_both_handled_and_listed() -> None:
    handled = {api_name(name) for name in rows("CU", "entrypoints.def")}

    assert not handled & (rows("HARMLESS", "unhandled.def"))
