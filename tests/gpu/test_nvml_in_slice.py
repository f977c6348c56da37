"""NVML and CUDA_VISIBLE_DEVICES in a slice of a real GPU: what the driver itself says, with the slice's figures."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

# {0} is the first device's UUID. On a machine with one device a slice has all of it, so that inside and outside agree.
FORMS = [
    *("0", "1", "0,1", "1,0", "", " ", ",", "0,", ",0", "0,,1", " 0 , 1 ", "0 1", "0;1", "0,0", "0,0,0"),
    *("0,7,0", "7,0", "-1", "0,-1", "00", "01", "+0", "0.0", "0x0", "0e0", "99999999999", "4294967296", "a"),
    *("0a", "0a,1", "none", "all", "{0}", "{0},{0}", "{0},0", "0,{0}", "{0:.8}", "{0:.4}", "GPU-", "GPU"),
    *("{0}0", "{0},GPU-0", "MIG-{0}/1/0"),
]

SEEN = """
import os, pynvml
from cuda.bindings import driver as cu
pynvml.nvmlInit()
uuid = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0))
uuid = uuid.decode() if isinstance(uuid, bytes) else uuid
seen = {}
for form in %r:
    value = form.format(uuid)
    read, write = os.pipe()
    if os.fork() == 0:
        os.environ["CUDA_VISIBLE_DEVICES"] = value
        answer = cu.cuInit(0)[0]
        count = cu.cuDeviceGetCount()[1] if int(answer) == 0 else 0
        os.write(write, f"{int(answer)} {count}".encode())
        os._exit(0)
    os.wait()
    seen[form] = os.read(read, 100).decode()
print(seen)
"""


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs nvidia-smi")
def test_every_form_of_the_variable_means_in_a_slice_what_it_means_to_the_driver(
    in_slice: Callable[..., list[str]],
) -> None:
    """CASES 11, with the real driver as the judge; one device only."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    if listed.count("GPU ") != 1:
        pytest.skip("inside and outside agree only where the slice has all of the machine's devices")
    outside = subprocess.run(
        [sys.executable, "-c", SEEN % FORMS], env=os.environ, capture_output=True, text=True, check=True
    ).stdout

    inside = in_slice(SEEN % FORMS)

    said, expected = ast.literal_eval(inside[-1]), ast.literal_eval(outside.splitlines()[-1])
    assert {form: (said[form], expected[form]) for form in FORMS if said[form] != expected[form]} == {}


def test_utilisation_processes_and_settings_are_the_slices(in_slice: Callable[..., list[str]]) -> None:
    said = in_slice("""
        import os, pynvml as nvml, torch
        x = torch.ones(8192, 8192, device="cuda")
        for _ in range(200): x @ x
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        print(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        torch.cuda.synchronize()
        print([row.pid == os.getpid() for row in nvml.nvmlDeviceGetComputeRunningProcesses(handle)])
        try:
            nvml.nvmlDeviceSetPersistenceMode(handle, 1)
        except nvml.NVMLError as error:
            print(type(error).__name__)
    """)

    assert 0 <= int(said[0]) <= 100
    assert said[1:] == ["[True]", "NVMLError_NoPermission"]


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs nvidia-smi")
def test_nvidia_smi_shows_the_slices_memory(in_slice: Callable[..., list[str]]) -> None:
    said = in_slice("""
        import subprocess
        print(subprocess.run(["nvidia-smi"], capture_output=True, text=True).stdout)
    """)

    assert re.search(r"/ +16384MiB", "\n".join(said))
