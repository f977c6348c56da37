"""How long the server may go on: what it knows itself, what the hub says, and what `keep` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_vgpu.client import GrantedClaim
from jupyter_vgpu.server.session import idle_limit, parse_answer

Server = Any
OpenStream = Callable[..., Any]


@pytest.fixture(scope="module")
def idle_server(quarter: GrantedClaim, start_server: Callable[..., Server]) -> Server:
    """Return a server in a slice that somebody stops after two hours of nothing."""
    return start_server({**quarter.edits.applied_to({}), "JUPYTER_VGPU_IDLE_SECONDS": "7200"})


def test_the_idle_time_left_shrinks_while_somebody_looks_and_keep_gives_it_back(
    idle_server: Server, open_stream: OpenStream
) -> None:
    stream = open_stream(idle_server)
    idle_server.get("api/contents")  # work
    left = [stream.next()["session"]["idle_left_seconds"] for _ in range(2)]
    while left[-1] >= left[-2] and len(left) < 20:
        left.append(stream.next()["session"]["idle_left_seconds"])
    assert left[-1] < left[-2] <= 7200, "looking counts as work"

    with idle_server.client() as client:
        kept = client.post("jupyter-vgpu/keep").raise_for_status().json()

    assert kept["session"]["idle_left_seconds"] > left[-1]
    assert idle_server.get("jupyter-vgpu/usage")["state"] == "ok"


def test_keep_is_activity_and_the_rest_is_not(idle_server: Server) -> None:
    before = idle_server.get("api/status")["last_activity"]
    idle_server.get("jupyter-vgpu/usage")
    assert idle_server.get("api/status")["last_activity"] == before

    with idle_server.client() as client:
        client.post("jupyter-vgpu/keep").raise_for_status()

    assert idle_server.get("api/status")["last_activity"] > before


def test_a_server_that_ends_itself_says_when(
    quarter: GrantedClaim, start_server: Callable[..., Server], open_stream: OpenStream
) -> None:
    config = "c.ServerApp.shutdown_no_activity_timeout = 3600"
    server = start_server(quarter.edits.applied_to({}), config=config)

    session = open_stream(server).next()["session"]

    assert 0 < session["idle_left_seconds"] <= 3600


def test_where_nobody_stops_it_there_is_nothing_to_say(server: Server, open_stream: OpenStream) -> None:
    assert open_stream(server).next()["session"] == {}


@pytest.mark.parametrize(
    ("said", "hub", "seconds"),
    [
        ("600", {}, 600.0),
        ("600", {"idle_seconds": 300.0}, 300.0),
        ("600", {"idle_seconds": 0.0}, None),
        ("", {}, None),
        ("0", {}, None),
        ("-5", {}, None),
        ("nan", {}, None),
        ("ten minutes", {}, None),
    ],
)
def test_who_says_how_long_idle_may_last(said: str, hub: Any, seconds: float | None) -> None:
    assert idle_limit({"JUPYTER_VGPU_IDLE_SECONDS": said}, hub) == seconds


def test_of_the_hubs_answer_only_sound_figures_count() -> None:
    content = (
        b'{"ends_at": 5, "gpu_hours_left": -1, "gpu_hours_limit": "7", "idle_seconds": true, "other": 1, "x": NaN}'
    )

    assert parse_answer(content) == {"ends_at": 5.0}
    with pytest.raises(ValueError, match="an object"):
        parse_answer(b"[]")
