"""A notebook's part of the slice, chosen from outside while its Jupyter kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psutil
import pytest

from jupyter_vgpu.client import GrantedClaim, UserClient

Server = Any
GIB = 1 << 30


@pytest.fixture(scope="module")
def own_server(quarter: GrantedClaim, start_server: Callable[..., Server]) -> Server:
    """Return a server in the slice, without anything between it and the agent."""
    return start_server(quarter.edits.applied_to({}))


@pytest.fixture
def kernel_id(own_server: Server) -> Iterator[str]:
    """Return the id of a Jupyter kernel that runs for `part.ipynb`."""
    with own_server.client() as client:
        body = {"path": "part.ipynb", "type": "notebook", "name": "part.ipynb", "kernel": {"name": "python3"}}
        kernel_id = client.post("api/sessions", json=body).raise_for_status().json()["kernel"]["id"]
        yield kernel_id
        client.delete(f"api/kernels/{kernel_id}").raise_for_status()


def choose(server: Server, kernel_id: Any, memory: Any) -> httpx.Response:
    with server.client() as client:
        client.timeout = httpx.Timeout(120)
        return client.post("jupyter-vgpu/part", json={"kernel_id": kernel_id, "memory": memory})


def seen_part(server: Server, kernel_id: str) -> Any:
    notebooks = server.get("jupyter-vgpu/usage")["notebooks"]
    return next(notebook["part"] for notebook in notebooks if notebook["kernel_id"] == kernel_id)


def test_a_notebook_gets_a_part_another_and_the_whole_again(
    own_server: Server, quarter: GrantedClaim, kernel_id: str
) -> None:
    user = UserClient.from_environment(quarter.edits.env)
    assert seen_part(own_server, kernel_id) == {"memory": "", "share": "", "claim": "", "memory_limit_bytes": 0}

    given = choose(own_server, kernel_id, "2GiB").raise_for_status().json()["part"]

    assert (given["memory"], given["memory_limit_bytes"]) == ("2GiB", 2 * GIB)
    [part] = user.subslices()
    assert (part["claim"], part["name"]) == (given["claim"], "part.ipynb")
    assert seen_part(own_server, kernel_id) == given

    half = choose(own_server, kernel_id, "1/2").raise_for_status().json()["part"]

    whole_bytes = quarter.claim["devices"][0]["memory_bytes"]
    assert half["memory_limit_bytes"] == pytest.approx(whole_bytes / 2, abs=1 << 20)
    assert [part["claim"] for part in user.subslices()] == [half["claim"]]

    choose(own_server, kernel_id, "").raise_for_status()

    assert user.subslices() == []
    assert seen_part(own_server, kernel_id)["memory"] == ""


def test_what_does_not_fit_leaves_the_notebook_with_what_it_had(
    own_server: Server, quarter: GrantedClaim, kernel_id: str
) -> None:
    user = UserClient.from_environment(quarter.edits.env)
    choose(own_server, kernel_id, "2GiB").raise_for_status()

    refused = choose(own_server, kernel_id, "40GiB")

    assert (refused.status_code, refused.json()["error"]) == (409, "no-capacity")
    assert "the largest part that would fit" in refused.json()["message"]
    assert seen_part(own_server, kernel_id)["memory"] == "2GiB"
    assert [part["devices"][0]["memory_limit_bytes"] for part in user.subslices()] == [2 * GIB]
    with own_server.client() as client:
        assert client.get(f"api/kernels/{kernel_id}").json()["execution_state"] != "dead"
    choose(own_server, kernel_id, "").raise_for_status()


def process_of(kernel_id: str) -> tuple[int, float]:
    """Return the process of a Jupyter kernel, by its connection file's name: another one after a restart."""
    (found,) = [
        (process.pid, process.create_time())
        for process in psutil.process_iter(["cmdline"])
        if any(kernel_id in word for word in process.info["cmdline"] or ())
    ]
    return found


@pytest.mark.parametrize("memory", ["2", "2GB i", "5/4", "0", 2, None])
def test_a_typo_restarts_nothing(own_server: Server, kernel_id: str, memory: Any) -> None:
    before = process_of(kernel_id)

    refused = choose(own_server, kernel_id, memory)

    assert refused.status_code == 400
    assert "is not allowed" in refused.json()["message"]
    assert process_of(kernel_id) == before
    assert seen_part(own_server, kernel_id)["memory"] == ""


def test_a_jupyter_kernel_that_is_not_there_is_named(own_server: Server) -> None:
    refused = choose(own_server, "no-such-kernel", "2GiB")

    assert refused.status_code == 400
    assert "no-such-kernel" in refused.json()["message"]


def test_without_a_slice_jupyter_kernels_are_started_as_ever(server_without_slice: Server) -> None:
    with server_without_slice.client() as client:
        kernel_id = client.post("api/kernels", json={}).raise_for_status().json()["id"]
        refused = choose(server_without_slice, kernel_id, "2GiB")
        client.delete(f"api/kernels/{kernel_id}").raise_for_status()

    assert refused.status_code == 400
    assert "provisioner" in refused.json()["message"]
