"""Listen and answer before anything slow is imported.

JupyterHub 5 gives a service ten seconds to answer, JupyterHub 6 thirty, and ends itself when they are over. On a busy
machine the imports of this one can take as long, and a hub must not fail to start for the sake of a page.
Standard library only. source: jupyterhub 5.3 and 6.1, app.py, `start_service`
"""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit

_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 2.0
_LARGEST_REQUEST_BYTES = 16 << 10
_TEXT = b"The page of the GPU slices is starting: this comes back by itself."
# Not 503, which the hub takes for no answer; scripts know from 429 to come again after as long as it says.
_ANSWER = (
    b"HTTP/1.1 429 Too Many Requests\r\nRefresh: 2\r\nRetry-After: 2\r\nCache-Control: no-store\r\n"
    b"Content-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_TEXT), _TEXT)
)


class EarlyAnswer:
    """Answers everybody that the service is starting, until what it listens on is handed over."""

    def __init__(self, url: str) -> None:
        """Listen, and answer from a thread.

        Args:
            url: Where, as in `http://127.0.0.1:10101`.

        Raises:
            ValueError: It is no such URL.
            OSError: The port cannot be had.
        """
        address = urlsplit(url)
        if address.scheme != "http" or not address.hostname or not address.port:
            raise ValueError(f"{url!r} is not a URL as http://127.0.0.1:10101")
        self._listener = socket.socket(socket.AF_INET6 if ":" in address.hostname else socket.AF_INET)
        # The hub holds the port for us, see `jupyter_vgpu.hub.wiring`.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._listener.bind((address.hostname, address.port))
        self._listener.listen(128)
        self._listener.settimeout(_LOOK_SECONDS)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._answer_all, name="early-answer", daemon=True)
        self._thread.start()

    def hand_over(self) -> socket.socket:
        """Answer nobody any more, and return what is listened on; who comes meanwhile waits in it."""
        self._is_over.set()
        self._thread.join()
        self._listener.setblocking(False)
        return self._listener

    def _answer_all(self) -> None:
        while not self._is_over.is_set():
            # Whoever hangs up, or says nothing for a while.
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                with connection:
                    _answer(connection)


def _answer(connection: socket.socket) -> None:
    connection.settimeout(_PATIENCE_SECONDS)
    request = b""
    while b"\r\n\r\n" not in request and len(request) < _LARGEST_REQUEST_BYTES:
        part = connection.recv(4096)
        if not part:
            return
        request += part
    connection.sendall(_ANSWER)
