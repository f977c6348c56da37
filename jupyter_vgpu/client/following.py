"""Ask about a tenant's own slice again and again from an event loop: nothing blocks, one connection serves for all.

What `UserClient` does on a thread and with a connection for each question, at a fraction of its cost.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, cast

from jupyter_vgpu.client.answers import EventInfo, SliceInfo, UsageInfo
from jupyter_vgpu.client.clients import TIMEOUT_SECONDS, UserClient
from jupyter_vgpu.errors import AgentUnreachableError, NotAuthorizedError, error_from_reason

_LONGEST_ANSWER_BYTES = 16 << 20


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
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

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

    async def usage(self) -> UsageInfo:
        """Return what the slice uses now.

        Raises:
            VGPUError: As `UserClient.usage`.
        """
        return cast(UsageInfo, await self._ask("/v1/usage"))

    async def events(self) -> list[EventInfo]:
        """Return what the agent noticed about the slice lately, oldest first.

        Raises:
            VGPUError: As `UserClient.events`.
        """
        return cast("list[EventInfo]", (await self._ask("/v1/events"))["events"])

    def close(self) -> None:
        """Hang up; the next question opens a connection anew."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, url: str) -> Any:
        """Return the decoded answer.

        Raises:
            VGPUError: The one that the agent's answer stands for.
            AgentUnreachableError: No answer in time, or one that is no answer of an agent.
            NotAuthorizedError: This user may not open the socket.
        """
        is_kept = self._streams is not None
        try:
            try:
                status, content = await self._exchange(url)
            except (ConnectionError, asyncio.IncompleteReadError):
                # A connection that was kept may have been closed meanwhile, as by an agent that was restarted.
                self.close()
                if not is_kept:
                    raise
                status, content = await self._exchange(url)
            decoded = json.loads(content)
        except asyncio.TimeoutError as error:
            self.close()
            raise AgentUnreachableError(
                f"the node agent at {self._api} has not answered within {self._timeout_seconds:.1f} s: see its log, or "
                "restart it"
            ) from error
        except PermissionError as error:
            raise NotAuthorizedError(
                f"this user may not open {self._api}: the agent's admin decides who may"
            ) from error
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            self.close()
            raise AgentUnreachableError(
                f"no node agent answers at {self._api} ({error}): start it with `jupyter vgpu agent`"
            ) from error
        except BaseException:
            # Half an answer must not be taken for the next one.
            self.close()
            raise
        if status >= 400:
            known = decoded if isinstance(decoded, dict) else {}
            raise error_from_reason(str(known.get("error")), str(known.get("message") or f"status {status}"))
        return decoded

    async def _exchange(self, url: str) -> tuple[int, bytes]:
        """Return status and body of the answer to `GET url`.

        Raises:
            asyncio.TimeoutError: It did not come in time.
            ValueError: It is no HTTP/1.1 answer of known length. source: RFC 9112, sections 4 and 6.2
        """
        if self._streams is None:
            connecting = asyncio.open_unix_connection(self._api)
            self._streams = await asyncio.wait_for(connecting, self._timeout_seconds)
        reader, writer = self._streams
        # A timer costs a tenth of `wait_for`, which makes a task of each question.
        late = asyncio.TimeoutError()
        timer = asyncio.get_running_loop().call_later(self._timeout_seconds, reader.set_exception, late)
        try:
            return await self._answer(url, reader, writer)
        finally:
            timer.cancel()

    async def _answer(self, url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes]:
        writer.write(f"GET {url} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._secret}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        version, _, rest = head[0].partition(" ")
        if version != "HTTP/1.1":
            raise ValueError("no answer in HTTP/1.1")
        status, length = int(rest[:3]), int(fields.get("content-length", "-1"))
        if not 0 <= length <= _LONGEST_ANSWER_BYTES:
            raise ValueError(f"an answer of {length} bytes")
        content = await reader.readexactly(length)
        if fields.get("connection") == "close":
            self.close()
        return status, content
