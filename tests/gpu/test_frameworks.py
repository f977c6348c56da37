"""PyTorch, CuPy and JAX in a slice of 16 GiB of a real GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

RunInSlice = Callable[..., list[str]]

LIMIT_BYTES = 16 << 30

TORCH = """
import subprocess, torch
say = lambda *words: print(*words, flush=True)

def refused(gib):
    try:
        return torch.empty(gib << 30, dtype=torch.uint8, device="cuda") is None
    except torch.cuda.OutOfMemoryError:
        return True

def train(steps):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x = torch.randn(256, 512, device="cuda"); y = x[:, :1] * 2
    losses = []
    for _ in range(steps):
        optimizer.zero_grad(); loss = (model(x) - y).pow(2).mean(); loss.backward(); optimizer.step()
        losses.append(loss.item())
    return losses[-1] < losses[0]
"""

OVER_THE_LIMIT = (
    TORCH
    + """
say(torch.cuda.mem_get_info()[1])
kept = torch.empty(10 << 30, dtype=torch.uint8, device="cuda")
say(refused(7))
say(train(20))
del kept; torch.cuda.empty_cache()
kept = torch.empty(14 << 30, dtype=torch.uint8, device="cuda")
say(kept.numel() >> 30)
"""
)


@pytest.mark.parametrize("allocator", ["", "expandable_segments:True", "backend:cudaMallocAsync"])
def test_torch_is_refused_past_the_limit_and_trains_on(in_slice: RunInSlice, allocator: str) -> None:
    """Catches a bug where an asynchronous allocation past the limit was an unknown error (CASES 15)."""
    said = in_slice(OVER_THE_LIMIT, PYTORCH_CUDA_ALLOC_CONF=allocator)

    assert said == [str(LIMIT_BYTES), "True", "True", "14"]


def test_torch_and_nvidia_smi_report_the_slice(in_slice: RunInSlice) -> None:
    said = in_slice(
        TORCH
        + """
x = torch.ones(4 << 30, dtype=torch.uint8, device="cuda"); torch.cuda.synchronize()
say(torch.cuda.mem_get_info()[1], torch.cuda.get_device_properties(0).total_memory)
query = ["nvidia-smi", "--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"]
total, used = map(int, subprocess.check_output(query, text=True).split(","))
say(total, 4096 <= used < 16384)
say("16384MiB" in subprocess.check_output(["nvidia-smi"], text=True))
"""
    )

    assert said == [f"{LIMIT_BYTES} {LIMIT_BYTES}", "16384 True", "True"]


def test_a_cuda_graph_captures_and_replays(in_slice: RunInSlice) -> None:
    said = in_slice(
        TORCH
        + """
x = torch.zeros(1000, device="cuda"); graph = torch.cuda.CUDAGraph(); side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3): x.add_(1)
torch.cuda.current_stream().wait_stream(side)
for mode in ("global", "thread_local", "relaxed"):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        y = x * 2; x.add_(1)
    before = x[0].item()
    for _ in range(1000): graph.replay()
    torch.cuda.synchronize(); say(x[0].item() - before)
"""
    )

    assert said == ["1000.0"] * 3


def test_convolution_and_compiled_code_work(in_slice: RunInSlice) -> None:
    """Catches a bug where cuDNN crashed unless the library lay at one path (CASES 21)."""
    said = in_slice(
        TORCH
        + """
x = torch.randn(4, 3, 64, 64, device="cuda"); conv = torch.nn.Conv2d(3, 8, 3).cuda()
say(tuple(conv(x).shape))
f = torch.compile(lambda v: (v.sin() + v.cos()).sum())
say(abs(f(x).item() - (x.sin() + x.cos()).sum().item()) < 1.0)
"""
    )

    assert said == ["(4, 8, 62, 62)", "True"]


@pytest.mark.parametrize("pool", ["default", "async"])
def test_cupy_is_refused_past_the_limit_and_goes_on(in_slice: RunInSlice, pool: str) -> None:
    said = in_slice(
        """
import sys, cupy
say = lambda *words: print(*words, flush=True)
"""
        + ("cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)\n" if pool == "async" else "")
        + """
say(cupy.cuda.runtime.memGetInfo()[1])
kept = cupy.zeros(10 << 30, dtype=cupy.uint8)
try:
    cupy.zeros(7 << 30, dtype=cupy.uint8); say("given")
except (cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError) as error:
    say("emory" in str(error))
say(int(cupy.arange(1000).sum()))
del kept; cupy.get_default_memory_pool().free_all_blocks(); cupy.cuda.Device().synchronize()
say(cupy.zeros(14 << 30, dtype=cupy.uint8).size >> 30)
"""
    )

    assert said == [str(LIMIT_BYTES), "True", "499500", "14"]


def test_jax_is_refused_past_the_limit_and_trains_on(in_slice: RunInSlice) -> None:
    said = in_slice(
        """
import jax, jax.numpy as jnp
say = lambda *words: print(*words, flush=True)
say(jax.devices()[0].memory_stats()["bytes_limit"] <= 16 << 30)
kept = jnp.zeros(10 << 30, dtype=jnp.uint8).block_until_ready()
try:
    jnp.zeros(7 << 30, dtype=jnp.uint8).block_until_ready(); say("given")
except Exception as error:
    say("RESOURCE_EXHAUSTED" in str(error))
x = jax.random.normal(jax.random.key(0), (256, 64)); y = x[:, :1] * 2
step = jax.jit(lambda w: w - 0.1 * jax.grad(lambda v: ((x @ v - y) ** 2).mean())(w))
loss = lambda w: float(((x @ w - y) ** 2).mean())
w = jnp.zeros((64, 1)); first = loss(w)
for _ in range(50): w = step(w)
say(loss(w) < first)
""",
        XLA_PYTHON_CLIENT_PREALLOCATE="false",
    )

    assert said == ["True", "True", "True"]


def test_jax_that_takes_its_part_at_start_takes_it_of_the_slice(in_slice: RunInSlice) -> None:
    said = in_slice(
        """
import jax, jax.numpy as jnp
print(jnp.arange(1000).sum(), jax.devices()[0].memory_stats()["bytes_limit"] <= 16 << 30)
"""
    )

    assert said == ["499500 True"]


def test_bindings_get_nine_gib_of_ten_and_are_refused_two_more(in_slice: RunInSlice) -> None:
    said = in_slice(
        """
from cuda.bindings import driver as cu
cu.cuInit(0); context = cu.cuDevicePrimaryCtxRetain(0)[1]; cu.cuCtxSetCurrent(context)
print(int(cu.cuMemAlloc(9 << 30)[0]), int(cu.cuMemAlloc(2 << 30)[0]), int(cu.cuMemAlloc(1 << 20)[0]))
print(cu.cuMemGetInfo()[2])
""",
        memory="10GiB",
    )

    assert said == ["0 2 0", str(10 << 30)]


def test_workers_of_a_data_loader_by_fork_and_by_spawn(in_slice: RunInSlice) -> None:
    said = in_slice(
        TORCH
        + """
import torch.utils.data as data
x = torch.ones(10, device="cuda")
for method in ("fork", "spawn"):
    loader = data.DataLoader(data.TensorDataset(torch.arange(64.)), batch_size=8, num_workers=2,
                             multiprocessing_context=method)
    say(sum(batch[0].cuda().sum().item() for batch in loader))
"""
    )

    assert said == ["2016.0", "2016.0"]
