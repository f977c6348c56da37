"""`/live`: the tables of the overview as server-sent events, whenever they have changed.

source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter

from tornado import web
from tornado.iostream import StreamClosedError

from jupyter_vgpu.service.pages import KnownHandler, viewer_of
from jupyter_vgpu.service.rights import Viewer
from jupyter_vgpu.service.showing import overview_values

TICK_SECONDS = 2.0

# Less than what proxies take for silence.
_QUIET_TICKS = 7
_MOST_STREAMS_PER_VIEWER = 16


class Live(KnownHandler):
    """Streams while somebody looks; ends when they are logged out or lose the right to look."""

    sends_to_log_in = False

    def initialize(self) -> None:
        """Begin with the browser there."""
        self._left = asyncio.Event()

    async def get(self) -> None:
        """Stream until the browser leaves."""
        streams: Counter[str] = self.settings["streams"]
        name = self.viewer.name
        if streams[name] >= _MOST_STREAMS_PER_VIEWER:
            raise web.HTTPError(429, f"{_MOST_STREAMS_PER_VIEWER} pages of yours are open already: close some")
        streams[name] += 1
        try:
            await self._stream()
        except StreamClosedError:
            pass
        finally:
            streams[name] -= 1
            streams += Counter()  # drops what is at zero

    async def _stream(self) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("X-Accel-Buffering", "no")
        shown, quiet_ticks = "", 0
        while not self._left.is_set() and (viewer := await self._still_known()) is not None:
            overview = (await self.lookout.look()).seen_by(viewer)
            values = overview_values(overview, viewer)
            tables = self.render_string("tables.html", base=self.hub_auth.base_url, **values).decode()
            if tables != shown:
                shown, quiet_ticks = tables, 0
                self.write(f"data: {json.dumps(tables)}\n\n")
                await self.flush()
            elif (quiet_ticks := quiet_ticks + 1) >= _QUIET_TICKS:
                quiet_ticks = 0
                self.write(": still here\n\n")
                await self.flush()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._left.wait(), TICK_SECONDS)
        if not self._left.is_set():
            self.write("event: end\ndata: \n\n")

    async def _still_known(self) -> Viewer | None:
        """Return who looks, if the hub still lets them: its answer is kept for half a minute."""
        token = self.hub_auth.get_token(self)
        session_id = self.hub_auth.get_session_id(self)
        model = await self.hub_auth.user_for_token(token, session_id=session_id, sync=False) if token else None
        if model is None or not self.hub_auth.check_scopes(self.hub_scopes, model):
            return None
        return viewer_of(model)

    def on_connection_close(self) -> None:
        """Stop streaming."""
        self._left.set()

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Say what is wrong in one line; a stream that has begun just ends."""
        status_code, _, message = self.reason_and_message(status_code, kwargs.get("exc_info"))
        if not self._headers_written:
            self.set_status(status_code)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.write(message)
        self.finish()
