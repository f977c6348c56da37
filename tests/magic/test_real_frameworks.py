"""The out-of-memory errors of real frameworks, raised by themselves, are recognised: those of JAX and CuPy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]

JAX = """
import jax.numpy
def fail(): jax.numpy.zeros((1 << 45,), dtype="uint8").block_until_ready()
"""
CUPY = """
from cupy.cuda.memory import OutOfMemoryError
def fail(): raise OutOfMemoryError(1 << 30, 512)
"""
CUPY_POOL_LIMIT = """
from cupy.cuda.memory import OutOfMemoryError
def fail(): raise OutOfMemoryError(1 << 30, 512, 1 << 20)
"""
CUPY_RUNTIME = """
from cupy_backends.cuda.api.runtime import CUDARuntimeError
def fail(): raise CUDARuntimeError(2)
"""
CUPY_OTHER = """
from cupy_backends.cuda.api.runtime import CUDARuntimeError
def fail(): raise CUDARuntimeError(700)
"""
JAX_OTHER = """
import jax.numpy
def fail(): jax.numpy.zeros((2,)) @ jax.numpy.zeros((3,))
"""
RECOGNISE = """
import json
from jupyter_vgpu.magic.oom import recognise
try:
    fail()
except Exception as error:
    found = recognise(error)
    print(json.dumps(found and vars(found)))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with both frameworks."""
    venv = tmp_path_factory.mktemp("frameworks")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "-q", "jax", "cupy-cuda12x"], check=True)
    return venv / "bin" / "python"


@pytest.mark.parametrize(
    ("failing", "recognised"),
    [
        (JAX, {"framework": "jax", "asked_bytes": 1 << 45}),
        (CUPY, {"framework": "cupy", "asked_bytes": 1 << 30}),
        (CUPY_POOL_LIMIT, {"framework": "cupy", "asked_bytes": 1 << 30}),
        (CUPY_RUNTIME, {"framework": "cupy", "asked_bytes": None}),
        (CUPY_OTHER, None),
        (JAX_OTHER, None),
    ],
    ids=["jax", "cupy's pool", "cupy's pool with a limit", "cupy's runtime", "another error of cupy", "another of jax"],
)
def test_what_a_framework_raises_is_recognised(python: Path, failing: str, recognised: object) -> None:
    done = subprocess.run(
        [python, "-c", failing + RECOGNISE], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == recognised
