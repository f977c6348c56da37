"""The endpoints under `jupyter-vgpu/`.

Answers to GET are objects with `state`, `message`, `since_at` and what was
asked for; `state` says which of the two to show (see `figures.Figures`).
"""

from __future__ import annotations

import asyncio
import json
import time

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web
from tornado.iostream import StreamClosedError

from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.server.live import FiguresReader, Reading
from jupyter_vgpu.server.parts import restart_in_part

READER = "jupyter_vgpu_reader"

# A stream that has had nothing new to tell for so long says so at the next look, which an agent that does not answer
# keeps from coming for some seconds: proxies on the way, and the panel (`SILENCE_MS` in `silence.ts`), take one that
# says nothing for a minute for dead.
_SIGN_OF_LIFE_SECONDS = 15.0


class VGPUHandler(APIHandler):
    """What the endpoints have in common."""

    auth_resource = "jupyter-vgpu"

    # Looking at figures is not work: it never keeps a server from being culled.
    _track_activity = False

    @property
    def reader(self) -> FiguresReader:
        """The one reader of this server."""
        reader: FiguresReader = self.settings[READER]
        return reader


class SliceHandler(VGPUHandler):
    """`GET jupyter-vgpu/slice`: what the user was given, and how it is enforced."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with `slice`, which is null unless the state is `ok`."""
        reading = await self.reader.latest()
        self.finish(json.dumps(reading.head() | {"slice": reading.figures.slice_info}))


class UsageHandler(VGPUHandler):
    """`GET jupyter-vgpu/usage`: what the user's processes use of it."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with `usage`, which is null unless the state is `ok`, and how it is split among `notebooks`."""
        reading = await self.reader.latest()
        figures = reading.figures
        self.finish(json.dumps(reading.head() | {"usage": figures.usage, "notebooks": figures.notebooks}))


class HistoryHandler(VGPUHandler):
    """`GET jupyter-vgpu/history`: what was used within the last hour, as far as somebody looked."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with `history`, a list with one item per device."""
        reading = await self.reader.latest()
        self.finish(_with_history(json.dumps(reading.head()).encode(), self.reader))


class LiveHandler(VGPUHandler):
    """`GET jupyter-vgpu/live`: slice and usage as server-sent events; the first has the history too.

    One a second while the figures change, one every few seconds while only the time does. While there are no figures,
    one when that changes.
    """

    _over: asyncio.Future[None] | None = None
    _flushed: asyncio.Future[None] | None = None
    _told = b""
    _told_at = float("-inf")

    def on_connection_close(self) -> None:
        """End, since nobody listens any more."""
        self.end()

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Send events until the browser or the server goes."""
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Accel-Buffering", "no")
        self._over = asyncio.get_running_loop().create_future()
        self.reader.follow(self)
        try:
            await self._over
            await self.finish(set_content_type="text/event-stream")
        except StreamClosedError:
            return
        finally:
            self.reader.leave(self)

    def end(self) -> None:
        """Send no more."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def tell(self, reading: Reading) -> None:
        """Send a reading, if it is news; who is slow gets the newest when they have taken the last, never a backlog."""
        is_slow = self._flushed is not None and not self._flushed.done()
        if is_slow or self._over is None or self._over.done():
            return
        now = time.monotonic()
        if reading.body != self._told:
            self.write(_event(reading.body if self._told else _with_history(reading.body, self.reader)))
        elif now - self._told_at >= _SIGN_OF_LIFE_SECONDS:
            self.write(": nothing new\n\n")
        else:
            return
        self._told = reading.body
        self._told_at = now
        self._flushed = self.flush()


class KeepHandler(VGPUHandler):
    """`POST jupyter-vgpu/keep`: the one request here that counts as activity, for that is what it is for."""

    _track_activity = True

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Answer with `session`, from now on."""
        self.update_api_activity()
        self.reader.expect_news()
        reading = await self.reader.look()
        self.finish(json.dumps({"session": reading.session}))


class PartHandler(VGPUHandler):
    """`POST jupyter-vgpu/part`: restart a Jupyter kernel in a part of the slice."""

    # Who may do this is who may restart Jupyter kernels.
    auth_resource = "kernels"
    _track_activity = True

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Answer with `part`, or with what stood in the way as `error` and `message`."""
        try:
            kernel_id, memory = _part_wanted(self.request.body)
            if kernel_id not in self.kernel_manager:
                raise BadValueError("kernel_id", kernel_id, "the id of a Jupyter kernel of this server is")
            part = await restart_in_part(self.kernel_manager, kernel_id, memory)
        except VGPUError as error:
            self.set_status(error.http_status)
            self.finish(json.dumps({"error": error.reason, "message": str(error)}))
            return
        self.finish(json.dumps({"part": part}))


def _part_wanted(content: bytes) -> tuple[str, str]:
    """Return the Jupyter kernel's id and the memory of a body of `POST jupyter-vgpu/part`.

    Raises:
        BadValueError: It is not understood.
    """
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict) or set(body) != {"kernel_id", "memory"}:
        raise BadValueError(
            "body", content.decode(errors="replace")[:200], 'an object with "kernel_id" and "memory" is'
        )
    for key, value in body.items():
        if not isinstance(value, str):
            raise BadValueError(key, value, "a text is")
    return body["kernel_id"], body["memory"]


def _event(body: bytes) -> bytes:
    return b"data: %b\n\n" % body


def _with_history(body: bytes, reader: FiguresReader) -> bytes:
    """Return the JSON text of an object with the history added."""
    return b'%b, "history": %b}' % (body[:-1], reader.history_body())


ENDPOINTS: list[tuple[str, type[VGPUHandler]]] = [
    (r"jupyter-vgpu/slice", SliceHandler),
    (r"jupyter-vgpu/usage", UsageHandler),
    (r"jupyter-vgpu/history", HistoryHandler),
    (r"jupyter-vgpu/live", LiveHandler),
    (r"jupyter-vgpu/keep", KeepHandler),
    (r"jupyter-vgpu/part", PartHandler),
]
