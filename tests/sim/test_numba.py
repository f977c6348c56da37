"""numba-cuda with NVIDIA's compiler, which needs no GPU: what it compiles is loaded, linked and launched."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PACKAGES = ("numba-cuda[cu13]==0.30.4", "cuda-core==1.2.2", "filecheck==1.0.6", "psutil", "pytest")

# Of numba's own tests those that compile and launch, and look at no result: what it compiles only takes time here.
HOLDING = (
    *("cudadrv.test_inline_ptx", "cudadrv.test_nvjitlink", "cudapy.test_compiler", "cudapy.test_freevar"),
    *(
        "cudapy.test_iterators",
        "cudapy.test_launch_config_sensitive",
        "cudapy.test_lineinfo",
        "cudapy.test_optimization",
    ),
    *("cudapy.test_serialize", "cudapy.test_slicing", "cudapy.test_sm_creation", "cudapy.test_stream_api"),
    *("cudapy.test_tracing", "cudapy.test_warning"),
    # With `debug=True` numba reads a device variable behind each launch.
    *(f"cudapy.test_debuginfo.TestCudaDebugInfo.test_{name}" for name in ("linecache_source", "missing_source")),
)


@pytest.fixture(scope="module")
def numba_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with numba-cuda and its compiler."""
    venv = tmp_path_factory.mktemp("numba")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return venv / "bin" / "python"


def test_numba_s_own_tests_of_what_it_compiles_hold(
    numba_python: Path, make_node: Callable[[str], Any], tmp_path: Path
) -> None:
    done = subprocess.run(
        [numba_python, "-m", "unittest", *(f"numba.cuda.tests.{name}" for name in HOLDING)],
        env=make_node("h200").environment(HOME=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-8000:]
    (count,) = re.findall(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    assert int(count) >= 100
