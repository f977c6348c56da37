"""Ask about a tenant's own slice again and again from an event loop: nothing blocks, one connection serves for all.

What `UserClient` does on a thread and with a connection for each question, at a fraction of its cost.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import Any, cast

from jupyter_vgpu.client.answers import EventInfo, SliceInfo, UsageInfo
from jupyter_vgpu.client.asking import reason
from jupyter_vgpu.client.clients import TIMEOUT_SECONDS, UserClient
from jupyter_vgpu.errors import AgentUnreachableError, NotAuthorizedError, error_from_reason

_LONGEST_ANSWER_BYTES = 16 << 20
_LONGEST_HEAD_BYTES = 64 << 10
_HEAD_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3})\b")
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,18}) *\r\n", re.IGNORECASE)
_MARK = re.compile(rb'\r\netag: *"([0-9A-Za-z]{1,128})" *\r\n', re.IGNORECASE)
_LAST = re.compile(rb"\r\nconnection: *close *\r\n", re.IGNORECASE)


class _Connection(asyncio.Protocol):
    """A connection on which one question at a time is answered, by as few turns of the event loop as there can be.

    Attributes:
        is_open: Whether another question may be asked on it.
        mark: Of the last answer, by which the agent knows what it said; empty where it gave none.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.mark = ""
        self._collected = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # nobody asked
            return
        self._collected += data
        try:
            answer = self._whole_answer()
        except ValueError as error:
            self._answer.set_exception(error)
            return
        if answer is not None:
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("it hung up"))

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Return what will be status and body of the answer to `request`, or a `ConnectionError` or `ValueError`."""
        self._collected.clear()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Hang up."""
        self.is_open = False
        self._transport.abort()

    def _whole_answer(self) -> tuple[int, bytes] | None:
        """Return status and body, or `None` while something of them is missing.

        Raises:
            ValueError: It is no HTTP/1.1 answer of known length. source: RFC 9112, sections 4 and 6.2
        """
        end = self._collected.find(_HEAD_END, 0, _LONGEST_HEAD_BYTES)
        if end < 0:
            if len(self._collected) >= _LONGEST_HEAD_BYTES:
                raise ValueError("an answer without an end")
            return None
        status, length = _STATUS.match(self._collected), _LENGTH.search(self._collected, 0, end + 2)
        if status is None or length is None:
            raise ValueError("no answer in HTTP/1.1 of known length")
        size = int(length[1])
        if size > _LONGEST_ANSWER_BYTES:
            raise ValueError(f"an answer of {size} bytes")
        begin = end + len(_HEAD_END)
        if len(self._collected) < begin + size:
            return None
        mark = _MARK.search(self._collected, 0, end + 2)
        self.mark = mark[1].decode() if mark else ""
        if _LAST.search(self._collected, 0, end + 2):
            self.close()
        return int(status[1]), bytes(self._collected[begin : begin + size])


class SliceFollower:
    """A tenant's own view of its slice, over `user.sock`; lives in one event loop, asks one thing at a time."""

    def __init__(self, api: str | os.PathLike[str], secret: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Say where the agent is and which claim is asked about; nothing is opened yet.

        Args:
            api: Path of the agent's `user.sock`.
            secret: The claim's secret, 64 hex digits.
            timeout_seconds: Time limit of each question.
        """
        self._api = os.fspath(api)
        self._secret = secret
        self._timeout_seconds = timeout_seconds
        self._connection: _Connection | None = None
        self._usage_mark = ""

    @classmethod
    def from_environment(cls) -> SliceFollower:
        """Return a follower of the slice that this process runs in.

        Raises:
            UnknownClaimError: This process runs in no slice.
        """
        client = UserClient.from_environment()
        return cls(client.api, client.secret)

    async def slice(self) -> SliceInfo:
        """Return what the slice is and how it is enforced.

        Raises:
            VGPUError: As `UserClient.slice`.
        """
        return cast(SliceInfo, await self._ask("/v1/slice"))

    async def usage(self, wait_seconds: float = 0.0) -> UsageInfo:
        """Return what the slice uses now.

        Args:
            wait_seconds: How long the agent may wait, unless that is another than what it answered last but for the
                time. An agent of an older version does not wait.

        Raises:
            VGPUError: As `UserClient.usage`.
        """
        if wait_seconds > 0 and self._usage_mark:
            url = f"/v1/usage?unlike={self._usage_mark}&wait_seconds={wait_seconds:g}"
            usage = cast(UsageInfo, await self._ask(url, wait_seconds))
        else:
            usage = cast(UsageInfo, await self._ask("/v1/usage"))
        self._usage_mark = self._connection.mark if self._connection is not None else ""
        return usage

    async def events(self) -> list[EventInfo]:
        """Return what the agent noticed about the slice lately, oldest first.

        Raises:
            VGPUError: As `UserClient.events`.
        """
        return cast("list[EventInfo]", (await self._ask("/v1/events"))["events"])

    def close(self) -> None:
        """Hang up; the next question opens a connection anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _ask(self, url: str, wait_seconds: float = 0.0) -> Any:
        """Return the decoded answer, which may take `wait_seconds` longer than the time limit.

        Raises:
            VGPUError: The one that the agent's answer stands for.
            AgentUnreachableError: No answer in time, or one that is no answer of an agent.
            NotAuthorizedError: This user may not open the socket.
        """
        try:
            try:
                status, content = await self._exchange(url, wait_seconds)
            except ConnectionError:
                # One that was kept may have been closed meanwhile, as by an agent that was restarted, and one that was
                # just opened by an agent that goes: the question changes nothing, and is asked once more.
                status, content = await self._exchange(url, wait_seconds)
            decoded = json.loads(content.decode())
        except asyncio.TimeoutError as error:
            self.close()
            raise AgentUnreachableError(
                f"the node agent at {self._api} has not answered within {self._timeout_seconds + wait_seconds:.1f} s: "
                "see its log, or restart it"
            ) from error
        except PermissionError as error:
            raise NotAuthorizedError(
                f"this user may not open {self._api}: the agent's admin decides who may"
            ) from error
        except (OSError, ValueError) as error:
            self.close()
            raise AgentUnreachableError(
                f"no node agent answers at {self._api} ({reason(error)}): start it with `jupyter vgpu agent`"
            ) from error
        except BaseException:
            # Half an answer must not be taken for the next one.
            self.close()
            raise
        if status >= 400:
            known = decoded if isinstance(decoded, dict) else {}
            raise error_from_reason(str(known.get("error")), str(known.get("message") or f"status {status}"))
        return decoded

    async def _exchange(self, url: str, wait_seconds: float) -> tuple[int, bytes]:
        """Return status and body of the answer to `GET url`.

        Raises:
            asyncio.TimeoutError: It did not come in time.
            ConnectionError: It was hung up before it had come.
            ValueError: It is no answer as `_Connection` reads them.
        """
        loop = asyncio.get_running_loop()
        connection = self._connection
        if connection is None or not connection.is_open:
            connecting = loop.create_unix_connection(_Connection, self._api)
            connection = self._connection = (await asyncio.wait_for(connecting, self._timeout_seconds))[1]
        request = f"GET {url} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._secret}\r\n\r\n"
        answer = connection.ask(request.encode())
        # A timer costs a tenth of `wait_for`, which makes a task of each question.
        timer = loop.call_later(self._timeout_seconds + wait_seconds, _give_up, answer)
        try:
            return await answer
        finally:
            timer.cancel()


def _give_up(answer: asyncio.Future[tuple[int, bytes]]) -> None:
    if not answer.done():
        answer.set_exception(asyncio.TimeoutError())
