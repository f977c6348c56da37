"""Whatever stands behind the agent's socket, a question ends, and ends with the right name for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jupyter_vgpu.client import SliceFollower, UsageInfo
from jupyter_vgpu.errors import AgentUnreachableError, NotAuthorizedError, UnknownClaimError, VGPUError

OK = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"claim": "c"}'


def refusal(status: int, reason: str) -> bytes:
    body = b'{"error": "%b", "message": "No."}' % reason.encode()
    return b"HTTP/1.1 %d Status\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


async def asked(folder: Path, *answers: bytes, keeps_open: bool = True) -> tuple[list[UsageInfo | VGPUError], int]:
    """Ask once for each of `answers`, which a server gives in turn; return what came, and how many connections."""
    left, connections = list(answers), 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while left:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(left.pop(0))
                await writer.drain()
                if not keeps_open:
                    break
            else:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, folder / "s")
    follower = SliceFollower(folder / "s", "0" * 64, timeout_seconds=1.0)
    came: list[UsageInfo | VGPUError] = []
    for _ in answers:
        try:
            came.append(await follower.usage())
        except VGPUError as error:
            came.append(error)
    follower.close()
    server.close()
    await server.wait_closed()
    return came, connections


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(403, "not-authorized"), NotAuthorizedError),
        (refusal(404, "unknown-claim"), UnknownClaimError),
        (b"garbage\r\n\r\n", AgentUnreachableError),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", AgentUnreachableError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", AgentUnreachableError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", AgentUnreachableError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[,", AgentUnreachableError),
        (b"x" * 100_000, AgentUnreachableError),
        (OK[:-3], AgentUnreachableError),
        (b"", AgentUnreachableError),
    ],
    ids=["refused", "unknown", "no HTTP", "no length", "too long", "negative", "no JSON", "no end", "half", "nothing"],
)
def test_an_answer_that_is_none_has_a_name(tmp_path: Path, answer: bytes, error: type[VGPUError]) -> None:
    [came], _ = asyncio.run(asked(tmp_path, answer))

    assert type(came) is error


def test_answers_come_over_one_connection(tmp_path: Path) -> None:
    came, connections = asyncio.run(asked(tmp_path, OK, refusal(404, "unknown-claim"), OK))

    assert [came[0], came[2]] == [{"claim": "c"}] * 2
    assert connections == 1


def test_half_an_answer_is_not_taken_for_the_next(tmp_path: Path) -> None:
    came, connections = asyncio.run(asked(tmp_path, OK[:-3], OK))

    assert isinstance(came[0], AgentUnreachableError)
    assert came[1] == {"claim": "c"}
    assert connections == 2


def test_a_connection_closed_after_each_answer_is_opened_anew(tmp_path: Path) -> None:
    came, connections = asyncio.run(asked(tmp_path, OK, OK, OK, keeps_open=False))

    assert came == [{"claim": "c"}] * 3
    assert connections == 3


def test_nobody_behind_the_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(AgentUnreachableError, match="no node agent answers"):
        asyncio.run(SliceFollower(tmp_path / "s", "0" * 64).usage())
