"""What there is to see where there is no slice, no agent, no GPU: explanations, never failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Server = Any


def test_a_server_without_a_slice_says_how_to_get_one(server_without_slice: Server) -> None:
    answer = server_without_slice.get("jupyter-vgpu/slice")

    assert answer["state"] == "no-slice"
    assert answer["slice"] is None
    assert "Choose a GPU profile" in answer["message"]


def test_usage_without_a_slice_is_an_answer_too(server_without_slice: Server) -> None:
    answer = server_without_slice.get("jupyter-vgpu/usage")

    assert (answer["state"], answer["usage"]) == ("no-slice", None)


def test_an_agent_that_is_not_there_is_named(start_server: Callable[..., Server], tmp_path: Path) -> None:
    socket_path = tmp_path / "user.sock"
    server = start_server({"JUPYTER_VGPU_API": str(socket_path), "JUPYTER_VGPU_SECRET": "0" * 64})

    answer = server.get("jupyter-vgpu/usage")

    assert answer["state"] == "agent-unreachable"
    assert str(socket_path) in answer["message"]


def test_the_state_keeps_the_time_at_which_it_began(server_without_slice: Server) -> None:
    first = server_without_slice.get("jupyter-vgpu/slice")
    second = server_without_slice.get("jupyter-vgpu/usage")

    assert first["since_at"] == second["since_at"] > 0


def test_loading_the_extension_takes_no_gpu_library(server_without_slice: Server) -> None:
    mapped = Path(f"/proc/{server_without_slice.process.pid}/maps").read_text()

    assert "libcuda" not in mapped
    assert "libnvidia-ml" not in mapped
    assert "libjupyter_vgpu" not in mapped


@pytest.mark.parametrize("path", ["slice", "usage", "live"])
def test_only_reading_is_possible(server_without_slice: Server, path: str) -> None:
    with server_without_slice.client() as client:
        statuses = {method: client.request(method, f"jupyter-vgpu/{path}").status_code for method in ("POST", "DELETE")}

    assert statuses == {"POST": 405, "DELETE": 405}
