"""Jupyter kernels that get a part of the slice, started by `jupyter_client` as any Jupyter server does."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from jupyter_vgpu.client import GrantedClaim, SliceInfo
from jupyter_vgpu.errors import BadValueError, NoCapacityError, UnknownClaimError
from jupyter_vgpu.provisioner.wish import Wish, parse_wish

Node = Any
StartKernel = Callable[..., KernelManager]
GIB = 1 << 30

SEES = """
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
print(driver.cuDeviceTotalMem(driver.cuDeviceGet(0)[1])[1], driver.cuMemAlloc(5 << 30)[0].name)
"""


@pytest.fixture
def start_kernel(quarter: GrantedClaim, tmp_path: Path) -> Iterator[StartKernel]:
    """Return a function that starts a Jupyter kernel of a kernel spec with this provisioner's settings."""
    started: list[KernelManager] = []

    def start(in_slice: bool = True, environment: dict[str, str] | None = None, **config: object) -> KernelManager:
        folder = tmp_path / "kernels" / "part"
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Python in a part of the slice",
            "language": "python",
            "env": environment or {},
            "metadata": {"kernel_provisioner": {"provisioner_name": "vgpu", "config": config}},
        }
        (folder / "kernel.json").write_text(json.dumps(spec))
        manager = KernelManager(
            kernel_name="part",
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(folder.parent)]),
            connection_file=str(tmp_path / f"connection-{len(started)}.json"),
        )
        plain = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER_VGPU_A")}
        manager.start_kernel(env=quarter.edits.applied_to(plain) if in_slice else plain)
        started.append(manager)
        return manager

    yield start
    for manager in started:
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def wait_until_ready(client: BlockingKernelClient) -> None:
    """Return when the Jupyter kernel answers; clients take one that is slow to answer for dead, and may be wrong."""
    deadline = time.monotonic() + 240
    while True:
        try:
            return client.wait_for_ready(30)
        except RuntimeError:
            assert time.monotonic() < deadline


def printed(manager: KernelManager, source: str) -> str:
    """Return what a cell prints."""
    client = BlockingKernelClient(connection_file=manager.connection_file)
    client.load_connection_file()
    client.start_channels()
    try:
        wait_until_ready(client)
        texts: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            texts.append(message["content"].get("text", "") or "\n".join(message["content"].get("traceback", [])))

        client.execute_interactive(source, timeout=240, output_hook=hear)
        return "".join(texts)
    finally:
        client.stop_channels()


def test_a_notebook_gets_the_part_its_kernel_spec_names(
    node: Node, quarter: GrantedClaim, start_kernel: StartKernel
) -> None:
    manager = start_kernel(memory="4GiB")

    assert printed(manager, SEES) == f"{4 * GIB} CUDA_ERROR_OUT_OF_MEMORY\n"
    [part] = node.user(quarter).subslices()
    assert part["devices"][0]["memory_limit_bytes"] == 4 * GIB
    [process] = node.user(quarter).usage()["processes"]
    assert process["pid"] == manager.provisioner.pid  # type: ignore[union-attr]


def test_the_part_outlives_a_restart_and_ends_with_the_jupyter_kernel(
    node: Node, quarter: GrantedClaim, start_kernel: StartKernel
) -> None:
    manager = start_kernel(memory="4GiB")
    before = node.user(quarter).subslices()

    manager.restart_kernel(now=True)

    assert printed(manager, SEES).startswith(f"{4 * GIB} ")
    assert node.user(quarter).subslices() == before

    manager.shutdown_kernel(now=True)

    assert node.user(quarter).subslices() == []


def test_the_environment_of_the_kernel_spec_may_say_it_too(
    node: Node, quarter: GrantedClaim, start_kernel: StartKernel
) -> None:
    start_kernel(environment={"JUPYTER_VGPU_KERNEL_MEMORY": "1/2", "JUPYTER_VGPU_KERNEL_SHARE": "1/4"})

    [part] = node.user(quarter).subslices()
    whole = quarter.claim["devices"][0]
    assert part["devices"][0]["memory_limit_bytes"] == pytest.approx(whole["memory_bytes"] / 2, abs=1 << 20)
    assert part["devices"][0]["share"] == pytest.approx(0.25 / 4)


def test_without_a_wish_a_jupyter_kernel_runs_in_the_whole_slice(
    node: Node, quarter: GrantedClaim, start_kernel: StartKernel
) -> None:
    manager = start_kernel()

    assert printed(manager, SEES) == f"{quarter.claim['devices'][0]['memory_bytes']} CUDA_SUCCESS\n"
    assert node.user(quarter).subslices() == []


@pytest.mark.parametrize(
    ("config", "environment", "error", "said"),
    [
        ({"memory": "2GB i"}, {}, BadValueError, "2GB i"),
        ({"memory": "40GiB"}, {}, NoCapacityError, "the largest part that would fit now is 19"),
        ({"memroy": "2GiB"}, {}, BadValueError, "memroy: '2GiB' is not allowed; only the keys memory and share are"),
        ({"memory": 2}, {}, BadValueError, 'memory: 2 is not allowed; a text is, as "2GiB" or "1/4"'),
        ({}, {"JUPYTER_VGPU_KERNEL_MEMROY": "2GiB"}, BadValueError, "JUPYTER_VGPU_KERNEL_MEMORY is, if that was meant"),
    ],
    ids=["no amount", "too much", "a key misspelt", "a number", "a variable misspelt"],
)
def test_what_cannot_be_had_fails_the_start_and_leaves_nothing(
    node: Node,
    quarter: GrantedClaim,
    start_kernel: StartKernel,
    config: dict[str, Any],
    environment: dict[str, str],
    error: type[Exception],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        start_kernel(environment=environment, **config)

    assert node.user(quarter).subslices() == []


def test_without_a_slice_the_start_fails_and_says_how_to_get_one(start_kernel: StartKernel) -> None:
    with pytest.raises(UnknownClaimError, match="jupyter vgpu run"):
        start_kernel(in_slice=False, memory="4GiB")


def whole() -> SliceInfo:
    return {"devices": [{"memory_limit_bytes": 20 * GIB, "share": 0.5}]}  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("memory", "share", "environment", "wish"),
    [
        ("2GiB", "", {}, Wish(2 * GIB, None)),
        ("25%", "", {}, Wish(5 * GIB, None)),
        ("1/4", "1/2", {}, Wish(5 * GIB, 0.25)),
        ("", "", {"JUPYTER_VGPU_KERNEL_MEMORY": "512MiB"}, Wish(GIB // 2, None)),
        ("1GiB", "", {"JUPYTER_VGPU_KERNEL_MEMORY": "512MiB"}, Wish(GIB, None)),
        ("", "", {}, None),
    ],
)
def test_a_wish_is_an_amount_or_a_part_of_the_slice(
    memory: str, share: str, environment: dict[str, str], wish: Wish | None
) -> None:
    assert parse_wish(memory, share, environment, whole()) == wish


@pytest.mark.parametrize(("memory", "share"), [("2", ""), ("2/1", ""), ("0", ""), ("1GiB", "2"), ("", "1/2")])
def test_a_typo_is_never_the_whole_slice(memory: str, share: str) -> None:
    with pytest.raises(BadValueError):
        parse_wish(memory, share, {}, whole())
