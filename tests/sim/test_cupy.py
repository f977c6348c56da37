"""CuPy as it comes from PyPI, as far as it goes without NVIDIA's runtime; the compiler it calls needs no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PACKAGES = ("cupy-cuda13x==14.2.0", "nvidia-cuda-nvrtc==13.5.37", "cuda-bindings==13.5.0")

# CuPy's driver module neither allocates nor copies: cuda-bindings does, in the context that CuPy made.
PRELUDE = """
import ctypes, json
import numpy
from cuda.bindings import driver as cuda
from cupy.cuda import driver, nvrtc

SOURCE = '''
extern "C" __device__ float table[%d];
extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { c[i] = a[i] + b[i] + table[0]; }
}
'''

def ok(result, *values):
    assert result == cuda.CUresult.CUDA_SUCCESS, result
    return values[0] if len(values) == 1 else values

def compiled(target, table=16):
    program = nvrtc.createProgram(SOURCE % table, "added.cu", (), ())
    nvrtc.compileProgram(program, ("--gpu-architecture=" + target,))
    return nvrtc.getPTX(program) if target.startswith("compute") else nvrtc.getCUBIN(program)

def failure(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__} {error}".partition(":")[0]

ok(*cuda.cuInit(0))
context = driver.ctxCreate(0)
"""


@pytest.fixture(scope="module")
def cupy_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with CuPy."""
    venv = tmp_path_factory.mktemp("cupy")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return venv / "bin" / "python"


@pytest.fixture
def cupy(cupy_python: Path, make_node: Any, tmp_path: Path) -> Any:
    """Run a script on an H200 and return what it said."""
    node = make_node("h200")

    def run(script: str) -> Any:
        done = subprocess.run(
            [cupy_python, "-c", script],
            env=node.environment(HOME=str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("target", ["sm_90", "compute_90"])
@pytest.mark.parametrize("launched", ["launchKernel", "launchCooperativeKernel"])
def test_what_it_compiles_is_loaded_and_launched(cupy: Any, target: str, launched: str) -> None:
    said = cupy(
        PRELUDE
        + f"""
module = driver.moduleLoadData(compiled("{target}"))
function = driver.moduleGetFunction(module, "vector_add")
values, result = numpy.arange(1000, dtype=numpy.float32), numpy.zeros(1000, dtype=numpy.float32)
a, b, c = (ok(*cuda.cuMemAlloc(4000)) for _ in range(3))
ok(*cuda.cuMemcpyHtoD(a, values.ctypes.data, 4000))
ok(*cuda.cuMemcpyHtoD(b, values.ctypes.data, 4000))
arguments = [ctypes.c_uint64(int(place)) for place in (a, b, c)] + [ctypes.c_int(1000)]
places = (ctypes.c_void_p * 4)(*map(ctypes.addressof, arguments))
more = (0,) if "{launched}" == "launchKernel" else ()
driver.{launched}(function, 8, 1, 1, 128, 1, 1, 0, 0, ctypes.addressof(places), *more)
ok(*cuda.cuMemcpyDtoH(result.ctypes.data, c, 4000))
driver.moduleUnload(module)
driver.ctxDestroy(context)
print(json.dumps([bool((result == 2 * values).all()), failure(driver.moduleUnload, module)]))
"""
    )

    assert said == [True, "CUDADriverError CUDA_ERROR_INVALID_HANDLE"]


def test_its_linker_and_its_modules_hold_the_same_array(cupy: Any, tmp_path: Path) -> None:
    said = cupy(
        PRELUDE
        + f"""
text, path = compiled("compute_90"), "{tmp_path}/added.ptx"
with open(path, "wb") as file:
    file.write(text)
linked = []
for add in (lambda state: driver.linkAddData(state, driver.CU_JIT_INPUT_PTX, text, "added"),
            lambda state: driver.linkAddFile(state, driver.CU_JIT_INPUT_PTX, path)):
    state = driver.linkCreate()
    add(state)
    linked.append(driver.moduleLoadData(driver.linkComplete(state)))
    driver.linkDestroy(state)
sizes = []
for module in (driver.moduleLoadData(text), driver.moduleLoadData(compiled("sm_90")), driver.moduleLoad(path), *linked):
    place = driver.moduleGetGlobal(module, "table")
    sizes.append(ok(*cuda.cuMemGetAddressRange(place))[1] >= 64 and ok(*cuda.cuModuleGetGlobal(module, b"table"))[1])
print(json.dumps([sizes, failure(driver.moduleGetGlobal, module, "no_table"), failure(driver.moduleLoad, "/no/file")]))
"""
    )

    assert said == [
        [64] * 5,
        "CUDADriverError CUDA_ERROR_NOT_FOUND",
        "CUDADriverError CUDA_ERROR_FILE_NOT_FOUND",
    ]


def test_it_is_told_what_a_function_and_the_board_allow(cupy: Any) -> None:
    said = cupy(
        PRELUDE
        + """
function = driver.moduleGetFunction(driver.moduleLoadData(compiled("sm_90")), "vector_add")
most = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
driver.funcSetAttribute(function, most, 200 << 10)
stream = ok(*cuda.cuStreamCreate(1))
other = driver.ctxCreate(0)
print(json.dumps([
    driver.funcGetAttribute(most, function), failure(driver.funcSetAttribute, function, most, 1 << 20),
    driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function),
    driver.occupancyMaxActiveBlocksPerMultiprocessor(function, 256, 0),
    driver.occupancyMaxPotentialBlockSize(function, 0, 0),
    driver.ctxGetDevice(), driver.ctxGetCurrent() == other, driver.streamGetCtx(int(stream)) == context,
    driver.ctxSetCurrent(context), driver.ctxGetCurrent() == context,
    bool(ok(*cuda.cuDevicePrimaryCtxRetain(0))), driver.devicePrimaryCtxRelease(0),
    failure(driver.devicePrimaryCtxRelease, 0),
]))
"""
    )

    assert said == [
        *(200 << 10, "CUDADriverError CUDA_ERROR_INVALID_VALUE", 1024, 8, [264, 1024]),
        *(0, True, True, None, True),
        *(True, None, "CUDADriverError CUDA_ERROR_INVALID_CONTEXT"),
    ]


def test_every_function_of_its_driver_module_is_called_above(cupy: Any) -> None:
    names = cupy(
        PRELUDE
        + """
print(json.dumps([name for name in dir(driver) if name[0].islower() and callable(getattr(driver, name))]))
"""
    )

    above = Path(__file__).read_text().partition("def test_every_function")[0]
    ours = {"check_status", "get_build_version"}  # call nothing of the driver
    assert len(names) >= 25
    assert [name for name in names if name not in ours and name not in above] == []


def test_what_needs_the_runtime_says_that_it_is_not_supported(cupy: Any) -> None:
    said = cupy("""
import json, cupy
cuda = cupy.cuda
says = {}
for name, call in {
    "count": cuda.runtime.getDeviceCount, "properties": lambda: cuda.runtime.getDeviceProperties(0),
    "memory": cuda.runtime.memGetInfo, "current device": cuda.Device, "limit": lambda: cuda.runtime.deviceGetLimit(0),
    "synchronise": lambda: cuda.Device(0).synchronize(), "event": cuda.Event,
    "pinned": lambda: cuda.alloc_pinned_memory(10), "pool": lambda: cuda.MemoryPool().malloc(10),
    "asynchronous pool": cuda.MemoryAsyncPool, "managed": lambda: cuda.malloc_managed(10),
    "array": lambda: cupy.asarray([1.0]), "empty": lambda: cupy.empty(3), "random": lambda: cupy.random.rand(3),
    "capture": lambda: cuda.get_current_stream().begin_capture(), "function": lambda: cuda.function.Module().load(b""),
    "module": lambda: cupy.RawModule(code="").get_function("f"),
}.items():
    try:
        says[name] = f"no error: {call()}"
    except Exception as error:
        says[name] = f"{type(error).__name__} {error}"
print(json.dumps([cuda.is_available(), says]))
""")

    is_available, says = said
    assert is_available is False
    assert len(says) == 17
    assert set(says.values()) == {"CUDARuntimeError cudaErrorNotSupported: operation not supported"}


def test_a_slice_s_limit_is_an_error_of_cupy_s_that_is_recognised(cupy_python: Path) -> None:
    """What a module takes is known half a second later; who has passed the limit by then gets no more."""
    script = (
        PRELUDE
        + """
import time
from jupyter_vgpu.magic.oom import recognise
total = ok(*cuda.cuMemGetInfo())[1]
driver.moduleLoadData(compiled("compute_90", 9 << 30))
until = time.monotonic() + 60
while ok(*cuda.cuMemGetInfo())[0] > 0 and time.monotonic() < until:
    time.sleep(0.01)
try:
    driver.moduleLoadData(compiled("compute_90"))
except driver.CUDADriverError as error:
    print(json.dumps([total, str(error), recognise(error).framework]))
"""
    )

    done = subprocess.run(
        [
            *(sys.executable, "-m", "jupyter_vgpu.cli", "run", "--simulate", "h200", "--memory", "32GiB", "--"),
            *("env", f"PYTHONPATH={Path(__file__).parents[2]}", str(cupy_python), "-c", script),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == [32 << 30, "CUDA_ERROR_OUT_OF_MEMORY: out of memory", "cupy"]
